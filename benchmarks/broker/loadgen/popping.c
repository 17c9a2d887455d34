/* Pops and their acknowledgements: a slot pops, acknowledges all that it got, and pops again.
 *
 * A message counts when it was acknowledged. Each queue of a topic belongs to one connection of a
 * group, so that nobody waits for another's; a group that has had all that there is makes room for
 * a new one, which begins at the start.
 */
#define _GNU_SOURCE
#include "loadgen.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { INVISIBLE_MS = 60000, POLL_MS = 15000 };

/* What a slot does: it pops while none of its messages are to be acknowledged. */
struct acks {
    int count, left;      /* requests on their way, and those of them not answered */
    uint32_t first;       /* the first of them, of the connection's requests */
    uint64_t answered;    /* a bit for each */
    int of_each;          /* messages of each request */
};

static struct acks (*acks)[MAX_WINDOW];
static int *rounds;

static uint32_t next_opaque(struct connection *to, int slot)
{
    unsigned turns = OPAQUES / (unsigned)window;
    return FIRST_OPAQUE + to->sequence++ % turns * (unsigned)window + (unsigned)slot;
}

static void put_group(char *to, size_t size, const struct connection *of)
{
    snprintf(to, size, "bench_pop_%d_%d_%d", (int)getpid(), of->number / queues,
             rounds[of->number]);
}

static void end_frame(struct connection *to, char *frame, int header, int body)
{
    write_u32(frame, (uint32_t)(4 + header + body));
    write_u32(frame + 4, (uint32_t)header);
    to->out_end += 8 + (size_t)header + (size_t)body;
}

void add_pop(struct connection *to, int slot)
{
    if (!acks) {
        acks = calloc((size_t)connections, sizeof *acks);
        rounds = calloc((size_t)connections, sizeof *rounds);
        if (!acks || !rounds)
            fail("no memory for pops");
    }
    char group[100], *frame = room(to, 1024);
    put_group(group, sizeof group, to);
    int length = snprintf(
        frame + 8, 1016,
        "{\"code\":200050,\"extFields\":{\"queueId\":\"%d\",\"maxMsgNums\":\"%d\","
        "\"initMode\":\"0\",\"bname\":\"%s\",\"invisibleTime\":\"%d\",\"bornTime\":\"%lu\","
        "\"expType\":\"TAG\",\"exp\":\"*\",\"topic\":\"%s\",\"pollTime\":\"%d\",\"order\":\"false\","
        "\"consumerGroup\":\"%s\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":%u,"
        "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}",
        to->queue, batch, to->broker, INVISIBLE_MS, born_ms, topic, POLL_MS, group,
        to->opaques[slot]);
    end_frame(to, frame, length, 0);
}

struct receipt {
    char group[100], pop_ms[32], invisible_ms[32], revive_queue[32];
    long start;
};

static void add_ack(struct connection *to, int slot, const struct receipt *of, long offset)
{
    char *frame = room(to, 1024);
    int length = snprintf(
        frame + 8, 1016,
        "{\"code\":200051,\"extFields\":{\"queueId\":\"%d\",\"offset\":\"%ld\",\"extraInfo\":"
        "\"%ld %s %s %s 0 %s %d %ld\",\"bname\":\"%s\",\"topic\":\"%s\","
        "\"consumerGroup\":\"%s\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":%u,"
        "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}",
        to->queue, offset, of->start, of->pop_ms, of->invisible_ms, of->revive_queue, to->broker,
        to->queue, offset, to->broker, topic, of->group, next_opaque(to, slot));
    end_frame(to, frame, length, 0);
}

