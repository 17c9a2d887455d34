/* What the files of the load generator share: settings, connections, counts. */
#ifndef LOADGEN_H
#define LOADGEN_H

#include <arpa/inet.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

enum protocol {
    SEND,
    BATCH,
    PULL,
    POP,
    POP_BATCH,
    TRANSACTION,
    XADD,
    JETSTREAM,
    KAFKA,
    KAFKA_BATCH,
    KAFKA_FETCH,
};

enum {
    MAX_PORTS = 16,
    MAX_WINDOW = 1000,
    MAX_BATCH = 1024,
    MAX_ANSWER = 32 << 20,
    FIRST_OPAQUE = 10000000, /* eight digits, so that frames keep their length */
    OPAQUES = 80000000,
    SILENCE_S = 10,
};

/* Settings */
extern enum protocol protocol;
extern const char *topic, *group, *property;
extern int ports[MAX_PORTS], port_count;
extern const char *brokers[MAX_PORTS]; /* how the broker behind each port is called */
extern int connections, window, body_bytes, queues, batch, topics, groups;
extern int keyed; /* whether messages have KEYS too */
extern double rate; /* of a stream, in messages a second; 0 for a closed loop */

struct connection {
    int fd, number, wants_write;
    int reads, group; /* of a stream: whether it takes messages, and for which group */
    char *in, *out;
    size_t in_length, in_size, out_start, out_end, out_size;
    uint64_t started[MAX_WINDOW]; /* when each slot's request was written; 0 for a free slot */
    uint32_t opaques[MAX_WINDOW];
    long offsets[MAX_WINDOW]; /* what each slot's pull asked for */
    int ending[MAX_WINDOW];   /* whether each slot's transaction is being committed */
    int free_slots[MAX_WINDOW], free_count;
    uint32_t sequence, oldest; /* of requests; slots of ordered protocols follow from them */
    unsigned turn;             /* of the templates */
    int queue;
    const char *broker;
    char last_id[64]; /* of what a reader of Redis's has had */
    long next_offset, end_offset; /* of pulls */
};

/* Counts */
extern uint64_t messages, requests, errors, answered_ns, born_ms;
extern int measuring;

/* A request that is ready but for the places that differ from one message to the next. */
struct template {
    char *bytes;
    int length;
    int opaque, born, slot, topic, stamp; /* where they stand in it; -1 for nowhere */
    int records;                          /* where Kafka's record batch begins */
    int keys[2 * MAX_BATCH], key_count;
};

int open_requests(const struct connection *at);
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void count_error(const char *what, const char *text, size_t length);
uint64_t now_ns(clockid_t clock);

/* requests.c: what is sent */
void build_templates(uint64_t first_key);
void add_request(struct connection *to, uint64_t now);
void add_frame(struct connection *to, int code, uint32_t opaque, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
char *put_body(char *at, unsigned seed);
int put_unique(char *at, struct template *to);
char *room(struct connection *to, size_t length);

/* answers.c: what comes back */
size_t take_answer(struct connection *from, const char *bytes, size_t have, uint64_t now);
void answered(struct connection *from, int slot, int count, int is_done, uint64_t now);
void finish(struct connection *from, int slot, int count, uint64_t now);
int count_records(const char *at, const char *end, long offset);
long header_number(const char *header, size_t length, const char *name);
int header_text(const char *header, size_t length, const char *name, char *to, size_t size);

/* latency.c: how long answers took */
void count_latency(uint64_t ns);
double percentile_us(double share);

/* popping.c: requests and answers of pops */
void add_pop(struct connection *to, int slot);
void take_pop(struct connection *from, const char *frame, size_t header, size_t total, long opaque,
              uint64_t now);

/* transactions.c: what follows from a half message */
void take_half(struct connection *from, const char *header, size_t length, int slot);

/* stream.c: messages at a fixed rate, and whoever waits for them */
int stream_readers(void);
void start_stream(uint64_t now);
uint64_t pace(struct connection *all, uint64_t now);
void measure_stream(uint64_t now);
void end_stream(void);
int stream_is_behind(void);
void take_body(struct connection *from, const char *body, size_t length, uint64_t now);
void take_delivery(struct connection *from, const char *records, size_t length, uint64_t now);

/* reading.c: readers of streams that are not RocketMQ's */
void add_xread(struct connection *to);
size_t take_xread(struct connection *from, const char *text, size_t have, uint64_t now);
void join_consumer(struct connection *at);
void take_kafka_records(struct connection *from, const char *at, const char *end, uint64_t now);

/* kafka.c: Kafka's requests and answers */
void build_kafka(struct template *to, int number);
void seal_kafka(char *frame, const struct template *from);
void add_fetch(struct connection *to, int slot);
size_t take_kafka(struct connection *from, const char *bytes, size_t have, uint64_t now);
void join_kafka(struct connection *at);

/* joining.c: what is said before the load */
void join(struct connection *at);
void send_all(int fd, const char *bytes, size_t length);
void receive_all(int fd, char *to, size_t length);

static inline uint32_t read_u32(const char *at)
{
    uint32_t value;
    memcpy(&value, at, 4);
    return ntohl(value);
}

static inline void write_u32(char *at, uint32_t value)
{
    value = htonl(value);
    memcpy(at, &value, 4);
}

static inline uint64_t read_u64(const char *at)
{
    return (uint64_t)read_u32(at) << 32 | read_u32(at + 4);
}

static inline void write_u64(char *at, uint64_t value)
{
    write_u32(at, (uint32_t)(value >> 32));
    write_u32(at + 4, (uint32_t)value);
}

#endif
