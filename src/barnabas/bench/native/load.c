/* The load generator: keeps a window of requests in flight on some connections, checks every reply.
 *
 *   load port=N frames=FILE connections=N window=N requests=N seconds=N.N
 *        reply_head=N error_at=N offset_at=N step=N ask_at=N batches=N
 *
 * In C, so that the client is not what is measured; the same program drives every server.
 * `frames` holds one whole request for each connection. A run ends after `requests` replies or after
 * `seconds`, whichever comes first, once all that was sent is answered; the result is JSON on stdout.
 *
 * Of each reply it checks the correlation id, the error code (error_at) and an offset (offset_at):
 *   produce (ask_at=0): the base offset given must be higher than the one before by at least `step`
 *   fetch (ask_at>0): the request asks, at that position, for each of `batches` batches of `step`
 *     records in turn, and the batch that comes back must start at the offset asked for
 * Positions count from the first byte of the length prefix; reply_head covers all of them.
 */
#include "bytes.h"
#include <sys/resource.h>

enum { CORRELATION_IN_REQUEST = 8, CORRELATION_IN_REPLY = 4, MOST_HEAD = 256, PATIENCE_MS = 20000 };

struct connection {
    int fd;
    int waits_to_send;
    char *train;           /* `window` copies of the request, in a row: a ring that is sent as it lies */
    int64_t *released_at;  /* when each slot of the train was last released */
    uint64_t released;     /* requests allowed to leave; slot k of the train is k modulo window */
    uint64_t sent;         /* bytes */
    uint64_t answered;     /* replies */
    uint64_t first;        /* fetch: the batch with which this connection starts */
    int64_t last_offset;   /* produce: of the last reply */
    char head[MOST_HEAD];
    size_t head_size;      /* bytes of the current reply's head that are here */
    size_t skip;           /* bytes of the current reply still to come after the head */
};

static int epoll_fd;
static size_t frame_size, window, reply_head, error_at, offset_at, ask_at;
static int64_t step, batches;
static uint64_t most_requests, released, answered;
static int64_t deadline;
static uint32_t *latency_ns;
static char scratch[1024 * 1024];

static int64_t asked(const struct connection *c, uint64_t request) {
    return (int64_t)((c->first + request) % (uint64_t)batches) * step;
}

/* Lets requests leave until the window is full or the run is over. A slot is free again once its
 * reply came, and by then it was sent, so patching it in place is safe. */
static void release(struct connection *c, int64_t now) {
    while (c->released - c->answered < window && released < most_requests && now < deadline) {
        size_t slot = c->released % window;
        char *request = c->train + slot * frame_size;
        put32(request + CORRELATION_IN_REQUEST, (uint32_t)c->released);
        if (ask_at) put64(request + ask_at, asked(c, c->released));
        c->released_at[slot] = now;
        c->released++;
        released++;
    }
}

