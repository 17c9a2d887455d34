# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""The compiled twin of ``tables.digests``: XXH64 of many texts.

Every place is compared with what is there before it is used. What is at all unusual is left to the
function in Python, found in ``pure``.
"""

from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_ND, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.string cimport memcpy

from rocketpipe.record._raw cimport *

TWINS = ("hash_runs",)
MADE_FROM = ROCKETPIPE_SOURCE.decode()
#: The functions that these stand for, by name.
pure = {}

cdef uint64_t P1 = 0x9E3779B185EBCA87u
cdef uint64_t P2 = 0xC2B2AE3D27D4EB4Fu
cdef uint64_t P3 = 0x165667B19E3779F9u
cdef uint64_t P4 = 0x85EBCA77C2B2AE63u
cdef uint64_t P5 = 0x27D4EB2F165667C5u


cdef inline uint64_t turned(uint64_t word, int by) noexcept nogil:
    return word << by | word >> (64 - by)


cdef inline uint64_t round_of(uint64_t held, uint64_t word) noexcept nogil:
    return turned(held + word * P2, 31) * P1


cdef inline uint64_t word_at(const uint8_t *at) noexcept nogil:
    """Eight bytes as the little number that they are."""
    cdef uint64_t word = 0
    cdef int number
    for number in range(8):
        word |= <uint64_t>at[number] << 8 * number
    return word


cdef inline uint64_t xxh64(const uint8_t *at, Py_ssize_t length, uint64_t seed) noexcept nogil:
    cdef const uint8_t *end = at + length
    cdef uint64_t digest = seed + P5, half
    cdef uint64_t lanes[4]
    cdef int lane
    if length >= 32:
        lanes[0], lanes[1], lanes[2], lanes[3] = seed + P1 + P2, seed + P2, seed, seed - P1
        while end - at >= 32:
            for lane in range(4):
                lanes[lane] = round_of(lanes[lane], word_at(at + 8 * lane))
            at += 32
        digest = turned(lanes[0], 1) + turned(lanes[1], 7)
        digest += turned(lanes[2], 12) + turned(lanes[3], 18)
        for lane in range(4):
            digest = (digest ^ round_of(0, lanes[lane])) * P1 + P4
    digest += <uint64_t>length
    while end - at >= 8:
        digest = turned(digest ^ round_of(0, word_at(at)), 27) * P1 + P4
        at += 8
    if end - at >= 4:
        half = <uint64_t>at[0] | <uint64_t>at[1] << 8 | <uint64_t>at[2] << 16 | <uint64_t>at[3] << 24
        digest = turned(digest ^ half * P1, 23) * P2 + P3
        at += 4
    while at < end:
        digest = turned(digest ^ at[0] * P5, 11) * P1
        at += 1
    digest = (digest ^ digest >> 33) * P2
    digest = (digest ^ digest >> 29) * P3
    return digest ^ digest >> 32


def hash_runs(data, edges, seed):
    cdef Py_buffer texts, places
    cdef const int64_t *edge
    cdef uint64_t *to
    cdef uint64_t begin = seed
    cdef Py_ssize_t number, count
    cdef bint right = True
    found = None
    PyObject_GetBuffer(data, &texts, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(edges, &places, PyBUF_FORMAT | PyBUF_ND)
        try:
            if (
                places.ndim == 1
                and places.itemsize == 8
                and places.len >= 8
                and places.format != NULL
                and (places.format[0] == c"l" or places.format[0] == c"q")
            ):
                count = places.len // 8 - 1
                found = PyBytes_FromStringAndSize(NULL, 8 * count)
                to = <uint64_t *>PyBytes_AS_STRING(found)
                edge = <const int64_t *>places.buf
                with nogil:
                    for number in range(count):
                        if not 0 <= edge[number] <= edge[number + 1] <= texts.len:
                            right = False
                            break
                        to[number] = xxh64(
                            <const uint8_t *>texts.buf + edge[number],
                            edge[number + 1] - edge[number], begin,
                        )
        finally:
            PyBuffer_Release(&places)
    finally:
        PyBuffer_Release(&texts)
    return found if found is not None and right else pure["hash_runs"](data, edges, seed)
