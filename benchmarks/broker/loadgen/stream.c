/* Messages at a fixed rate, each with the time at which it was due, and readers that wait for them.
 *
 * A message that is written late because the server was slow still counts from when it was due.
 * Each group has one reader for each queue; every message must reach every group once.
 */
#define _GNU_SOURCE
#include "loadgen.h"

#include <stdlib.h>

enum { MAX_GROUPS = 100 };

static uint64_t started, measured_from = UINT64_MAX, ended; /* in nanoseconds */
static uint64_t due;                                        /* messages whose time has come */
static uint64_t delivered[MAX_GROUPS];
static int turn;

int stream_readers(void)
{
    return rate > 0 ? groups * port_count * queues : 0;
}

void start_stream(uint64_t now)
{
    if (groups > MAX_GROUPS)
        fail("at most %d groups", MAX_GROUPS);
    if (body_bytes < 16)
        fail("a stream's bodies have at least 16 bytes");
    started = now;
}

void measure_stream(uint64_t now)
{
    measured_from = now;
}

void end_stream(void)
{
    ended = now_ns(CLOCK_MONOTONIC);
}

static uint64_t due_at(uint64_t number)
{
    return started + (uint64_t)((double)number * 1e9 / rate);
}

/* Write what is due, where there is room for it; when the next is due comes back. */
uint64_t pace(struct connection *all, uint64_t now)
{
    for (int full = 0; !ended && due_at(due) <= now && full < connections;) {
        struct connection *to = &all[stream_readers() + turn++ % connections];
        if (open_requests(to) == window) {
            full++;
            continue;
        }
        full = 0;
        add_request(to, due_at(due++));
    }
    return ended ? now + 10000000 : due_at(due);
}

int stream_is_behind(void)
{
    if (!(rate > 0))
        return 0;
    for (int i = 0; i < groups; i++)
        if (delivered[i] < due)
            return 1;
    return 0;
}

static uint64_t stamp_of(const char *body)
{
    char text[17] = {0};
    memcpy(text, body, 16);
    return strtoul(text, NULL, 16);
}

/* A message has reached a reader. */
void take_body(struct connection *from, const char *body, size_t length, uint64_t now)
{
    uint64_t stamp = length == (size_t)body_bytes ? stamp_of(body) : 0;
    if (stamp < started || stamp > now) {
        count_error("not a message of this stream", body, length < 16 ? length : 16);
        return;
    }
    if (++delivered[from->group] > due)
        count_error("more messages than were sent", "", 0);
    answered_ns = now;
    if (stamp >= measured_from) {
        messages++;
        count_latency(now - stamp);
    }
}

/* Whole records of RocketMQ's, in order and without a gap: that was looked at before. */
void take_delivery(struct connection *from, const char *at, size_t length, uint64_t now)
{
    for (const char *end = at + length; at < end; at += read_u32(at))
        take_body(from, at + 88, read_u32(at + 84), now);
}
