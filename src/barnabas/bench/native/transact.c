/* Transactions one after the other on each connection: AddPartitionsToTxn, Produce, EndTxn.
 *
 *   transact port=N connections=N frames=FILE add=N produce=N end=N records_at=N
 *            add_error_at=N produce_error_at=N end_error_at=N seconds=N.N again_us=N patience_ms=N
 *
 * In C, so that the client is not what is measured; the same program drives every server.
 * `frames` holds the three requests of each connection, of the sizes `add`, `produce` and `end`. The
 * batch of one record, at `records_at` in the Produce, gets the next sequence number and its CRC. A
 * request that is refused for now (CONCURRENT_TRANSACTIONS, NOT_ENOUGH_REPLICAS) is sent again after
 * `again_us`, until its transaction is too old. No transaction begins after `seconds`. The result is JSON on stdout; `took_us` is, of
 * each transaction, the time from its first request to the response to its EndTxn.
 * Positions count from the first byte of the length prefix.
 */
#include "bytes.h"
#include <poll.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/resource.h>

enum {
    CORRELATION_IN_REQUEST = 8,
    CORRELATION_IN_REPLY = 4,
    SIZE_IN_BATCH = 8,
    CRC_IN_BATCH = 17,
    CHECKED_IN_BATCH = 21,
    SEQUENCE_IN_BATCH = 53,
    NOT_ENOUGH_REPLICAS = 19,
    CONCURRENT_TRANSACTIONS = 51,
    MOST_REPLY = 4096,
    MOST_CONNECTIONS = 64,
    ADD = 0,
    PRODUCE,
    END,
    REQUESTS,
    IDLE
};

static const char *const NAMES[] = {"AddPartitionsToTxn", "Produce", "EndTxn"};

struct connection {
    int fd;
    int at;                /* the request that is due or in flight; IDLE after the deadline */
    char *requests[REQUESTS];
    uint32_t correlation;
    uint32_t sequence;     /* of the next record */
    int64_t begun_at;
    int64_t again_at;      /* when the request is sent again; 0 while it is in flight */
    size_t got;
    char reply[MOST_REPLY];
};

static struct connection connections[MOST_CONNECTIONS];
static int count;
static size_t sizes[REQUESTS], error_at[REQUESTS], records_at;
static int64_t deadline, again_ns, patience_ns;
static uint64_t committed, capacity, refused;
static uint32_t *took_us;
static uint32_t crc_table[256];

static void fill_crc_table(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
        crc_table[byte] = crc;
    }
}

static uint32_t crc32c(const char *from, size_t size) {
    uint32_t crc = ~0u;
    while (size--) crc = crc >> 8 ^ crc_table[(uint8_t)(crc ^ (uint8_t)*from++)];
    return ~crc;
}

static void number_batch(struct connection *c) {
    char *batch = c->requests[PRODUCE] + records_at;
    put32(batch + SEQUENCE_IN_BATCH, c->sequence++);
    size_t size = get32(batch + SIZE_IN_BATCH) + SIZE_IN_BATCH + 4;
    put32(batch + CRC_IN_BATCH, crc32c(batch + CHECKED_IN_BATCH, size - CHECKED_IN_BATCH));
}

static void send_request(struct connection *c) {
    char *request = c->requests[c->at];
    put32(request + CORRELATION_IN_REQUEST, ++c->correlation);
    c->again_at = 0;
    c->got = 0;
    for (size_t sent = 0; sent < sizes[c->at];) {
        ssize_t part = send(c->fd, request + sent, sizes[c->at] - sent, MSG_NOSIGNAL);
        if (part < 0) die("the server closed the connection: %s", strerror(errno));
        sent += (size_t)part;
    }
}

static void begin(struct connection *c, int64_t now) {
    c->at = now < deadline ? ADD : IDLE;
    if (c->at == IDLE) return;
    c->begun_at = now;
    number_batch(c);
    send_request(c);
}

static void commit(const struct connection *c, int64_t now) {
    if (committed == capacity) {
        capacity = capacity ? 2 * capacity : 4096;
        took_us = realloc(took_us, capacity * sizeof *took_us);
        if (!took_us) die("no memory");
    }
    took_us[committed++] = (uint32_t)((now - c->begun_at) / 1000);
}

static void check_reply(struct connection *c, int64_t now) {
    if (get32(c->reply + CORRELATION_IN_REPLY) != c->correlation)
        die("%s: reply with another correlation id", NAMES[c->at]);
    if (c->got < error_at[c->at] + 2)
        die("%s: a reply of only %zu bytes", NAMES[c->at], c->got);
    const uint8_t *code = (const uint8_t *)c->reply + error_at[c->at];
    int error = (int16_t)(code[0] << 8 | code[1]);
    if (error == CONCURRENT_TRANSACTIONS || error == NOT_ENOUGH_REPLICAS) {
        refused++;
        if (now - c->begun_at > patience_ns)
            die("%s got error code %d for %g s", NAMES[c->at], error, (double)patience_ns / 1e9);
        c->again_at = now + again_ns;
    } else if (error) {
        die("%s got error code %d", NAMES[c->at], error);
    } else if (c->at < END) {
        c->at++;
        send_request(c);
    } else {
        commit(c, now);
        begin(c, now);
    }
}

