/* The answers: each is matched to its request and looked at. */
#define _GNU_SOURCE
#include "loadgen.h"

#include <stdlib.h>

enum { PULL_NOT_FOUND = 19, PULL_RETRY_IMMEDIATELY = 20 };

/* Count an answer, and those messages that are done with by it. Of a stream is counted what
 * arrives, not what is sent. */
void answered(struct connection *from, int slot, int count, int is_done, uint64_t now)
{
    if (measuring && !(rate > 0)) {
        requests++;
        messages += (uint64_t)count;
        count_latency(now - from->started[slot]);
    }
    answered_ns = now;
    if (!is_done)
        return;
    from->started[slot] = 0;
    from->ending[slot] = 0;
    if (protocol == XADD)
        from->oldest++;
    else
        from->free_slots[from->free_count++] = slot;
}

void finish(struct connection *from, int slot, int count, uint64_t now)
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

/* The text behind a name, up to its closing quote. */
int header_text(const char *header, size_t length, const char *name, char *to, size_t size)
{
    const char *at = memmem(header, length, name, strlen(name));
    if (!at)
        return 0;
    at += strlen(name);
    const char *end = memchr(at, '"', (size_t)(header + length - at));
    if (!end || (size_t)(end - at) >= size)
        return 0;
    memcpy(to, at, (size_t)(end - at));
    to[end - at] = 0;
    return 1;
}

/* How many whole records a pull brought; -1 if they are not those that were asked for. */
int count_records(const char *at, const char *end, long offset)
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
    long code = header_number(frame + 8, header, "\"code\"");
    if (from->reads && (code == PULL_NOT_FOUND || code == PULL_RETRY_IMMEDIATELY)) {
        count = 0; /* nothing came while it waited */
    } else if (code != 0) {
        count_error("refused", frame + 8, header);
        count = 0;
    } else if (protocol == TRANSACTION && !from->ending[slot]) {
        take_half(from, frame + 8, header, slot);
        if (from->ending[slot])
            return total;
        count = 0;
    } else if (protocol == PULL || from->reads) {
        count = count_records(frame + 8 + header, frame + total, from->offsets[slot]);
        if (count < 0) {
            count_error("not the records that were asked for", frame + 8, header);
            count = 0;
        }
        if (from->reads) {
            from->next_offset += count;
            take_delivery(from, frame + 8 + header, count ? total - 8 - header : 0, now);
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
    if (from->reads) { /* the stream's message: its body is what follows the headers */
        if (total < line + (size_t)body_bytes + 2)
            count_error("not a message of this stream", text, total);
        else
            take_body(from, text + total - 2 - body_bytes, (size_t)body_bytes, now);
        return total;
    }
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
    if (protocol == XADD && from->reads)
        return take_xread(from, bytes, have, now);
    if (protocol == XADD)
        return take_redis(from, bytes, have, now);
    if (protocol == JETSTREAM)
        return take_nats(from, bytes, have, now);
    if (protocol >= KAFKA)
        return take_kafka(from, bytes, have, now);
    return take_remoting(from, bytes, have, now);
}
