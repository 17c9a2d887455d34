/* Readers of streams that are not RocketMQ's: Redis's XREAD, NATS's push consumers, Kafka's records. */
#define _GNU_SOURCE
#include "loadgen.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { READ_AT_ONCE = 1000 };

void add_xread(struct connection *to)
{
    char name[300], id[64], *at = room(to, 1024);
    snprintf(name, sizeof name, "%s:%d", topic, to->queue);
    snprintf(id, sizeof id, "%s", *to->last_id ? to->last_id : "0-0");
    to->out_end += (size_t)sprintf(at,
                                   "*8\r\n$5\r\nXREAD\r\n$5\r\nCOUNT\r\n$4\r\n%d\r\n$5\r\nBLOCK\r\n"
                                   "$1\r\n0\r\n$7\r\nSTREAMS\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
                                   READ_AT_ONCE, strlen(name), name, strlen(id), id);
}

/* A piece of Redis's answer: how many pieces it has, or how many bytes; where those begin. */
struct piece {
    char kind;
    long count;
    const char *inside;
};

/* 0 if it has not come whole. */
static int take_piece(const char **at, const char *end, struct piece *to)
{
    const char *line = memchr(*at, '\n', (size_t)(end - *at));
    if (!line)
        return 0;
    *to = (struct piece){**at, strtol(*at + 1, NULL, 10), line + 1};
    *at = line + 1;
    if (to->kind != '$')
        return 1;
    if (end - *at < to->count + 2)
        return 0;
    *at += to->count + 2;
    return 1;
}

/* One stream with its entries: each an id, and names and values by turns; the body is the last. */
static int walk_entries(struct connection *from, const char **at, const char *end, int counts,
                        uint64_t now)
{
    struct piece entries, entry, id, fields, field;
    for (int skipped = 0; skipped < 3; skipped++) /* the streams, the stream, its name */
        if (!take_piece(at, end, &entry))
            return 0;
    if (!take_piece(at, end, &entries))
        return 0;
    for (long i = 0; i < entries.count; i++) {
        if (!take_piece(at, end, &entry) || !take_piece(at, end, &id)
            || !take_piece(at, end, &fields))
            return 0;
        for (long number = 0; number < fields.count; number++)
            if (!take_piece(at, end, &field))
                return 0;
        if (!counts)
            continue;
        take_body(from, field.inside, (size_t)field.count, now);
        if ((size_t)id.count < sizeof from->last_id)
            snprintf(from->last_id, sizeof from->last_id, "%.*s", (int)id.count, id.inside);
    }
    return 1;
}

size_t take_xread(struct connection *from, const char *text, size_t have, uint64_t now)
{
    const char *at = text, *end = text + have;
    if (!have)
        return 0;
    if (*text == '-')
        fail("Redis says: %.*s", (int)(have < 200 ? have : 200), text);
    if (!walk_entries(from, &at, end, 0, now))
        return 0;
    at = text;
    walk_entries(from, &at, end, 1, now);
    finish(from, 0, 0, now);
    return (size_t)(at - text);
}

/* A consumer of one subject's new messages, which NATS sends here as they come. */
void join_consumer(struct connection *at)
{
    char body[600], text[1200], answer[4096] = {0};
    int length = snprintf(body, sizeof body,
                          "{\"stream_name\":\"bench\",\"config\":{\"deliver_subject\":"
                          "\"deliver.%d.%d\",\"ack_policy\":\"none\",\"deliver_policy\":\"new\","
                          "\"filter_subject\":\"%s.%d\"}}",
                          (int)getpid(), at->number, topic, at->queue);
    length = snprintf(text, sizeof text,
                      "SUB deliver.%d.%d 2\r\nSUB made.%d 3\r\n"
                      "PUB $JS.API.CONSUMER.CREATE.bench made.%d %d\r\n%s\r\n",
                      (int)getpid(), at->number, at->number, at->number, length, body);
    send_all(at->fd, text, (size_t)length);
    for (size_t have = 0; !memmem(answer, have, "}\r\n", 3);) {
        char byte; /* one by one: nothing behind the answer may be lost */
        if (have == sizeof answer - 1)
            fail("a consumer of NATS's is told of at length");
        receive_all(at->fd, &byte, 1);
        answer[have++] = byte;
    }
    if (strstr(answer, "\"error\""))
        fail("NATS makes no consumer: %s", answer);
}

static long take_varint(const char **at)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        unsigned char byte = (unsigned char)*(*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            break;
    }
    return (long)(value >> 1) ^ -(long)(value & 1);
}

/* Whole batches of Kafka's, in order: that was looked at before. */
void take_kafka_records(struct connection *from, const char *at, const char *end, uint64_t now)
{
    while (end - at >= 61 && (size_t)(end - at) >= 12 + (size_t)read_u32(at + 8)) {
        const char *next = at + 12 + read_u32(at + 8), *record = at + 61;
        for (uint32_t left = read_u32(at + 57); left && record < next; left--) {
            long length = take_varint(&record);
            const char *after = record + length;
            record++; /* attributes */
            take_varint(&record);
            take_varint(&record);
            long key = take_varint(&record);
            record += key > 0 ? key : 0;
            long value = take_varint(&record);
            if (value < 0 || after > next || record + value > after)
                fail("a record of Kafka's that does not fit its batch");
            take_body(from, record, (size_t)value, now);
            record = after;
        }
        at = next;
    }
}