static void put_base64(char *to, const uint8_t *from, int length)
{
    static const char LETTERS[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (int i = 0; i < length; i += 3) {
        int there = length - i < 3 ? length - i : 3;
        uint32_t bits = (uint32_t)from[i] << 16;
        bits |= there > 1 ? (uint32_t)from[i + 1] << 8 : 0;
        bits |= there > 2 ? from[i + 2] : 0;
        for (int letter = 0; letter < 4; letter++)
            *to++ = letter <= there ? LETTERS[bits >> (18 - 6 * letter) & 63] : '=';
    }
    *to = 0;
}

static void add_batch_ack(struct connection *to, int slot, const struct receipt *of,
                          const long *offsets, int count)
{
    uint8_t marks[MAX_BATCH / 8] = {0};
    char text[MAX_BATCH / 6 + 8], *frame = room(to, 4096);
    for (int i = 0; i < count; i++)
        if (offsets[i] - of->start >= 0 && offsets[i] - of->start < MAX_BATCH)
            marks[(offsets[i] - of->start) / 8] |= (uint8_t)(1u << (offsets[i] - of->start) % 8);
    put_base64(text, marks, (int)(offsets[count - 1] - of->start) / 8 + 1);
    int header = snprintf(
        frame + 8, 1016,
        "{\"code\":200151,\"extFields\":{\"bname\":\"%s\"},\"flag\":0,\"language\":\"JAVA\","
        "\"opaque\":%u,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}",
        to->broker, next_opaque(to, slot));
    int body = snprintf(
        frame + 8 + header, 2000,
        "{\"acks\":[{\"b\":\"%s\",\"c\":\"%s\",\"it\":%s,\"pt\":%s,\"q\":%d,\"r\":\"0\","
        "\"rq\":%s,\"so\":%ld,\"t\":\"%s\"}],\"brokerName\":\"%s\"}",
        text, of->group, of->invisible_ms, of->pop_ms, to->queue, of->revive_queue, of->start,
        topic, to->broker);
    end_frame(to, frame, header, body);
}

/* Acknowledge the records that a pop brought; how many they are, or -1 if they are not right. */
static int acknowledge(struct connection *from, int slot, const char *header, size_t length,
                       const char *at, const char *end)
{
    struct receipt of;
    long offsets[64];
    char starts[64];
    int count = 0, queue;
    put_group(of.group, sizeof of.group, from);
    if (!header_text(header, length, "\"popTime\":\"", of.pop_ms, sizeof of.pop_ms)
        || !header_text(header, length, "\"invisibleTime\":\"", of.invisible_ms,
                        sizeof of.invisible_ms)
        || !header_text(header, length, "\"reviveQid\":\"", of.revive_queue,
                        sizeof of.revive_queue)
        || !header_text(header, length, "\"startOffsetInfo\":\"", starts, sizeof starts)
        || sscanf(starts, "0 %d %ld", &queue, &of.start) != 2 || queue != from->queue)
        return -1;
    for (; end - at >= 28 && count < 64; count++) {
        uint32_t size = read_u32(at), magic = read_u32(at + 4);
        if (size < 28 || size > end - at || (magic != 0xDAA320A7u && magic != 0xDAA320ABu)
            || (int)read_u32(at + 12) != from->queue)
            return -1;
        offsets[count] = (long)((uint64_t)read_u32(at + 20) << 32 | read_u32(at + 24));
        if (count && offsets[count] <= offsets[count - 1])
            return -1;
        at += size;
    }
    if (at != end || count == 0)
        return -1;
    struct acks *own = &acks[from->number][slot];
    own->first = from->sequence;
    own->answered = 0;
    own->count = own->left = protocol == POP ? count : 1;
    own->of_each = protocol == POP ? 1 : count;
    if (protocol == POP)
        for (int i = 0; i < count; i++)
            add_ack(from, slot, &of, offsets[i]);
    else
        add_batch_ack(from, slot, &of, offsets, count);
    if (header_number(header, length, "\"restNum\":\"") == 0)
        rounds[from->number]++;
    return count;
}

void take_pop(struct connection *from, const char *frame, size_t header, size_t total, long opaque,
              uint64_t now)
{
    const char *text = frame + 8;
    int slot = opaque < FIRST_OPAQUE ? 0 : (int)((opaque - FIRST_OPAQUE) % window);
    long code = header_number(text, header, "\"code\"");
    struct acks *own = &acks[from->number][slot];
    if (own->left) {
        unsigned turns = OPAQUES / (unsigned)window;
        unsigned number = (unsigned)((opaque - FIRST_OPAQUE) / window);
        unsigned which = (number + turns - own->first % turns) % turns;
        if (opaque < FIRST_OPAQUE || which >= (unsigned)own->count || own->answered >> which & 1) {
            count_error("an answer to nothing", text, header);
            return;
        }
        own->answered |= 1ull << which;
        if (code != 0)
            count_error("not acknowledged", text, header);
        answered(from, slot, code == 0 ? own->of_each : 0, --own->left == 0, now);
        return;
    }
    if (!from->started[slot] || from->opaques[slot] != opaque) {
        count_error("an answer to nothing", text, header);
        return;
    }
    int count = code == 0
                    ? acknowledge(from, slot, text, header, frame + 8 + header, frame + total)
                    : -1;
    if (count < 0)
        count_error(code ? "refused" : "not the records that were asked for", text, header);
    answered(from, slot, 0, count < 0, now);
    if (count > 0)
        from->started[slot] = now;
}
