/* The requests: made once, copied, and patched where one differs from the next. */
#include "loadgen.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    TEMPLATES = 64,
    KEY_DIGITS = 12, /* of UNIQ_KEY: the part that differs between two messages of one producer */
};

static struct template templates[TEMPLATES];
static uint64_t next_key;
static unsigned next_topic;

static void write_decimal(char *at, uint64_t value, int digits)
{
    while (digits-- > 0) {
        at[digits] = (char)('0' + value % 10);
        value /= 10;
    }
}

static void write_hex(char *at, uint64_t value, int digits)
{
    while (digits-- > 0) {
        at[digits] = "0123456789ABCDEF"[value & 15];
        value >>= 4;
    }
}

char *put_body(char *at, unsigned seed)
{
    for (int i = 0; i < body_bytes; i++) {
        seed = seed * 1103515245u + 12345u;
        *at++ = (char)('0' + (seed >> 16) % 75);
    }
    return at;
}

/* The id that a Java producer gives a message; its last digits are written over in each copy. */
int put_unique(char *at, struct template *to)
{
    int length = sprintf(at, "7F000001%04X%08X", (unsigned)getpid() & 0xFFFF,
                         (unsigned)(next_key >> 8) & 0xFFFFFFFFu);
    to->keys[to->key_count++] = (int)(at - to->bytes) + length;
    return length + sprintf(at + length, "%0*d", KEY_DIGITS, 0);
}

/* The properties that a Java producer sets, in the order in which its map has them. */
static int put_properties(char *at, struct template *to, int tag, const char *key_to_value,
                          const char *to_next)
{
    int length = sprintf(at, "UNIQ_KEY%s", key_to_value);
    length += put_unique(at + length, to);
    length += sprintf(at + length, "%sWAIT%strue%sTAGS%sTag%c%s", to_next, key_to_value, to_next,
                      key_to_value, 'A' + tag % 4, to_next);
    if (keyed) { /* a key of the user's, another in each message */
        length += sprintf(at + length, "KEYS%skey-", key_to_value);
        to->keys[to->key_count++] = (int)(at - to->bytes) + length;
        length += sprintf(at + length, "%0*d%s", KEY_DIGITS, 0, to_next);
    }
    return length;
}

/* What makes a message more than a message: a delay, a transaction. */
static int put_more_properties(char *at, const char *key_to_value, const char *to_next)
{
    int length = 0;
    if (property)
        length += sprintf(at, "%.*s%s%s%s", (int)strcspn(property, "="), property, key_to_value,
                          strchr(property, '=') + 1, to_next);
    if (protocol == TRANSACTION)
        length += sprintf(at + length, "TRAN_MSG%strue%sPGROUP%sbench_producer%s", key_to_value,
                          to_next, key_to_value, to_next);
    return length;
}

/* The topic's name; of many topics, with five digits that are written over. */
static int put_topic(char *at, struct template *to)
{
    int length = sprintf(at, "%s", topic);
    if (topics == 1)
        return length;
    to->topic = (int)(at - to->bytes) + length;
    return length + sprintf(at + length, "%05d", 0);
}

