/* A load generator for message brokers: one thread, epoll, a closed loop.
 *
 * CONNECTIONS sockets, spread over the ports of all brokers, keep WINDOW requests each on their
 * way; an answer makes room for the next request. Frames are made once and copied; what differs
 * from message to message (opaque, born time, UNIQ_KEY) is written over the copy. Every answer is looked at: whatever does not say that
 * the message is stored, or does not hold the messages that were asked for, counts as an error.
 *
 *     send       RocketMQ, code 310: one message a request, as Java producers 5.3 write it
 *     batch      RocketMQ, code 320: BATCH messages a request
 *     pull       RocketMQ, code 11: BATCH messages a request, over and over what the topic holds
 *     pop        RocketMQ, codes 200050 and 200051: BATCH messages, each acknowledged by itself
 *     popbatch   the same, acknowledged together by code 200151
 *     transaction  RocketMQ, codes 310 and 37: a half message, then its commit
 *     xadd       Redis, one stream a queue
 *     jetstream  NATS, one subject a queue, each message acknowledged by its stream
 *     kafka      Kafka, Produce v7 with acks=1: one message a request
 *     kafka-batch, kafka-fetch  the same with BATCH messages, and Fetch v4 of as many
 *
 * With RATE it is an open loop: so many messages a second, and readers of GROUPS groups that wait
 * for them; latencies are then from when a message was due until a reader had it.
 *
 * Prints "measuring" when the warm-up is over, then one line of JSON; the first error goes to
 * standard error. Leaves with 0, with 2 if there were errors, with 1 if it could not go on.
 */
#define _GNU_SOURCE
#include "loadgen.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static const char *const NAMES[] = {
    "send", "batch",     "pull",  "pop",         "popbatch",    "transaction",
    "xadd", "jetstream", "kafka", "kafka-batch", "kafka-fetch",
};

enum { DRAIN_S = 5, TURN_NS = 10000000 };

enum protocol protocol = SEND;
const char *topic = "BenchTopic", *group = "bench_consumer", *property;
int ports[MAX_PORTS], port_count;
const char *brokers[MAX_PORTS];
int connections = 1, window = 1, body_bytes = 100, queues = 4, batch = 32, topics = 1, groups = 1;
int keyed;
double rate;
static double warmup_s = 0.5, seconds = 2;
static uint64_t wanted; /* messages in all, 0 for the time to decide */
static uint64_t asked;  /* messages in the requests so far */

uint64_t messages, requests, errors, answered_ns, born_ms;
int measuring;
static int draining, epoll;

void fail(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
    exit(1);
}

void count_error(const char *what, const char *text, size_t length)
{
    if (errors++ == 0)
        fprintf(stderr, "%s: %.*s\n", what, (int)(length < 500 ? length : 500), text);
}

uint64_t now_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void watch(struct connection *at, int operation)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = at};
    if (at->wants_write)
        event.events |= EPOLLOUT;
    if (epoll_ctl(epoll, operation, at->fd, &event) < 0)
        fail("epoll_ctl: %s", strerror(errno));
}

