/* Transactions: a half message is stored, then committed. A slot stays taken until both are done. */
#define _GNU_SOURCE
#include "loadgen.h"

#include <stdlib.h>

enum { COMMIT = 8 };

/* A half message is stored: commit it. Where it lies is the second half of its id. */
void take_half(struct connection *from, const char *header, size_t length, int slot)
{
    char id[64], offset[32];
    if (!header_text(header, length, "\"msgId\":\"", id, sizeof id)
        || !header_text(header, length, "\"queueOffset\":\"", offset, sizeof offset)
        || strspn(id, "0123456789ABCDEFabcdef") != 32) {
        count_error("a half message without a place", header, length);
        return;
    }
    uint32_t opaque = from->opaques[slot] + (unsigned)window;
    from->opaques[slot] = opaque < FIRST_OPAQUE + OPAQUES ? opaque : FIRST_OPAQUE + (unsigned)slot;
    from->ending[slot] = 1;
    add_frame(from, 37, from->opaques[slot],
              "\"topic\":\"%s\",\"producerGroup\":\"bench_producer\",\"tranStateTableOffset\":\"%s\","
              "\"commitLogOffset\":\"%lu\",\"commitOrRollback\":\"%d\","
              "\"fromTransactionCheck\":\"false\",\"msgId\":\"%s\",\"transactionId\":\"%s\"",
              topic, offset, strtoul(id + 16, NULL, 16), COMMIT, id, id);
}
