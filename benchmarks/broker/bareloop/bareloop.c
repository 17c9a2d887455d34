/* The limit: what a server costs that does nothing but take frames, keep them and answer.
 *
 * One thread, epoll. In each turn every connection's frames are read with one system call, all of
 * them are appended to a file with one, and every connection is answered with one. Nothing is
 * looked at but length, code and opaque; there are no queues, no index, no checksum. Pulls are
 * answered from memory with records that were made at the start.
 *
 *     bareloop PORT FILE async|sync
 *
 * Speaks RocketMQ: sends (310, 320), pulls of topics whose names end in a body's size (11), the
 * ends of queues (30) and heartbeats (34).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    MAX_FDS = 20000,
    EVENTS = 256,
    IN_BYTES = 1 << 20,
    RECORDS = 32,
    RECORD_HEAD = 91, /* of a record without topic and properties: 88, then two lengths */
    QUEUE_END = 16000,
    PULL_BYTES = 256 << 10,
};

struct peer {
    char *in, *out;
    size_t in_length, out_start, out_end, out_size;
    int wants_write;
};

static struct peer peers[MAX_FDS];
static int epoll;
static uint64_t stored;
static char records[RECORDS * (RECORD_HEAD + 65536)];
static size_t record_bytes;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static uint32_t read_u32(const char *at)
{
    uint32_t value;
    memcpy(&value, at, 4);
    return ntohl(value);
}

static void write_u32(char *at, uint32_t value)
{
    value = htonl(value);
    memcpy(at, &value, 4);
}

static long number(const char *header, size_t length, const char *name)
{
    const char *at = memmem(header, length, name, strlen(name));
    return at ? strtol(at + strlen(name), NULL, 10) : -1;
}

static char *room(struct peer *to, size_t length)
{
    if (to->out_end + length > to->out_size) {
        to->out_size = 2 * (to->out_end + length);
        to->out = realloc(to->out, to->out_size);
        if (!to->out)
            die("realloc");
    }
    return to->out + to->out_end;
}

static void answer(struct peer *to, long opaque, const char *fields, size_t body)
{
    char *frame = room(to, 600 + body);
    int header = sprintf(frame + 8,
                         "{\"code\":0,\"extFields\":{%s},\"flag\":1,\"language\":\"OTHER\","
                         "\"opaque\":%ld,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}",
                         fields, opaque);
    write_u32(frame, (uint32_t)(4 + (size_t)header + body));
    write_u32(frame + 4, (uint32_t)header);
    to->out_end += 8 + (size_t)header;
}

/* Records of one size, whose queue offsets each answer writes anew. */
static void make_records(size_t body)
{
    record_bytes = RECORD_HEAD + body;
    for (int i = 0; i < RECORDS; i++) {
        char *at = records + (size_t)i * record_bytes;
        memset(at, 'x', record_bytes);
        memset(at, 0, 88);
        write_u32(at, (uint32_t)record_bytes);
        write_u32(at + 4, 0xDAA320A7u);
        write_u32(at + 84, (uint32_t)body);
        memset(at + record_bytes - 3, 0, 3);
    }
}

static void answer_pull(struct peer *to, const char *header, size_t length, long opaque)
{
    const char *topic = memmem(header, length, "\"topic\":\"", 9);
    size_t body = 0;
    if (topic)
        body = strtoul(topic + 9 + strcspn(topic + 9, "0123456789\""), NULL, 10);
    if (!body || body > 65536)
        body = 100;
    if (record_bytes != RECORD_HEAD + body)
        make_records(body);
    long offset = number(header, length, "\"queueOffset\":\"");
    size_t count = PULL_BYTES / record_bytes < RECORDS ? PULL_BYTES / record_bytes : RECORDS;
    answer(to, opaque, "\"maxOffset\":\"16000\",\"minOffset\":\"0\",\"nextBeginOffset\":\"32\"",
           count * record_bytes);
    char *at = room(to, count * record_bytes);
    memcpy(at, records, count * record_bytes);
    for (size_t i = 0; i < count; i++)
        write_u32(at + i * record_bytes + 24, (uint32_t)(offset + (long)i));
    to->out_end += count * record_bytes;
}

