# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""The compiled twin of ``log.records``.

Every length is compared with what is there before it is used. What is at all unusual, and whatever
has to raise, is left to the function in Python, found in ``pure``.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from rocketpipe.record._raw cimport *

TWINS = ("sealed_run",)
MADE_FROM = ROCKETPIPE_SOURCE.decode()
#: The functions that these stand for, by name.
pure = {}

prepare_crc32()

cdef enum:
    MAX_RECORD_BYTES = 16 * 1024 * 1024 + 64 * 1024


def sealed_run(bytes data not None, at, Py_ssize_t place):
    cdef const uint8_t *from_ = raw(data)
    cdef const uint8_t *record
    cdef Py_ssize_t length = PyBytes_GET_SIZE(data), last = place, count = 0
    cdef int64_t begin = 0
    cdef int32_t size, magic
    if place < 0 or not fits_place(at, &begin):
        return pure["sealed_run"](data, at, place)
    while length - place >= MIN_RECORD_BYTES:
        record = from_ + place
        size = <int32_t>get32(record)
        magic = <int32_t>get32(record + 4)
        if (
            (magic != MAGIC_V1 and magic != MAGIC_V2)
            or size < MIN_RECORD_BYTES
            or size > MAX_RECORD_BYTES
            or <int64_t>get64(record + 28) != begin + place
            or size > length - place
            or not seal_is_right(record, size)
        ):
            break
        last = place
        count += 1
        place += size
    return place, last, count
