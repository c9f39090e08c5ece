/* The C ideal: the least a single-threaded broker can do, as the mark that Barnabas is held against.
 *
 *   ideal mode=produce log=FILE reply=FILE frame=N records_at=N records=N offset_at=N step=N
 *   ideal mode=fetch   log=FILE reply=FILE frame=N records_at=N records=N ask_at=N    step=N
 *
 * produce: receives frames, writes the record batch of each to a file in the page cache with one
 * write, gives it the next base offset and replies. fetch: answers each request with the batch at the
 * wanted offset, straight from an mmapped file.
 *
 * It looks at nothing else: no CRC, no parsing, no index. All requests of a run have one layout, which
 * the arguments tell (positions count from the first byte of the length prefix):
 *   frame       bytes of a request
 *   records_at  where the batch starts, in the request (produce) or in the reply (fetch)
 *   records     bytes of a batch            step    records in a batch, so offsets grow by it
 *   offset_at   where the reply has the base offset; ask_at: where the request has the wanted offset
 *   reply       a whole reply without its batch, to be copied and patched
 * Replies of one readiness event leave together, as a careful server would do it.
 */
#include "bytes.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>

enum { CORRELATION_IN_REQUEST = 8, CORRELATION_IN_REPLY = 4 };
enum { RECEIVE_BYTES = 256 * 1024, MOST_EVENTS = 64, FETCHES_PER_CALL = 64 };

struct wanted {
    uint32_t correlation;
    int64_t offset;
};

struct connection {
    int fd;
    int waits_to_send;
    char *in;
    size_t in_start, in_end;
    char *out;                        /* produce: replies not yet sent */
    size_t out_start, out_end, out_size;
    struct wanted *queue;             /* fetch: requests not yet wholly answered */
    size_t queue_start, queue_end, queue_size;
    size_t answered;                  /* bytes of the first queued answer that are already sent */
};

static int fetching, log_fd, epoll_fd;
static size_t frame_size, in_size, records_at, records_size, offset_at, ask_at, reply_size;
static int64_t step, next_offset;
static char *reply;                   /* the reply's template */
static const char *mapped;            /* fetch: the log */
static size_t mapped_size;

static void *grown(void *old, size_t size) {
    void *bytes = realloc(old, size);
    if (!bytes) die("out of memory");
    return bytes;
}

static void append_and_reply(struct connection *c, const char *request) {
    if (write(log_fd, request + records_at, records_size) != (ssize_t)records_size)
        die("short write to the log: %s", strerror(errno));
    if (c->out_end + reply_size > c->out_size)
        c->out = grown(c->out, c->out_size = 2 * (c->out_size + reply_size));
    char *answer = c->out + c->out_end;
    memcpy(answer, reply, reply_size);
    memcpy(answer + CORRELATION_IN_REPLY, request + CORRELATION_IN_REQUEST, 4);
    put64(answer + offset_at, next_offset);
    next_offset += step;
    c->out_end += reply_size;
}

static void queue_fetch(struct connection *c, const char *request) {
    if (c->queue_end == c->queue_size)
        c->queue = grown(c->queue, sizeof *c->queue * (c->queue_size = 2 * c->queue_size + 64));
    c->queue[c->queue_end].correlation = get32(request + CORRELATION_IN_REQUEST);
    c->queue[c->queue_end].offset = get64(request + ask_at);
    c->queue_end++;
}

static int flush_replies(struct connection *c) {
    while (c->out_start < c->out_end) {
        ssize_t sent = send(c->fd, c->out + c->out_start, c->out_end - c->out_start, MSG_NOSIGNAL);
        if (sent < 0) return errno == EAGAIN ? 0 : -1;
        c->out_start += (size_t)sent;
    }
    c->out_start = c->out_end = 0;
    return 1;
}

static void add_part(struct iovec **part, const char *bytes, size_t size, size_t *skip) {
    if (*skip >= size) {
        *skip -= size;
        return;
    }
    (*part)->iov_base = (void *)(bytes + *skip);
    (*part)->iov_len = size - *skip;
    *skip = 0;
    ++*part;
}

