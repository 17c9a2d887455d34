/* How long answers took: 64 buckets for each power of two nanoseconds. */
#include "loadgen.h"

static uint64_t histogram[64 * 64];

void count_latency(uint64_t ns)
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
