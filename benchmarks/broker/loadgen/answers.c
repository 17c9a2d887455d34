/* The answers: each is matched to its request and looked at. */
#define _GNU_SOURCE
#include "loadgen.h"

#include <stdlib.h>

static uint64_t histogram[64 * 64];

/* Latencies: 64 buckets for each power of two. */

static void count_latency(uint64_t ns)
{
    int power = 63 - __builtin_clzll(ns | 1);
    int part = power >= 6 ? (int)(ns >> (power - 6)) & 63 : 0;
    histogram[power * 64 + part]++;
}

double percentile_us(double share)
{
    uint64_t total = 0, seen = 0;
    for (int i = 0; i < 64 * 64; i++)
        total += histogram[i];
    for (int i = 0; i < 64 * 64; i++) {
        seen += histogram[i];
        if (total && (double)seen > (double)total * share) {
            int power = i / 64;
            double ns = power >= 6 ? (double)((64ull + (unsigned)i % 64) << (power - 6))
                                   : (double)(1ull << power);
            return ns / 1000;
        }
    }
    return 0;
}

/* Count an answer, and those messages that are done with by it. */
void answered(struct connection *from, int slot, int count, int is_done, uint64_t now)
{
    if (measuring) {
        requests++;
        messages += (uint64_t)count;
        count_latency(now - from->started[slot]);
    }
    answered_ns = now;
    if (!is_done)
        return;
    from->started[slot] = 0;
    if (protocol == XADD)
        from->oldest++;
    else
        from->free_slots[from->free_count++] = slot;
}

static void finish(struct connection *from, int slot, int count, uint64_t now)
{
    answered(from, slot, count, 1, now);
}

/* The number behind a name of a header; names in nested objects would be found too, but the
 * brokers' answers have none of these there. */
long header_number(const char *header, size_t length, const char *name)
{
    const char *at = memmem(header, length, name, strlen(name));
    if (!at)
        return -1;
    at += strlen(name);
    while (at < header + length && (*at == ' ' || *at == ':'))
        at++;
    return strtol(at, NULL, 10); /* the header ends in a brace: it cannot run on */
}

/* How many whole records a pull brought; -1 if they are not those that were asked for. */
static int count_records(const char *at, const char *end, long offset)
{
    int count = 0;
    while (end - at >= 28) {
        uint32_t size = read_u32(at), magic = read_u32(at + 4);
        int64_t queue_offset = (int64_t)read_u32(at + 20) << 32 | read_u32(at + 24);
        if (size < 28 || size > end - at || (magic != 0xDAA320A7u && magic != 0xDAA320ABu)
            || queue_offset != offset + count)
            return -1;
        at += size;
        count++;
    }
    return at == end && count > 0 ? count : -1;
}

static size_t take_remoting(struct connection *from, const char *frame, size_t have, uint64_t now)
{
    if (have < 8)
        return 0;
    size_t total = 4 + (size_t)read_u32(frame), header = read_u32(frame + 4) & 0xFFFFFF;
    if (total > MAX_ANSWER || header + 8 > total)
        fail("not a RocketMQ answer: %zu bytes, header of %zu", total, header);
    if (have < total)
        return 0;
    if (frame[4] != 0)
        fail("the answer's header is not JSON");
    if (!(header_number(frame + 8, header, "\"flag\"") & 1))
        return total; /* the broker's own request: who is in the group has changed */
    long opaque = header_number(frame + 8, header, "\"opaque\"");
    if (protocol == POP || protocol == POP_BATCH) {
        take_pop(from, frame, header, total, opaque, now);
        return total;
    }
    int slot = opaque < FIRST_OPAQUE ? 0 : (int)((opaque - FIRST_OPAQUE) % window);
    if (!from->started[slot] || from->opaques[slot] != opaque) {
        count_error("an answer to nothing", frame + 8, header);
        return total;
    }
    int count = protocol == BATCH ? batch : 1;
    if (header_number(frame + 8, header, "\"code\"") != 0) {
        count_error("refused", frame + 8, header);
        count = 0;
    } else if (protocol == PULL) {
        count = count_records(frame + 8 + header, frame + total, from->offsets[slot]);
        if (count < 0) {
            count_error("not the records that were asked for", frame + 8, header);
            count = 0;
        }
    }
    finish(from, slot, count, now);
    return total;
}

static size_t take_redis(struct connection *from, const char *text, size_t have, uint64_t now)
{
    const char *line_end = memchr(text, '\n', have);
    if (!line_end)
        return 0;
    size_t total = (size_t)(line_end - text) + 1;
    int stored = text[0] == '$' && text[1] != '-';
    if (stored)
        total += strtoul(text + 1, NULL, 10) + 2;
    if (have < total)
        return 0;
    if (!stored)
        count_error("refused", text, total);
    if (from->oldest == from->sequence)
        count_error("an answer to nothing", text, total);
    else
        finish(from, (int)(from->oldest % (unsigned)window), stored, now);
    return total;
}

static size_t take_nats(struct connection *from, const char *text, size_t have, uint64_t now)
{
    const char *line_end = memchr(text, '\n', have);
    if (!line_end)
        return 0;
    size_t line = (size_t)(line_end - text) + 1;
    if (strncmp(text, "PING", 4) == 0) {
        memcpy(room(from, 6), "PONG\r\n", 6);
        from->out_end += 6;
        return line;
    }
    int headed = text[0] == 'H'; /* HMSG: an answer without a stream behind it, "503" */
    if (!headed && text[0] != 'M') {
        if (text[0] == '-')
            count_error("refused", text, line);
        return line;
    }
    const char *last = line_end;
    while (last > text && last[-1] != ' ')
        last--;
    size_t total = line + strtoul(last, NULL, 10) + 2;
    if (have < total)
        return 0;
    const char *inbox = memmem(text, line, "_INBOX.bench.", 13);
    int slot = inbox ? atoi(inbox + 18) : -1;
    if (slot < 0 || slot >= window || !from->started[slot]) {
        count_error("an answer to nothing", text, total);
        return total;
    }
    int stored = !headed && !memmem(text, total, "\"error\"", 7)
                 && memmem(text, total, "\"seq\"", 5);
    if (!stored)
        count_error("refused", text, total);
    finish(from, slot, stored, now);
    return total;
}

size_t take_answer(struct connection *from, const char *bytes, size_t have, uint64_t now)
{
    if (protocol == XADD)
        return take_redis(from, bytes, have, now);
    if (protocol == JETSTREAM)
        return take_nats(from, bytes, have, now);
    return take_remoting(from, bytes, have, now);
}
