/* Kafka's requests and answers: Metadata v4, ListOffsets v1, Produce v7 and Fetch v4.
 *
 * A message has the same properties as everywhere, as headers of its record. Each request holds one
 * record batch; what differs from one to the next is written over it, and its checksum made anew.
 */
#define _GNU_SOURCE
#include "loadgen.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    PRODUCE = 0,
    FETCH = 1,
    LIST_OFFSETS = 2,
    METADATA = 3,
    BATCH_HEAD = 61,   /* of a record batch, up to its records */
    STORED_BATCH = 32, /* messages in each batch of a topic that is read */
    MAX_WAIT_MS = 15000,
};

static uint32_t checksums[8][256];
static long stored_batch_bytes;

static void make_checksums(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t sum = i;
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? 0x82F63B78u : 0);
        checksums[0][i] = sum;
    }
    for (int table = 1; table < 8; table++)
        for (int i = 0; i < 256; i++)
            checksums[table][i] =
                checksums[table - 1][i] >> 8 ^ checksums[0][checksums[table - 1][i] & 255];
}

static uint32_t crc32c(const char *at, size_t length)
{
    uint64_t sum = 0xFFFFFFFFu;
    for (; length >= 8; at += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, at, 8); /* little-endian, as all machines this runs on */
        word ^= sum;
        sum = 0;
        for (int i = 0; i < 8; i++)
            sum ^= checksums[7 - i][word >> 8 * i & 255];
    }
    for (; length; at++, length--)
        sum = sum >> 8 ^ checksums[0][(sum ^ (unsigned char)*at) & 255];
    return (uint32_t)sum ^ 0xFFFFFFFFu;
}

static char *put_u16(char *at, int value)
{
    at[0] = (char)(value >> 8);
    at[1] = (char)value;
    return at + 2;
}

static char *put_u32(char *at, uint32_t value)
{
    write_u32(at, value);
    return at + 4;
}

static char *put_u64(char *at, uint64_t value)
{
    write_u64(at, value);
    return at + 8;
}

static char *put_text(char *at, const char *text)
{
    size_t length = strlen(text);
    memcpy(put_u16(at, (int)length), text, length);
    return at + 2 + length;
}

static char *put_varint(char *at, int value)
{
    unsigned left = (unsigned)value << 1 ^ (unsigned)(value >> 31);
    for (; left > 127; left >>= 7)
        *at++ = (char)(left | 128);
    *at++ = (char)left;
    return at;
}

/* Up to where the request's own fields begin; the length is written when it is known. */
static char *put_head(char *at, int kind, int version, uint32_t number)
{
    at = put_u16(put_u16(at + 4, kind), version);
    return put_text(put_u32(at, number), "bench");
}

static char *put_header(char *at, const char *name, const char *value)
{
    at = put_varint(at, (int)strlen(name));
    at = stpcpy(at, name);
    at = put_varint(at, (int)strlen(value));
    return stpcpy(at, value);
}

/* Everything in a record behind its length. */
static char *put_record(char *at, struct template *to, int number, unsigned seed)
{
    char tag[] = "TagA";
    tag[3] = (char)('A' + seed % 4);
    *at++ = 0;                   /* attributes */
    at = put_varint(at, 0);      /* later than the batch by */
    at = put_varint(at, number); /* behind the batch's first by */
    at = put_varint(at, -1);     /* no key */
    at = put_varint(at, body_bytes);
    to->stamp = rate > 0 ? (int)(at - to->bytes) : -1;
    at = put_varint(put_body(at, seed), 3);
    at = put_varint(at, 8);
    at = stpcpy(at, "UNIQ_KEY");
    at = put_varint(at, 32);
    at += put_unique(at, to);
    return put_header(put_header(at, "WAIT", "true"), "TAGS", tag);
}