static void send_released(struct connection *c) {
    uint64_t limit = c->released * frame_size;
    while (c->sent < limit) {
        size_t from = c->sent % (window * frame_size);
        size_t size = window * frame_size - from;
        if (size > limit - c->sent) size = limit - c->sent;
        ssize_t sent = send(c->fd, c->train + from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EAGAIN) break;
        if (sent < 0) die("the server closed the connection while requests were sent: %s", strerror(errno));
        c->sent += (uint64_t)sent;
    }
    int waits = c->sent < limit;
    if (waits == c->waits_to_send) return;
    c->waits_to_send = waits;
    struct epoll_event event = {.events = EPOLLIN | (waits ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &event);
}

static void check_reply(struct connection *c, int64_t now) {
    uint32_t correlation = get32(c->head + CORRELATION_IN_REPLY);
    if (correlation != (uint32_t)c->answered)
        die("reply with correlation id %u where %u was due", correlation, (uint32_t)c->answered);
    int error = (int16_t)((uint8_t)c->head[error_at] << 8 | (uint8_t)c->head[error_at + 1]);
    if (error) die("request %llu got error code %d", (unsigned long long)c->answered, error);
    int64_t offset = get64(c->head + offset_at);
    if (ask_at && offset != asked(c, c->answered))
        die("asked for offset %lld, got %lld", (long long)asked(c, c->answered), (long long)offset);
    if (!ask_at && offset < c->last_offset + step)
        die("base offset %lld after %lld", (long long)offset, (long long)c->last_offset);
    c->last_offset = offset;
    int64_t took = now - c->released_at[c->answered % window];
    latency_ns[answered++] = took > UINT32_MAX ? UINT32_MAX : (uint32_t)took;
    c->answered++;
}

static void take(struct connection *c, const char *bytes, size_t size, int64_t now) {
    while (size) {
        if (c->skip) {
            size_t part = c->skip < size ? c->skip : size;
            c->skip -= part;
            bytes += part;
            size -= part;
            continue;
        }
        size_t part = reply_head - c->head_size < size ? reply_head - c->head_size : size;
        memcpy(c->head + c->head_size, bytes, part);
        c->head_size += part;
        bytes += part;
        size -= part;
        if (c->head_size >= 4 && get32(c->head) + 4 < reply_head)
            die("a reply of only %u bytes: an error, or a layout that is not expected", get32(c->head));
        if (c->head_size < reply_head) return;
        check_reply(c, now);
        c->skip = get32(c->head) + 4 - reply_head;
        c->head_size = 0;
    }
}

static void receive(struct connection *c) {
    ssize_t got = recv(c->fd, scratch, sizeof scratch, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) die("the server closed the connection after %llu replies", (unsigned long long)c->answered);
    take(c, scratch, (size_t)got, now_ns());
}

static struct connection *connected(int port, const char *frame) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct connection *c = calloc(1, sizeof *c);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address))
        die("cannot connect to port %d: %s", port, strerror(errno));
    send_at_once(c->fd);
    c->train = malloc(window * frame_size);
    c->released_at = calloc(window, sizeof *c->released_at);
    for (size_t slot = 0; slot < window; slot++) memcpy(c->train + slot * frame_size, frame, frame_size);
    c->last_offset = -step;
    return c;
}

static void drive(struct connection **connections, int count) {
    epoll_fd = epoll_create1(0);
    for (int i = 0; i < count; i++) {
        struct connection *c = connections[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event);
        release(c, now_ns());
    }
    for (int i = 0; i < count; i++) send_released(connections[i]);
    struct epoll_event events[64];
    while (answered < released) {
        int ready = epoll_wait(epoll_fd, events, 64, PATIENCE_MS);
        if (ready == 0) die("no reply for %d s", PATIENCE_MS / 1000);
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(c);
            release(c, now_ns());
            send_released(c);
        }
    }
}

static int compare(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static double percentile_us(double share) {
    return answered ? latency_ns[(uint64_t)(share * (double)(answered - 1))] / 1e3 : 0;
}

/* Tells whether the client itself was the limit. */
static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
           + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void report(double took_s, double cpu_s) {
    qsort(latency_ns, answered, sizeof *latency_ns, compare);
    printf("{\"requests\": %llu, \"seconds\": %.9f, \"client_cpu_seconds\": %.6f, "
           "\"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}\n",
           (unsigned long long)answered, took_s, cpu_s, percentile_us(0.5),
           percentile_us(0.99), percentile_us(1));
}

int main(int argc, char **argv) {
    (void)argc;
    int port = (int)number(argv, "port"), count = (int)number(argv, "connections");
    size_t size;
    const char *frames = slurp(text(argv, "frames"), &size);
    frame_size = size / (size_t)count;
    window = (size_t)number(argv, "window");
    most_requests = (uint64_t)number(argv, "requests");
    reply_head = (size_t)number(argv, "reply_head");
    error_at = (size_t)number(argv, "error_at");
    offset_at = (size_t)number(argv, "offset_at");
    ask_at = (size_t)number(argv, "ask_at");
    step = number(argv, "step");
    batches = number(argv, "batches");
    if (reply_head > MOST_HEAD) die("reply_head is at most %d", MOST_HEAD);
    latency_ns = malloc(sizeof *latency_ns * most_requests);
    struct connection **connections = malloc(sizeof *connections * (size_t)count);
    for (int i = 0; i < count; i++) {
        connections[i] = connected(port, frames + (size_t)i * frame_size);
        connections[i]->first = (uint64_t)(batches * i / count);
    }
    double cpu = cpu_seconds();
    int64_t start = now_ns();
    deadline = start + (int64_t)(atof(text(argv, "seconds")) * 1e9);
    drive(connections, count);
    report((double)(now_ns() - start) / 1e9, cpu_seconds() - cpu);
    return 0;
}