static void receive(struct connection *c) {
    ssize_t part = recv(c->fd, c->reply + c->got, MOST_REPLY - c->got, MSG_DONTWAIT);
    if (part < 0 && errno == EAGAIN) return;
    if (part <= 0) die("the server closed the connection after %llu transactions", (unsigned long long)committed);
    c->got += (size_t)part;
    if (c->got >= 4 && get32(c->reply) + 4 > MOST_REPLY) die("%s: a reply of %u bytes", NAMES[c->at], get32(c->reply));
    if (c->got >= 4 && c->got >= get32(c->reply) + 4) check_reply(c, now_ns());
}

static void connect_to(int port, struct connection *c, char *frames) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address))
        die("cannot connect to port %d: %s", port, strerror(errno));
    send_at_once(c->fd);
    for (int at = ADD; at < REQUESTS; frames += sizes[at++]) c->requests[at] = frames;
}

/* Sends again what is due; returns how long to wait for replies. */
static int64_t send_due(int64_t now) {
    int64_t wait = patience_ns;
    for (int i = 0; i < count; i++) {
        struct connection *c = &connections[i];
        if (c->again_at && c->again_at <= now) send_request(c);
        if (c->again_at && c->again_at - now < wait) wait = c->again_at - now;
    }
    return wait;
}

static int is_over(void) {
    for (int i = 0; i < count; i++)
        if (connections[i].at != IDLE) return 0;
    return 1;
}

static void drive(void) {
    struct pollfd ready[MOST_CONNECTIONS];
    for (int i = 0; i < count; i++) {
        ready[i] = (struct pollfd){.fd = connections[i].fd, .events = POLLIN};
        begin(&connections[i], now_ns());
    }
    int64_t heard_at = now_ns();
    while (!is_over()) {
        int64_t wait = send_due(now_ns());
        struct timespec most = {.tv_sec = wait / 1000000000, .tv_nsec = wait % 1000000000};
        int found = ppoll(ready, (nfds_t)count, &most, NULL);
        if (found > 0) heard_at = now_ns();
        if (now_ns() - heard_at > patience_ns) die("no reply for %g s", (double)patience_ns / 1e9);
        for (int i = 0; i < count && found > 0; i++)
            if (ready[i].revents) receive(&connections[i]);
    }
}

/* Tells whether the client itself was the limit. */
static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
           + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void report(double took_s, double cpu_s) {
    printf("{\"seconds\": %.9f, \"client_cpu_seconds\": %.6f, \"refused\": %llu, \"took_us\": [",
           took_s, cpu_s, (unsigned long long)refused);
    for (uint64_t each = 0; each < committed; each++) printf(each ? ",%u" : "%u", took_us[each]);
    printf("]}\n");
}

int main(int argc, char **argv) {
    (void)argc;
    int port = (int)number(argv, "port");
    count = (int)number(argv, "connections");
    if (count > MOST_CONNECTIONS) die("connections are at most %d", MOST_CONNECTIONS);
    sizes[ADD] = (size_t)number(argv, "add");
    sizes[PRODUCE] = (size_t)number(argv, "produce");
    sizes[END] = (size_t)number(argv, "end");
    error_at[ADD] = (size_t)number(argv, "add_error_at");
    error_at[PRODUCE] = (size_t)number(argv, "produce_error_at");
    error_at[END] = (size_t)number(argv, "end_error_at");
    records_at = (size_t)number(argv, "records_at");
    again_ns = number(argv, "again_us") * 1000;
    patience_ns = number(argv, "patience_ms") * 1000000;
#ifdef __linux__
    prctl(PR_SET_TIMERSLACK, 1UL); /* else `again_us` is 50 us longer */
#endif
    size_t size;
    char *frames = slurp(text(argv, "frames"), &size);
    if (size != (size_t)count * (sizes[ADD] + sizes[PRODUCE] + sizes[END])) die("frames of other sizes");
    fill_crc_table();
    for (int i = 0; i < count; i++) connect_to(port, &connections[i], frames + size / (size_t)count * (size_t)i);
    double cpu = cpu_seconds();
    int64_t start = now_ns();
    deadline = start + (int64_t)(atof(text(argv, "seconds")) * 1e9);
    drive();
    report((double)(now_ns() - start) / 1e9, cpu_seconds() - cpu);
    return 0;
}
