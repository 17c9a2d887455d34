# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""The compiled twin of ``fast_path.asks``: one walk over the header, from quote to quote.

Every byte is looked at before it is passed, and none behind the header's end.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from rocketpipe.record._raw cimport *

TWINS = ("read_ask",)
MADE_FROM = ROCKETPIPE_SOURCE.decode()
#: The functions that these stand for, by name.
pure = {}

cdef enum:
    MAX_HEADER_BYTES = 1024
    MAX_DIGITS = 18


cdef inline const uint8_t *read_number(
    const uint8_t *at, const uint8_t *end, int64_t *number
) noexcept nogil:
    """Read digits, with no more than a minus before them; gives the place behind, or NULL."""
    cdef bint negative = at < end and at[0] == c"-"
    cdef int digits = 0
    cdef int64_t total = 0
    if negative:
        at += 1
    if at < end and at[0] == c"0" and (negative or (at + 1 < end and c"0" <= at[1] <= c"9")):
        return NULL
    while at < end and c"0" <= at[0] <= c"9":
        digits += 1
        if digits > MAX_DIGITS:
            return NULL
        total = 10 * total + (at[0] - c"0")
        at += 1
    if not digits:
        return NULL
    number[0] = -total if negative else total
    return at


cdef inline int which_name(const uint8_t *at, Py_ssize_t left, Py_ssize_t *length) noexcept nogil:
    """Which of the four names begins at a quote, and how long it is with its colon; −1 if none."""
    if left >= 9 and memcmp(at, b'"opaque":', 9) == 0:
        length[0] = 9
        return 0
    if left >= 14 and memcmp(at, b'"queueOffset":', 14) == 0:
        length[0] = 14
        return 1
    if left >= 15 and memcmp(at, b'"commitOffset":', 15) == 0:
        length[0] = 15
        return 2
    if left >= 12 and memcmp(at, b'"Signature":', 12) == 0:
        length[0] = 12
        return 3
    return -1


def read_ask(bytes buffer not None, Py_ssize_t at, Py_ssize_t body):
    cdef const uint8_t *header = raw(buffer)
    cdef const uint8_t *end
    cdef const uint8_t *place
    cdef const uint8_t *number
    cdef const uint8_t *taken
    cdef uint8_t rest[MAX_HEADER_BYTES]
    cdef Py_ssize_t length = 0, left = 0
    cdef int64_t numbers[3]
    cdef int which, seen = 0
    if at < 0 or body < at + 8 or body > PyBytes_GET_SIZE(buffer):
        return pure["read_ask"](buffer, at, body)
    if header[at + 4] or body - at - 8 > MAX_HEADER_BYTES:
        return None
    header += at
    end = header + (body - at)
    header += 8
    if memchr(header, c"\\", end - header) != NULL:
        return None
    place = taken = header
    while True:
        place = <const uint8_t *>memchr(place, c'"', end - place)
        if place == NULL:
            break
        which = which_name(place, end - place, &length)
        if which < 0:
            place += 1
            continue
        place += length
        if seen >> which & 1:
            return None
        seen |= 1 << which
        if which:
            if place >= end or place[0] != c'"':
                return None
            place += 1
        number = place
        if which == 3:
            place = <const uint8_t *>memchr(number, c'"', end - number)
        else:
            place = read_number(number, end, &numbers[which])
        if place == NULL or place >= end:
            return None
        if place[0] != c'"' if which else (place[0] != c"," and place[0] != c"}"):
            return None
        memcpy(rest + left, taken, number - taken)
        left += number - taken
        taken = place
    if seen & 7 != 7 or not -0x80000000 <= numbers[0] <= 0x7FFFFFFF:
        return None
    memcpy(rest + left, taken, end - taken)
    left += end - taken
    return PyBytes_FromStringAndSize(<const char *>rest, left), numbers[0], numbers[1], numbers[2]
