/* What a server wants to hear before the load: blocking, with a time limit on the socket. */
#define _GNU_SOURCE
#include "loadgen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

void send_all(int fd, const char *bytes, size_t length)
{
    if (send(fd, bytes, length, MSG_NOSIGNAL) != (ssize_t)length)
        fail("send: %s", strerror(errno));
}

void receive_all(int fd, char *to, size_t length)
{
    if (recv(fd, to, length, MSG_WAITALL) != (ssize_t)length)
        fail("no answer to a first request: %s", strerror(errno));
}

/* Ask a broker something; the number of that name in its answer comes back. */
static long ask(int fd, int code, const char *fields, const char *body, const char *name)
{
    char frame[4096];
    int header = snprintf(frame + 8, 2000,
                          "{\"code\":%d,\"extFields\":{%s},\"flag\":0,\"language\":\"JAVA\","
                          "\"opaque\":1,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}",
                          code, fields);
    int text = snprintf(frame + 8 + header, 2000, "%s", body);
    write_u32(frame, (uint32_t)(4 + header + text));
    write_u32(frame + 4, (uint32_t)header);
    send_all(fd, frame, (size_t)(8 + header + text));
    for (;;) {
        char answer[65536];
        receive_all(fd, answer, 4);
        size_t length = read_u32(answer);
        if (length < 4 || length > sizeof answer - 1)
            fail("an answer of %zu bytes to request %d", length, code);
        receive_all(fd, answer, length);
        answer[length] = 0;
        size_t end = read_u32(answer) & 0xFFFFFF;
        if (end > length - 4)
            fail("an answer to request %d whose header has %zu bytes", code, end);
        const char *found = answer + 4;
        if (!(header_number(found, end, "\"flag\"") & 1))
            continue;
        if (header_number(found, end, "\"code\"") != 0)
            fail("request %d refused: %.*s", code, (int)end, found);
        const char *value = memmem(found, end, name, strlen(name));
        return value ? strtol(value + strlen(name), NULL, 10) : 0;
    }
}

static void join_group(struct connection *at)
{
    char text[1000], name[200];
    snprintf(name, sizeof name, at->reads ? "%s%d" : "%s", group, at->group);
    snprintf(text, sizeof text,
             "{\"clientID\":\"127.0.0.1@%d-%d\",\"consumerDataSet\":[{\"consumeFromWhere\":"
             "\"CONSUME_FROM_FIRST_OFFSET\",\"consumeType\":\"CONSUME_PASSIVELY\",\"groupName\":"
             "\"%s\",\"messageModel\":\"CLUSTERING\",\"subscriptionDataSet\":[{"
             "\"classFilterMode\":false,\"codeSet\":[],\"expressionType\":\"TAG\","
             "\"subString\":\"*\",\"subVersion\":1700000000999,\"tagsSet\":[],\"topic\":\"%s\"}],"
             "\"unitMode\":false}],"
             "\"heartbeatFingerprint\":0,\"producerDataSet\":[],\"withoutSub\":false}",
             (int)getpid(), at->number, name, topic);
    ask(at->fd, 34, "", text, "\"code\":");
    snprintf(text, sizeof text, "\"topic\":\"%s\",\"queueId\":\"%d\"", topic, at->queue);
    at->end_offset = ask(at->fd, 30, text, "", "\"offset\":\"");
    if (at->reads) {
        at->next_offset = at->end_offset;
        return;
    }
    if (at->end_offset < batch)
        fail("queue %d of %s holds %ld messages: too few to pull %d", at->queue, topic,
             at->end_offset, batch);
    /* Two connections of one queue do not read the same messages at the same time. */
    at->next_offset = at->number / queues / port_count * 7919L % (at->end_offset - batch + 1);
}

static void join_nats(struct connection *at)
{
    char text[4096];
    if (recv(at->fd, text, sizeof text, 0) < 4 || memcmp(text, "INFO", 4) != 0)
        fail("the server does not greet like NATS");
    int length = snprintf(text, sizeof text,
                          "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,"
                          "\"no_responders\":true}\r\nSUB _INBOX.bench.%04d.* 1\r\nPING\r\n",
                          at->number);
    send_all(at->fd, text, (size_t)length);
    receive_all(at->fd, text, 6);
    if (memcmp(text, "PONG\r\n", 6) != 0)
        fail("NATS says: %.6s", text);
}

void join(struct connection *at)
{
    if (protocol == PULL || (protocol == SEND && at->reads))
        join_group(at);
    if (protocol >= KAFKA)
        join_kafka(at);
    if (protocol == JETSTREAM)
        join_nats(at);
    if (protocol == JETSTREAM && at->reads)
        join_consumer(at);
}
