/* What both programs share: big-endian numbers, key=value arguments, a clock, and how to give up. */
#ifndef BENCH_BYTES_H
#define BENCH_BYTES_H

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static inline uint32_t get32(const char *from) {
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return be32toh(value);
}

static inline int64_t get64(const char *from) {
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return (int64_t)be64toh(value);
}

static inline void put32(char *to, uint32_t value) {
    value = htobe32(value);
    memcpy(to, &value, sizeof value);
}

static inline void put64(char *to, int64_t value) {
    uint64_t raw = htobe64((uint64_t)value);
    memcpy(to, &raw, sizeof raw);
}

/* The value of NAME=VALUE on the command line. */
static const char *text(char **argv, const char *name) {
    size_t length = strlen(name);
    for (char **argument = argv + 1; *argument; argument++)
        if (!strncmp(*argument, name, length) && (*argument)[length] == '=')
            return *argument + length + 1;
    die("missing argument %s=", name);
    return NULL;
}

static int64_t number(char **argv, const char *name) { return atoll(text(argv, name)); }

/* The whole of a file; the caller keeps it until the process ends. */
static char *slurp(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) die("cannot open %s: %s", path, strerror(errno));
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*size ? *size : 1);
    if (!bytes || fread(bytes, 1, *size, file) != *size) die("cannot read %s", path);
    fclose(file);
    return bytes;
}

static inline int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static inline void send_at_once(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

#endif