static void take(struct peer *from, const char *frame)
{
    size_t length = read_u32(frame + 4) & 0xFFFFFF;
    const char *header = frame + 8;
    long code = number(header, length, "\"code\":"), opaque = number(header, length, "\"opaque\":");
    char fields[200];
    if (code == 11) {
        answer_pull(from, header, length, opaque);
    } else if (code == 30) {
        sprintf(fields, "\"offset\":\"%d\"", QUEUE_END);
        answer(from, opaque, fields, 0);
    } else {
        sprintf(fields, "\"msgId\":\"7F00000100002A9F%016lX\",\"queueId\":\"0\",\"queueOffset\":\"%lu\"",
                stored, stored);
        stored++;
        answer(from, opaque, fields, 0);
    }
}

static void leave(int fd)
{
    close(fd);
    free(peers[fd].in);
    free(peers[fd].out);
    memset(&peers[fd], 0, sizeof peers[fd]);
}

/* Read once, answer every whole frame, and say which bytes are to be kept. */
static struct iovec read_in(int fd)
{
    struct peer *from = &peers[fd];
    ssize_t got = recv(fd, from->in + from->in_length, IN_BYTES - from->in_length, 0);
    if (got <= 0) {
        if (got == 0 || errno != EAGAIN)
            leave(fd);
        return (struct iovec){0};
    }
    from->in_length += (size_t)got;
    size_t done = 0;
    while (from->in_length - done >= 4) {
        size_t total = 4 + (size_t)read_u32(from->in + done);
        if (total > IN_BYTES) {
            leave(fd);
            return (struct iovec){0};
        }
        if (from->in_length - done < total)
            break;
        take(from, from->in + done);
        done += total;
    }
    return (struct iovec){from->in, done};
}

static void watch(int fd, int wants_write)
{
    struct epoll_event event = {.events = EPOLLIN | (wants_write ? EPOLLOUT : 0), .data.fd = fd};
    if (peers[fd].wants_write != wants_write && epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event) < 0)
        die("epoll_ctl");
    peers[fd].wants_write = wants_write;
}

static void write_out(int fd)
{
    struct peer *to = &peers[fd];
    while (to->out_start < to->out_end) {
        ssize_t sent =
            send(fd, to->out + to->out_start, to->out_end - to->out_start, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) {
            leave(fd);
            return;
        }
        if (sent < 0) {
            watch(fd, 1);
            return;
        }
        to->out_start += (size_t)sent;
    }
    to->out_start = to->out_end = 0;
    watch(fd, 0);
}

static void welcome(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK), yes = 1;
    if (fd < 0 || fd >= MAX_FDS)
        die("accept");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    peers[fd].in = malloc(IN_BYTES);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (!peers[fd].in || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        die("a new connection");
}

static void turn(int listener, int file, int sync)
{
    struct epoll_event events[EVENTS];
    struct iovec kept[EVENTS];
    int count = epoll_wait(epoll, events, EVENTS, -1);
    for (int i = 0; i < count; i++) {
        int fd = events[i].data.fd;
        kept[i] = (struct iovec){0};
        if (fd == listener)
            welcome(listener);
        else if (events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP))
            kept[i] = read_in(fd);
    }
    if (count > 0 && writev(file, kept, count) < 0)
        die("writev");
    if (sync && count > 0 && fdatasync(file) < 0)
        die("fdatasync");
    for (int i = 0; i < count; i++) {
        struct peer *at = &peers[events[i].data.fd];
        if (!at->in)
            continue;
        at->in_length -= kept[i].iov_len;
        memmove(at->in, at->in + kept[i].iov_len, at->in_length);
        write_out(events[i].data.fd);
    }
}

int main(int count, char **arguments)
{
    if (count != 4)
        return fprintf(stderr, "bareloop PORT FILE async|sync\n"), 2;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(arguments[1]))};
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    int file = open(arguments[2], O_WRONLY | O_CREAT | O_APPEND, 0644);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (file < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) < 0
        || listen(listener, 1024) < 0)
        die("start");
    epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;)
        turn(listener, file, strcmp(arguments[3], "sync") == 0);
}
