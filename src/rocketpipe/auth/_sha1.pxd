# HMAC-SHA1 for a processor that has instructions for it; any other has OpenSSL's by hashlib, which
# costs six calls. The two halves of a key are hashed once, and a check goes on from there.

from libc.stdint cimport uint8_t, uint32_t

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    typedef struct { uint32_t inner[5], outer[5]; } rp_hmac_key;

    static const uint32_t rp_sha1_start[5] =
        {0x67452301u, 0xEFCDAB89u, 0x98BADCFEu, 0x10325476u, 0xC3D2E1F0u};
    static int rp_has_sha1 = 0;

    #if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    #include <cpuid.h>
    #include <immintrin.h>

    static inline void rp_sha1_prepare(void)
    {
        unsigned int a, b, c, d;
        if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 29 & 1)
            rp_has_sha1 = __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("ssse3");
    }

    /* Four rounds, the `at`th of twenty: `w` has the last sixteen words, four in each. */
    #define RP_ROUNDS(at)                                                                    \\
        do {                                                                                 \\
            if ((at) >= 4)                                                                   \\
                w[(at) & 3] = _mm_sha1msg2_epu32(                                            \\
                    _mm_xor_si128(_mm_sha1msg1_epu32(w[(at) & 3], w[((at) + 1) & 3]),        \\
                                  w[((at) + 2) & 3]),                                        \\
                    w[((at) + 3) & 3]);                                                      \\
            e = (at) ? _mm_sha1nexte_epu32(last, w[(at) & 3]) : _mm_add_epi32(last, w[0]);   \\
            last = abcd;                                                                     \\
            abcd = _mm_sha1rnds4_epu32(abcd, e, (at) / 5);                                   \\
        } while (0)

    __attribute__((target("sha,sse4.1,ssse3")))
    static void rp_sha1_blocks(uint32_t state[5], const uint8_t *data, size_t blocks)
    {
        const __m128i turned = _mm_set_epi64x(0x0001020304050607LL, 0x08090A0B0C0D0E0FLL);
        __m128i abcd = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0x1B);
        __m128i last = _mm_set_epi32((int)state[4], 0, 0, 0), e, w[4];
        for (; blocks; blocks--, data += 64) {
            const __m128i abcd_before = abcd, e_before = last;
            for (int part = 0; part < 4; part++)
                w[part] = _mm_shuffle_epi8(
                    _mm_loadu_si128((const __m128i *)(data + 16 * part)), turned);
            RP_ROUNDS(0); RP_ROUNDS(1); RP_ROUNDS(2); RP_ROUNDS(3); RP_ROUNDS(4);
            RP_ROUNDS(5); RP_ROUNDS(6); RP_ROUNDS(7); RP_ROUNDS(8); RP_ROUNDS(9);
            RP_ROUNDS(10); RP_ROUNDS(11); RP_ROUNDS(12); RP_ROUNDS(13); RP_ROUNDS(14);
            RP_ROUNDS(15); RP_ROUNDS(16); RP_ROUNDS(17); RP_ROUNDS(18); RP_ROUNDS(19);
            last = _mm_sha1nexte_epu32(last, e_before);
            abcd = _mm_add_epi32(abcd, abcd_before);
        }
        _mm_storeu_si128((__m128i *)state, _mm_shuffle_epi32(abcd, 0x1B));
        state[4] = (uint32_t)_mm_extract_epi32(last, 3);
    }
    #else
    static inline void rp_sha1_prepare(void) {}
    static void rp_sha1_blocks(uint32_t state[5], const uint8_t *data, size_t blocks) {}
    #endif

    static inline void rp_sha1_write(const uint32_t state[5], uint8_t *to)
    {
        for (int at = 0; at < 20; at++)
            to[at] = (uint8_t)(state[at / 4] >> (24 - 8 * (at & 3)));
    }

    /* Hash two pieces, one behind the other, behind `before` bytes that `state` has in it. */
    static void rp_sha1_end(uint32_t state[5], size_t before, const uint8_t *one, size_t one_bytes,
                            const uint8_t *two, size_t two_bytes)
    {
        uint8_t block[128];
        const uint64_t bits = 8 * (uint64_t)(before + one_bytes + two_bytes);
        size_t held, taken;
        rp_sha1_blocks(state, one, one_bytes / 64);
        held = one_bytes % 64;
        memcpy(block, one + one_bytes - held, held);
        taken = 64 - held < two_bytes ? 64 - held : two_bytes;
        memcpy(block + held, two, taken);
        held += taken;
        if (held == 64) {
            rp_sha1_blocks(state, block, 1);
            two += taken;
            two_bytes -= taken;
            rp_sha1_blocks(state, two, two_bytes / 64);
            held = two_bytes % 64;
            memcpy(block, two + two_bytes - held, held);
        }
        block[held] = 0x80;
        taken = held < 56 ? 64 : 128;
        memset(block + held + 1, 0, taken - held - 9);
        for (int at = 0; at < 8; at++)
            block[taken - 1 - at] = (uint8_t)(bits >> 8 * at);
        rp_sha1_blocks(state, block, taken / 64);
    }

    static void rp_hmac_prepare(rp_hmac_key *key, const uint8_t block[64])
    {
        uint8_t padded[64];
        memcpy(key->inner, rp_sha1_start, 20);
        memcpy(key->outer, rp_sha1_start, 20);
        for (int at = 0; at < 64; at++)
            padded[at] = block[at] ^ 0x36;
        rp_sha1_blocks(key->inner, padded, 1);
        for (int at = 0; at < 64; at++)
            padded[at] = block[at] ^ 0x5C;
        rp_sha1_blocks(key->outer, padded, 1);
    }

    static void rp_hmac(const rp_hmac_key *key, const uint8_t *one, size_t one_bytes,
                        const uint8_t *two, size_t two_bytes, uint8_t *to)
    {
        uint32_t state[5];
        uint8_t inner[20];
        memcpy(state, key->inner, 20);
        rp_sha1_end(state, 64, one, one_bytes, two, two_bytes);
        rp_sha1_write(state, inner);
        memcpy(state, key->outer, 20);
        rp_sha1_end(state, 64, inner, 20, inner, 0);
        rp_sha1_write(state, to);
    }

    /* Twenty bytes as base64 has them, compared with a text in a time that tells nothing of it. */
    static int rp_is_base64(const uint8_t *digest, const uint8_t *text)
    {
        static const char letters[] =
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        uint8_t padded[21];
        volatile uint8_t differs = 0;
        memcpy(padded, digest, 20);
        padded[20] = 0;
        for (int at = 0; at < 7; at++) {
            uint32_t three = (uint32_t)padded[3 * at] << 16 | (uint32_t)padded[3 * at + 1] << 8
                           | padded[3 * at + 2];
            differs |= (uint8_t)letters[three >> 18] ^ text[4 * at];
            differs |= (uint8_t)letters[three >> 12 & 63] ^ text[4 * at + 1];
            differs |= (uint8_t)letters[three >> 6 & 63] ^ text[4 * at + 2];
            differs |= (uint8_t)(at < 6 ? letters[three & 63] : '=') ^ text[4 * at + 3];
        }
        return !differs;
    }
    """
    ctypedef struct HmacKey "rp_hmac_key":
        pass
    int has_sha1 "rp_has_sha1"
    void prepare_sha1 "rp_sha1_prepare"() noexcept nogil
    void prepare_hmac "rp_hmac_prepare"(HmacKey *key, const uint8_t *block) noexcept nogil
    void hmac_of "rp_hmac"(
        const HmacKey *key, const uint8_t *one, size_t one_bytes,
        const uint8_t *two, size_t two_bytes, uint8_t *to
    ) noexcept nogil
    bint is_base64 "rp_is_base64"(const uint8_t *digest, const uint8_t *text) noexcept nogil