/* Sends as many queued answers as the socket takes: head from the template, batch from the mapping. */
static int flush_fetches(struct connection *c) {
    static char heads[FETCHES_PER_CALL][256];
    size_t answer_size = reply_size + records_size;
    while (c->queue_start < c->queue_end) {
        struct iovec parts[3 * FETCHES_PER_CALL], *end = parts;
        size_t skip = c->answered, count = c->queue_end - c->queue_start;
        if (count > FETCHES_PER_CALL) count = FETCHES_PER_CALL;
        for (size_t i = 0; i < count; i++) {
            struct wanted *wanted = &c->queue[c->queue_start + i];
            size_t position = (size_t)(wanted->offset / step) * records_size;
            if (position + records_size > mapped_size) die("fetch beyond the end of the log");
            memcpy(heads[i], reply, records_at);
            put32(heads[i] + CORRELATION_IN_REPLY, wanted->correlation);
            add_part(&end, heads[i], records_at, &skip);
            add_part(&end, mapped + position, records_size, &skip);
            add_part(&end, reply + records_at, reply_size - records_at, &skip);
        }
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)(end - parts)};
        ssize_t sent = sendmsg(c->fd, &message, MSG_NOSIGNAL);
        if (sent < 0) return errno == EAGAIN ? 0 : -1;
        c->answered += (size_t)sent;
        c->queue_start += c->answered / answer_size;
        c->answered %= answer_size;
    }
    c->queue_start = c->queue_end = 0;
    return 1;
}

/* Takes what arrived and handles the complete frames. -1 when the peer is gone. */
static int receive(struct connection *c) {
    if (c->in_end == in_size) {       /* only an incomplete frame is ever moved, and only when needed */
        memmove(c->in, c->in + c->in_start, c->in_end - c->in_start);
        c->in_end -= c->in_start;
        c->in_start = 0;
    }
    ssize_t got = recv(c->fd, c->in + c->in_end, in_size - c->in_end, 0);
    if (got <= 0) return got < 0 && errno == EAGAIN ? 0 : -1;
    c->in_end += (size_t)got;
    while (c->in_end - c->in_start >= frame_size) {
        const char *request = c->in + c->in_start;
        if (get32(request) + 4 != frame_size) die("a frame of another size than announced");
        if (fetching) queue_fetch(c, request);
        else append_and_reply(c, request);
        c->in_start += frame_size;
    }
    if (c->in_start == c->in_end) c->in_start = c->in_end = 0;
    return 0;
}

static void watch(struct connection *c, int operation) {
    struct epoll_event event = {.events = EPOLLIN | (c->waits_to_send ? EPOLLOUT : 0), .data.ptr = c};
    if (epoll_ctl(epoll_fd, operation, c->fd, &event)) die("epoll_ctl: %s", strerror(errno));
}

static void accept_one(int listener) {
    struct connection *c = calloc(1, sizeof *c);
    c->fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    if (c->fd < 0) die("accept: %s", strerror(errno));
    send_at_once(c->fd);
    c->in = grown(NULL, in_size);
    watch(c, EPOLL_CTL_ADD);
}

static void forget(struct connection *c) {
    close(c->fd);
    free(c->in);
    free(c->out);
    free(c->queue);
    free(c);
}

static void serve(struct connection *c, uint32_t events) {
    int done = events & (EPOLLIN | EPOLLHUP | EPOLLERR) ? receive(c) : 0;
    if (!done) done = fetching ? flush_fetches(c) : flush_replies(c);
    if (done < 0) {
        forget(c);
    } else if (c->waits_to_send != !done) {
        c->waits_to_send = !done;
        watch(c, EPOLL_CTL_MOD);
    }
}

static int listening_socket(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) || listen(listener, 128)
        || getsockname(listener, (struct sockaddr *)&address, &size))
        die("cannot listen: %s", strerror(errno));
    printf("ready, listening on 127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

int main(int argc, char **argv) {
    (void)argc;
    fetching = !strcmp(text(argv, "mode"), "fetch");
    frame_size = (size_t)number(argv, "frame");
    records_at = (size_t)number(argv, "records_at");
    records_size = (size_t)number(argv, "records");
    step = number(argv, "step");
    reply = slurp(text(argv, "reply"), &reply_size);
    if (fetching) {
        ask_at = (size_t)number(argv, "ask_at");
        log_fd = open(text(argv, "log"), O_RDONLY);
        mapped_size = (size_t)lseek(log_fd, 0, SEEK_END);
        mapped = mmap(NULL, mapped_size, PROT_READ, MAP_SHARED, log_fd, 0);
        if (mapped == MAP_FAILED || records_at > 256) die("cannot map the log");
    } else {
        offset_at = (size_t)number(argv, "offset_at");
        log_fd = open(text(argv, "log"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (log_fd < 0) die("cannot open the log: %s", strerror(errno));
    }
    /* Whole frames fill the buffer exactly, so large ones need no moving about. */
    in_size = frame_size < RECEIVE_BYTES ? RECEIVE_BYTES / frame_size * frame_size : frame_size;
    epoll_fd = epoll_create1(0);
    int listener = listening_socket();
    struct epoll_event event = {.events = EPOLLIN}, events[MOST_EVENTS];
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int count = epoll_wait(epoll_fd, events, MOST_EVENTS, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr) serve(events[i].data.ptr, events[i].events);
            else accept_one(listener);
        }
    }
}
