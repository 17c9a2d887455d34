# A string of a JSON header, read in place: whoever lets a frame in and whoever takes it apart have to
# see the same string, so both read it by this.

from rocketpipe.record._raw cimport *

cdef extern from *:
    """
    #if defined(__SSE2__) && defined(__GNUC__)
    #include <emmintrin.h>
    #endif

    /* The first byte that is no plain one of a JSON string in ASCII; `end` if there is none. */
    static inline const uint8_t *rp_plain_end(const uint8_t *at, const uint8_t *end)
    {
    #if defined(__SSE2__) && defined(__GNUC__)
        while (end - at >= 16) {
            const __m128i found = _mm_loadu_si128((const __m128i *)at);
            /* As numbers with a sign: what is more than ASCII is less than zero. */
            const __m128i odd = _mm_or_si128(
                _mm_or_si128(_mm_cmpeq_epi8(found, _mm_set1_epi8('"')),
                             _mm_cmpeq_epi8(found, _mm_set1_epi8('\\\\'))),
                _mm_or_si128(_mm_cmplt_epi8(found, _mm_set1_epi8(32)),
                             _mm_cmpeq_epi8(found, _mm_set1_epi8(127))));
            const int places = _mm_movemask_epi8(odd);
            if (places)
                return at + __builtin_ctz((unsigned)places);
            at += 16;
        }
    #endif
        while (at < end && *at != '"' && *at != '\\\\' && *at >= 32 && *at < 127)
            at++;
        return at;
    }
    """
    const uint8_t *plain_end "rp_plain_end"(const uint8_t *at, const uint8_t *end) noexcept nogil

cdef struct Text:
    const uint8_t *start
    Py_ssize_t length
    bint escaped


cdef inline const uint8_t *read_text(const uint8_t *at, const uint8_t *end, Text *text) noexcept:
    """Read a JSON string of ASCII characters; gives the place behind it, or NULL."""
    if at >= end or at[0] != c'"':
        return NULL
    at += 1
    text.start = at
    text.escaped = False
    while True:
        at = plain_end(at, end)
        if at >= end:
            return NULL
        if at[0] == c'"':
            text.length = at - text.start
            return at + 1
        if at[0] != c"\\":
            return NULL
        text.escaped = True
        at += 1
        if at >= end or at[0] < 32 or at[0] >= 127:
            return NULL
        at += 1


cdef inline bint is_word(const Text *text, const char *word, Py_ssize_t length) noexcept:
    return text.length == length and memcmp(text.start, word, length) == 0