void build_kafka(struct template *to, int number)
{
    int count = protocol == KAFKA ? 1 : protocol == KAFKA_FETCH ? STORED_BATCH : batch;
    if (!checksums[0][1])
        make_checksums();
    char *at = put_head(to->bytes, PRODUCE, 7, 0);
    to->opaque = 8;
    at = put_u16(at, -1);                  /* no transaction */
    at = put_u32(put_u16(at, 1), 10000);   /* acks, timeout */
    at = put_text(put_u32(at, 1), topic);  /* one topic */
    at = put_u32(put_u32(at, 1), (uint32_t)(number % queues)); /* one partition */
    char *length = at;
    char *first = at + 4;
    to->records = (int)(first - to->bytes);
    memset(first, 0, BATCH_HEAD);
    first[16] = 2; /* magic */
    write_u32(first + 23, (uint32_t)count - 1);
    memset(first + 43, -1, 14); /* no producer id, epoch, sequence */
    write_u32(first + 57, (uint32_t)count);
    at = first + BATCH_HEAD;
    for (int i = 0; i < count; i++) {
        struct template probe = {.bytes = malloc((size_t)body_bytes + 300)};
        if (!probe.bytes)
            fail("no memory for records");
        unsigned seed = (unsigned)(number + i);
        at = put_varint(at, (int)(put_record(probe.bytes, &probe, i, seed) - probe.bytes));
        free(probe.bytes);
        at = put_record(at, to, i, seed);
    }
    write_u32(first + 8, (uint32_t)(at - first - 12));
    write_u32(length, (uint32_t)(at - first));
    to->length = (int)(at - to->bytes);
    write_u32(to->bytes, (uint32_t)to->length - 4);
    stored_batch_bytes = at - first;
}

/* What is written last over a copy of a request: times and checksum. */
void seal_kafka(char *frame, const struct template *from)
{
    char *records = frame + from->records;
    write_u64(records + 27, born_ms);
    write_u64(records + 35, born_ms);
    write_u32(records + 17, crc32c(records + 21, (size_t)(from->length - from->records - 21)));
}

void add_fetch(struct connection *to, int slot)
{
    uint32_t most = to->reads ? 1 << 20 : (uint32_t)(stored_batch_bytes * batch / STORED_BATCH);
    char *frame = room(to, 1024), *at = put_head(frame, FETCH, 4, to->opaques[slot]);
    at = put_u32(put_u32(put_u32(at, (uint32_t)-1), MAX_WAIT_MS), 1);
    at = put_u32(at, most);
    *at++ = 0; /* reads what is not committed too */
    at = put_text(put_u32(at, 1), topic);
    at = put_u32(put_u32(at, 1), (uint32_t)to->queue);
    at = put_u32(put_u64(at, (uint64_t)to->next_offset), most);
    write_u32(frame, (uint32_t)(at - frame - 4));
    to->out_end += (size_t)(at - frame);
    to->offsets[slot] = to->next_offset;
    if (to->reads)
        return; /* the answer says how far it came */
    to->next_offset += batch;
    if (to->next_offset + batch > to->end_offset)
        to->next_offset = 0;
}

/* How many messages whole batches hold; -1 if they are not those that were asked for. */
static int count_fetched(const char *at, const char *end, long offset)
{
    int count = 0;
    while (end - at >= BATCH_HEAD) {
        size_t size = 12 + (size_t)read_u32(at + 8);
        if (size > (size_t)(end - at))
            break; /* the last one may be cut */
        if (at[16] != 2 || (long)read_u64(at) != offset + count)
            return -1;
        count += (int)read_u32(at + 57);
        at += size;
    }
    return count > 0 ? count : -1;
}

size_t take_kafka(struct connection *from, const char *bytes, size_t have, uint64_t now)
{
    if (have < 8)
        return 0;
    size_t total = 4 + (size_t)read_u32(bytes), name = 2 + strlen(topic);
    if (total > MAX_ANSWER)
        fail("not an answer of Kafka's: %zu bytes", total);
    if (have < total)
        return 0;
    uint32_t opaque = read_u32(bytes + 4);
    int slot = opaque < FIRST_OPAQUE ? 0 : (int)((opaque - FIRST_OPAQUE) % (unsigned)window);
    if (!from->started[slot] || from->opaques[slot] != opaque) {
        count_error("an answer to nothing", "", 0);
        return total;
    }
    int count = protocol == KAFKA ? 1 : batch, fetched = protocol == KAFKA_FETCH || from->reads;
    /* Throttling comes first in one and last in the other; then one topic with one partition. */
    const char *partition = bytes + 8 + (fetched ? 4 : 0) + 4 + name + 4;
    if ((size_t)(partition - bytes) + 30 > total)
        fail("an answer of %zu bytes is too short", total);
    int error = partition[4] << 8 | (unsigned char)partition[5];
    if (error) {
        char text[40];
        count_error("refused", text, (size_t)sprintf(text, "error %d of Kafka's", error));
        count = 0;
    } else if (fetched) {
        const char *aborted = partition + 22;
        int listed = (int)read_u32(aborted);
        const char *records = aborted + 4 + (listed > 0 ? listed * 16 : 0) + 4;
        count = from->reads && records == bytes + total
                    ? 0 /* nothing came while it waited */
                    : count_fetched(records, bytes + total, from->offsets[slot]);
        if (count < 0) {
            count_error("not the records that were asked for", "", 0);
            count = 0;
        } else if (from->reads) {
            take_kafka_records(from, records, bytes + total, now);
            from->next_offset += count;
        }
    }
    finish(from, slot, count, now);
    return total;
}

