/* What the files of the load generator share: settings, connections, counts. */
#ifndef LOADGEN_H
#define LOADGEN_H

#include <arpa/inet.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

enum protocol { SEND, BATCH, PULL, POP, POP_BATCH, XADD, JETSTREAM };

enum {
    MAX_WINDOW = 1000,
    MAX_PORTS = 16,
    MAX_BATCH = 1024,
    MAX_ANSWER = 32 << 20,
    FIRST_OPAQUE = 10000000, /* eight digits, so that frames keep their length */
    OPAQUES = 80000000,
    SILENCE_S = 10,
};

/* Settings */
extern enum protocol protocol;
extern const char *topic;
extern int ports[MAX_PORTS], port_count;
extern int connections, window, body_bytes, queues, batch;

struct connection {
    int fd, number, wants_write;
    char *in, *out;
    size_t in_length, in_size, out_start, out_end, out_size;
    uint64_t started[MAX_WINDOW]; /* when each slot's request was written; 0 for a free slot */
    uint32_t opaques[MAX_WINDOW];
    long offsets[MAX_WINDOW]; /* what each slot's pull asked for */
    int free_slots[MAX_WINDOW], free_count;
    uint32_t sequence, oldest; /* of requests; slots of ordered protocols follow from them */
    unsigned turn;             /* of the templates */
    int queue;
    long next_offset, end_offset; /* of pulls */
};

/* Counts */
extern uint64_t messages, requests, errors, answered_ns, born_ms;
extern int measuring;

_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void count_error(const char *what, const char *text, size_t length);
uint64_t now_ns(clockid_t clock);

/* requests.c: what is sent */
void build_templates(uint64_t first_key);
void add_request(struct connection *to, uint64_t now);
char *room(struct connection *to, size_t length);

/* answers.c: what comes back */
size_t take_answer(struct connection *from, const char *bytes, size_t have, uint64_t now);
long header_number(const char *header, size_t length, const char *name);
double percentile_us(double share);
void answered(struct connection *from, int slot, int count, int is_done, uint64_t now);

/* popping.c: requests and answers of pops */
void add_pop(struct connection *to, int slot);
void take_pop(struct connection *from, const char *frame, size_t header, size_t total, long opaque,
              uint64_t now);

/* joining.c: what is said before the load */
void join(struct connection *at);

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

#endif