static void build_send(struct template *to, int number)
{
    char *at = to->bytes + 8;
    at += sprintf(at,
                  "{\"code\":%d,\"extFields\":{\"a\":\"bench_producer\",\"b\":\"",
                  protocol == BATCH ? 320 : 310);
    at += put_topic(at, to);
    at += sprintf(at, "\",\"c\":\"TBW102\",\"d\":\"%d\",\"e\":\"%d\",\"f\":\"%d\",\"g\":\"", queues,
                  number % queues, protocol == TRANSACTION ? 4 : 0);
    to->born = (int)(at - to->bytes);
    at += sprintf(at, "%013d\",\"h\":\"0\",\"i\":\"", 0);
    if (protocol == BATCH)
        at += sprintf(at, "WAIT\\u0001true\\u0002");
    else
        at += put_properties(at, to, number, "\\u0001", "\\u0002");
    if (protocol != BATCH)
        at += put_more_properties(at, "\\u0001", "\\u0002");
    at += sprintf(at, "\",\"j\":\"0\",\"k\":\"false\",\"m\":\"%s\",\"n\":\"broker-a\"},\"flag\":0,"
                      "\"language\":\"JAVA\",\"opaque\":",
                  protocol == BATCH ? "true" : "false");
    to->opaque = (int)(at - to->bytes);
    at += sprintf(at, "%08d,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}", FIRST_OPAQUE);
    uint32_t header = (uint32_t)(at - to->bytes - 8);
    to->stamp = rate > 0 ? (int)(at - to->bytes) : -1;
    if (protocol != BATCH)
        at = put_body(at, (unsigned)number);
    for (int i = 0; protocol == BATCH && i < batch; i++) {
        /* size, magic, checksum, flag, body size; body; properties size; properties */
        char *entry = at;
        memset(entry, 0, 16);
        write_u32(entry + 16, (uint32_t)body_bytes);
        at = put_body(entry + 20, (unsigned)(number + i));
        int length = put_properties(at + 2, to, i, "\001", "\002");
        at[0] = (char)(length >> 8);
        at[1] = (char)length;
        at += 2 + length;
        write_u32(entry, (uint32_t)(at - entry));
    }
    to->length = (int)(at - to->bytes);
    write_u32(to->bytes, (uint32_t)to->length - 4);
    write_u32(to->bytes + 4, header);
}

static void build_xadd(struct template *to, int number)
{
    char stream[300];
    struct template named = {.bytes = stream};
    int stream_length = put_topic(stream, &named);
    stream_length += sprintf(stream + stream_length, ":%d", number % queues);
    struct template probe = {.bytes = (char[200]){0}};
    int length = put_properties(probe.bytes, &probe, number, "\001", "\002");
    char *at = to->bytes;
    at += sprintf(at, "*7\r\n$4\r\nXADD\r\n$%d\r\n", stream_length);
    if (topics > 1)
        to->topic = (int)(at - to->bytes) + named.topic;
    at += sprintf(at, "%s\r\n$1\r\n*\r\n$1\r\np\r\n$%d\r\n", stream, length);
    at += put_properties(at, to, number, "\001", "\002");
    at += sprintf(at, "\r\n$1\r\nb\r\n$%d\r\n", body_bytes);
    to->stamp = rate > 0 ? (int)(at - to->bytes) : -1;
    at = put_body(at, (unsigned)number);
    at += sprintf(at, "\r\n");
    to->length = (int)(at - to->bytes);
}

static void build_jetstream(struct template *to, int number)
{
    struct template probe = {.bytes = (char[200]){0}};
    int length = put_properties(probe.bytes, &probe, number, ": ", "\r\n");
    length += (int)strlen("NATS/1.0\r\n\r\n");
    char *at = to->bytes;
    at += sprintf(at, "HPUB %s.", topic);
    if (topics > 1)
        to->topic = (int)(at - to->bytes);
    at += sprintf(at, "%0*d _INBOX.bench.", topics > 1 ? 5 : 1, number % queues);
    to->slot = (int)(at - to->bytes);
    at += sprintf(at, "%04d.%04d %d %d\r\nNATS/1.0\r\n", 0, 0, length, length + body_bytes);
    at += put_properties(at, to, number, ": ", "\r\n");
    at += sprintf(at, "\r\n");
    to->stamp = rate > 0 ? (int)(at - to->bytes) : -1;
    at = put_body(at, (unsigned)number);
    at += sprintf(at, "\r\n");
    to->length = (int)(at - to->bytes);
}

void build_templates(uint64_t first_key)
{
    next_key = first_key;
    size_t messages_each = protocol == BATCH || protocol >= KAFKA ? (size_t)batch : 1;
    for (int i = 0; i < TEMPLATES; i++) {
        struct template *to = &templates[i];
        to->opaque = to->born = to->slot = to->topic = to->stamp = to->records = -1;
        to->bytes = malloc(4096 + messages_each * ((size_t)body_bytes + 256));
        if (!to->bytes)
            fail("no memory for requests");
        if (protocol == XADD)
            build_xadd(to, i);
        else if (protocol == JETSTREAM)
            build_jetstream(to, i);
        else if (protocol >= KAFKA)
            build_kafka(to, i);
        else
            build_send(to, i);
    }
}