static void write_out(struct connection *to)
{
    while (to->out_start < to->out_end) {
        ssize_t sent =
            send(to->fd, to->out + to->out_start, to->out_end - to->out_start, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            fail("send: %s", strerror(errno));
        if (sent < 0)
            break;
        to->out_start += (size_t)sent;
    }
    if (to->out_start == to->out_end)
        to->out_start = to->out_end = 0;
    int left = to->out_end > 0;
    if (left != to->wants_write) {
        to->wants_write = left;
        watch(to, EPOLL_CTL_MOD);
    }
}

int open_requests(const struct connection *at)
{
    if (protocol == JETSTREAM && at->reads)
        return 1; /* it is sent what there is, without asking */
    return protocol == XADD ? (int)(at->sequence - at->oldest)
                            : (at->reads ? 1 : window) - at->free_count;
}

static void fill(struct connection *to)
{
    uint64_t now = now_ns(CLOCK_MONOTONIC);
    int paced = rate > 0 && !to->reads;
    while (!paced && (!draining || to->reads) && (!wanted || asked < wanted)
           && open_requests(to) < (to->reads ? 1 : window)) {
        add_request(to, now);
        asked += protocol == SEND || protocol == XADD || protocol == JETSTREAM || protocol == KAFKA
                         || protocol == TRANSACTION
                     ? 1
                     : (unsigned)batch;
    }
    write_out(to);
}

static void read_in(struct connection *from)
{
    if (from->in_size - from->in_length < 65536) {
        from->in_size *= 2;
        if (from->in_size > 2 * (size_t)MAX_ANSWER)
            fail("an answer without end");
        from->in = realloc(from->in, from->in_size + 1);
        if (!from->in)
            fail("no memory for answers");
    }
    ssize_t got = recv(from->fd, from->in + from->in_length, from->in_size - from->in_length, 0);
    if (got == 0)
        fail("the server closed the connection");
    if (got < 0 && errno == EAGAIN)
        return;
    if (got < 0)
        fail("recv: %s", strerror(errno));
    from->in_length += (size_t)got;
    from->in[from->in_length] = 0;
    uint64_t now = now_ns(CLOCK_MONOTONIC);
    size_t done = 0, used;
    do {
        used = take_answer(from, from->in + done, from->in_length - done, now);
        done += used;
    } while (used);
    memmove(from->in, from->in + done, from->in_length - done);
    from->in_length -= done;
    fill(from);
}

static void open_connection(struct connection *at, int number)
{
    int port = ports[number % port_count], readers = stream_readers();
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct timeval limit = {.tv_sec = SILENCE_S};
    int yes = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (at->fd < 0 || connect(at->fd, (struct sockaddr *)&address, sizeof address) < 0)
        fail("connect to port %d: %s", port, strerror(errno));
    setsockopt(at->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(at->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    at->number = number;
    at->queue = number / port_count % queues;
    at->broker = brokers[number % port_count] ? brokers[number % port_count] : "broker-a";
    at->reads = number < readers;
    at->group = at->reads ? number / port_count / queues : 0;
    at->turn = (unsigned)number * 37;
    at->in_size = 256 << 10;
    at->out_size = 64 << 10;
    at->in = malloc(at->in_size + 1);
    at->out = malloc(at->out_size);
    if (!at->in || !at->out)
        fail("no memory for connection %d", number);
    for (int slot = 0; slot < (at->reads ? 1 : window); slot++)
        at->free_slots[at->free_count++] = slot;
    join(at);
    fcntl(at->fd, F_SETFL, O_NONBLOCK);
    watch(at, EPOLL_CTL_ADD);
}

static int all_open_requests(const struct connection *all)
{
    int open = 0;
    for (int i = stream_readers(); i < connections + stream_readers(); i++)
        open += open_requests(&all[i]);
    return open;
}

static void handle_events(uint64_t wait_ns)
{
    struct epoll_event events[256];
    struct timespec wait = {.tv_sec = 0, .tv_nsec = (long)wait_ns};
    int count = epoll_pwait2(epoll, events, 256, &wait, NULL);
    if (count < 0 && errno != EINTR)
        fail("epoll_wait: %s", strerror(errno));
    born_ms = now_ns(CLOCK_REALTIME) / 1000000;
    for (int i = 0; i < count; i++) {
        if (events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP))
            read_in(events[i].data.ptr);
        else
            write_out(events[i].data.ptr);
    }
}

/* Write what a stream has due; for how long nothing else is comes back. */
static uint64_t keep_pace(struct connection *all, uint64_t now)
{
    uint64_t next = pace(all, now);
    for (int i = stream_readers(); i < connections + stream_readers(); i++)
        if (all[i].out_end && !all[i].wants_write)
            write_out(&all[i]);
    now = now_ns(CLOCK_MONOTONIC);
    return next <= now ? 0 : next - now < TURN_NS ? next - now : TURN_NS;
}

static void print_result(uint64_t measured_ns)
{
    printf("{\"messages\":%lu,\"requests\":%lu,\"seconds\":%.6f,\"p50_us\":%.1f,\"p99_us\":%.1f,"
           "\"p999_us\":%.1f,\"errors\":%lu}\n",
           messages, requests, (double)measured_ns / 1e9, percentile_us(0.5), percentile_us(0.99),
           percentile_us(0.999), errors);
    fflush(stdout);
}

static void run(struct connection *all)
{
    uint64_t start = now_ns(CLOCK_MONOTONIC), now = start;
    uint64_t measure_from = start + (uint64_t)(wanted ? 0 : warmup_s * 1e9), measured_from = start;
    answered_ns = start;
    born_ms = now_ns(CLOCK_REALTIME) / 1000000;
    if (rate > 0)
        start_stream(start);
    for (int i = 0; i < connections + stream_readers(); i++)
        fill(&all[i]);
    for (;;) {
        now = now_ns(CLOCK_MONOTONIC);
        if (!measuring && now >= measure_from) {
            measuring = 1;
            measured_from = now;
            measure_stream(now);
            puts("measuring");
            fflush(stdout);
        }
        if (wanted ? asked >= wanted && !all_open_requests(all)
                   : measuring && (double)(now - measured_from) >= seconds * 1e9)
            break;
        if (now > answered_ns + SILENCE_S * 1000000000ull)
            fail("no answer for %d s, %d requests open", SILENCE_S, all_open_requests(all));
        handle_events(rate > 0 ? keep_pace(all, now) : TURN_NS);
    }
    if (!(rate > 0))
        print_result(now - measured_from);
    /* The next run shall not find this one's requests in the server. */
    measuring = rate > 0;
    draining = 1;
    end_stream();
    uint64_t end = now + DRAIN_S * 1000000000ull;
    while ((all_open_requests(all) || stream_is_behind()) && now_ns(CLOCK_MONOTONIC) < end)
        handle_events(TURN_NS);
    if (all_open_requests(all))
        fail("%d requests were never answered", all_open_requests(all));
    if (stream_is_behind())
        fail("it does not keep up with %.0f messages a second", rate);
    if (rate > 0)
        print_result(now - measured_from);
}

static void take_option(const char *name, const char *value)
{
    struct { const char *name; int *to; int least, most; } numbers[] = {
        {"--groups", &groups, 1, 100},       {"--connections", &connections, 1, 9999},
        {"--window", &window, 1, MAX_WINDOW}, {"--body", &body_bytes, 1, 1 << 20},
        {"--queues", &queues, 1, 1024},      {"--batch", &batch, 1, MAX_BATCH},
        {"--topics", &topics, 1, 99999},     {"--keyed", &keyed, 0, 1},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(name, numbers[i].name) == 0) {
            *numbers[i].to = atoi(value);
            if (*numbers[i].to < numbers[i].least || *numbers[i].to > numbers[i].most)
                fail("%s takes %d to %d", name, numbers[i].least, numbers[i].most);
            return;
        }
    if (strcmp(name, "--protocol") == 0) {
        for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
            if (strcmp(value, NAMES[i]) == 0) {
                protocol = (enum protocol)i;
                return;
            }
        fail("there is no protocol %s", value);
    }
    if (strcmp(name, "--port") == 0) {
        for (port_count = 0; *value && port_count < MAX_PORTS; value += *value == ',')
            ports[port_count++] = (int)strtol(value, (char **)&value, 10);
        return;
    }
    if (strcmp(name, "--brokers") == 0) {
        char *rest = NULL, *names = strdup(value), *each = strtok_r(names, ",", &rest);
        for (int i = 0; each && i < MAX_PORTS; each = strtok_r(NULL, ",", &rest))
            brokers[i++] = each;
        return;
    }
    if (strcmp(name, "--topic") == 0 && strlen(value) < 128)
        topic = value;
    else if (strcmp(name, "--group") == 0 && strlen(value) < 128)
        group = value;
    else if (strcmp(name, "--property") == 0 && strchr(value, '=') && strlen(value) < 128)
        property = value;
    else if (strcmp(name, "--rate") == 0)
        rate = atof(value);
    else if (strcmp(name, "--warmup") == 0)
        warmup_s = atof(value);
    else if (strcmp(name, "--seconds") == 0)
        seconds = atof(value);
    else if (strcmp(name, "--count") == 0)
        wanted = strtoull(value, NULL, 10);
    else
        fail("no such option: %s %s", name, value);
}

int main(int count, char **arguments)
{
    if (count % 2 == 0)
        fail("each option takes a value; %s has none", arguments[count - 1]);
    for (int i = 1; i < count; i += 2)
        take_option(arguments[i], arguments[i + 1]);
    if (!port_count || !ports[0])
        fail("--port is missing");
    if (rate > 0 && protocol != SEND && protocol != XADD && protocol != JETSTREAM
        && protocol != KAFKA)
        fail("streams are of single messages");
    prctl(PR_SET_TIMERSLACK, 1);
    /* Another run against the same server shall not have the same keys. */
    build_templates((now_ns(CLOCK_REALTIME) / 1000) << 4);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    struct connection *all = calloc((size_t)(connections + stream_readers()), sizeof *all);
    if (epoll < 0 || !all)
        fail("no memory for %d connections", connections);
    for (int i = 0; i < connections + stream_readers(); i++)
        open_connection(&all[i], i);
    run(all);
    return errors ? 2 : 0;
}
