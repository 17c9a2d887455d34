# A string of a JSON header, read in place: whoever lets a frame in and whoever takes it apart have to
# see the same string, so both read it by this.

from rocketpipe.record._raw cimport *

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
    while at < end:
        if at[0] == c'"':
            text.length = at - text.start
            return at + 1
        if at[0] < 32 or at[0] >= 127:
            return NULL
        if at[0] == c"\\":
            text.escaped = True
            at += 1
            if at >= end or at[0] < 32 or at[0] >= 127:
                return NULL
        at += 1
    return NULL


cdef inline bint is_word(const Text *text, const char *word, Py_ssize_t length) noexcept:
    return text.length == length and memcmp(text.start, word, length) == 0