/* Say something before the load; the answer's length comes back. */
static size_t ask_kafka(int fd, char *frame, const char *end, char *answer, size_t most)
{
    write_u32(frame, (uint32_t)(end - frame - 4));
    send_all(fd, frame, (size_t)(end - frame));
    receive_all(fd, answer, 4);
    size_t length = read_u32(answer);
    if (length < 4 || length > most)
        fail("an answer of %zu bytes", length);
    receive_all(fd, answer, length);
    return length;
}

/* Whether all partitions of the topic are there; asking for it has it made. */
static int topic_is_ready(int fd)
{
    char frame[512], answer[65536];
    char *at = put_text(put_u32(put_head(frame, METADATA, 4, 1), 1), topic);
    *at++ = 1;
    size_t length = ask_kafka(fd, frame, at, answer, sizeof answer);
    const char *end = answer + length, *found = memmem(answer, length, topic, strlen(topic));
    if (!found)
        fail("Kafka does not know %s", topic);
    int error = found[-4] << 8 | (unsigned char)found[-3];
    const char *partition = found + strlen(topic) + 1;
    int ready = 0, count = (int)read_u32(partition);
    for (partition += 4; !error && ready < count && end - partition >= 18; ready++) {
        if (partition[0] || partition[1] || (int)read_u32(partition + 6) < 0)
            break;
        partition += 10;                                   /* error, number, leader */
        partition += 4 + 4 * (size_t)read_u32(partition); /* replicas */
        partition += 4 + 4 * (size_t)read_u32(partition); /* in sync */
    }
    return !error && ready == queues && count == queues;
}

/* Where a partition ends; -1 if nobody leads it yet. */
static long partition_end(int fd, int partition)
{
    char frame[512], answer[4096];
    char *end = put_u32(put_head(frame, LIST_OFFSETS, 1, 1), (uint32_t)-1);
    end = put_u32(put_text(put_u32(end, 1), topic), 1);
    end = put_u64(put_u32(end, (uint32_t)partition), (uint64_t)-1);
    size_t length = ask_kafka(fd, frame, end, answer, sizeof answer);
    if (length < 22 || answer[length - 18] || answer[length - 17])
        return -1;
    return (long)read_u64(answer + length - 8);
}

static int all_are_led(int fd)
{
    for (int i = 0; i < queues; i++)
        if (partition_end(fd, i) < 0)
            return 0;
    return 1;
}

void join_kafka(struct connection *at)
{
    for (int tries = 0; at->number == 0 && !(topic_is_ready(at->fd) && all_are_led(at->fd));
         tries++) {
        if (tries == 500)
            fail("Kafka has not made %s with %d partitions", topic, queues);
        usleep(20000);
    }
    if (protocol != KAFKA_FETCH && !at->reads)
        return;
    at->end_offset = partition_end(at->fd, at->queue);
    if (at->reads) {
        at->next_offset = at->end_offset;
        return;
    }
    if (at->end_offset < batch)
        fail("partition %d of %s holds %ld messages: too few to fetch %d", at->queue, topic,
             at->end_offset, batch);
    long batches = (at->end_offset - batch) / STORED_BATCH + 1;
    at->next_offset = at->number / queues * 7919L % batches * STORED_BATCH;
}