char *room(struct connection *to, size_t length)
{
    if (to->out_end + length > to->out_size) {
        memmove(to->out, to->out + to->out_start, to->out_end - to->out_start);
        to->out_end -= to->out_start;
        to->out_start = 0;
        while (to->out_end + length > to->out_size)
            to->out_size *= 2;
        to->out = realloc(to->out, to->out_size);
        if (!to->out)
            fail("no memory for what is to be sent");
    }
    return to->out + to->out_end;
}

/* A request of RocketMQ without a body. */
void add_frame(struct connection *to, int code, uint32_t opaque, const char *format, ...)
{
    char *frame = room(to, 2048);
    int length = sprintf(frame + 8, "{\"code\":%d,\"extFields\":{", code);
    va_list values;
    va_start(values, format);
    length += vsnprintf(frame + 8 + length, 1800, format, values);
    va_end(values);
    length += sprintf(frame + 8 + length,
                      "},\"flag\":0,\"language\":\"JAVA\",\"opaque\":%u,"
                      "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}",
                      opaque);
    write_u32(frame, 4 + (uint32_t)length);
    write_u32(frame + 4, (uint32_t)length);
    to->out_end += 8 + (size_t)length;
}

static void add_pull(struct connection *to, int slot)
{
    char name[200];
    snprintf(name, sizeof name, to->reads ? "%s%d" : "%s", group, to->group);
    add_frame(to, 11, to->opaques[slot],
              "\"queueId\":\"%d\",\"commitOffset\":\"0\",\"suspendTimeoutMillis\":\"15000\","
              "\"bname\":\"%s\",\"sysFlag\":\"2\",\"expressionType\":\"TAG\","
              "\"topic\":\"%s\",\"consumerGroup\":\"%s\",\"maxMsgNums\":\"%d\","
              "\"queueOffset\":\"%ld\",\"subVersion\":\"1700000000999\"",
              to->queue, to->broker, topic, name, batch, to->next_offset);
    to->offsets[slot] = to->next_offset;
    if (to->reads)
        return; /* the answer says how far it came */
    to->next_offset += batch;
    if (to->next_offset + batch > to->end_offset)
        to->next_offset = 0;
}

static void add_copy(struct connection *to, int slot, uint64_t now)
{
    const struct template *from = &templates[to->turn++ % TEMPLATES];
    char *frame = room(to, (size_t)from->length);
    memcpy(frame, from->bytes, (size_t)from->length);
    if (from->topic >= 0)
        write_decimal(frame + from->topic, next_topic++ % (unsigned)topics, 5);
    if (from->stamp >= 0)
        write_hex(frame + from->stamp, now, 16);
    if (from->slot >= 0) {
        write_decimal(frame + from->slot, (uint64_t)to->number, 4);
        write_decimal(frame + from->slot + 5, (uint64_t)slot, 4);
    }
    for (int i = 0; i < from->key_count; i++)
        write_hex(frame + from->keys[i], next_key++, KEY_DIGITS);
    if (from->records >= 0) {
        write_u32(frame + from->opaque, to->opaques[slot]);
        seal_kafka(frame, from);
    } else {
        if (from->opaque >= 0)
            write_decimal(frame + from->opaque, to->opaques[slot], 8);
        if (from->born >= 0)
            write_decimal(frame + from->born, born_ms, 13);
    }
    to->out_end += (size_t)from->length;
}

void add_request(struct connection *to, uint64_t now)
{
    int slot = protocol == XADD ? (int)(to->sequence % (unsigned)window)
                                : to->free_slots[--to->free_count];
    unsigned rounds = OPAQUES / (unsigned)window;
    to->opaques[slot] =
        FIRST_OPAQUE + to->sequence % rounds * (unsigned)window + (unsigned)slot;
    to->started[slot] = now;
    to->sequence++;
    if (protocol == KAFKA_FETCH || (protocol == KAFKA && to->reads))
        add_fetch(to, slot);
    else if (protocol == XADD && to->reads)
        add_xread(to);
    else if (protocol == PULL || to->reads)
        add_pull(to, slot);
    else if (protocol == POP || protocol == POP_BATCH)
        add_pop(to, slot);
    else
        add_copy(to, slot, now);
}
