# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""The compiled twin of ``log.records``.

Every length is compared with what is there before it is used. What is at all unusual, and whatever
has to raise, is left to the function in Python, found in ``pure``.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from rocketpipe.record._raw cimport *

from rocketpipe.store.log.puts import Appended

TWINS = ("sealed_run", "known_run")
MADE_FROM = ROCKETPIPE_SOURCE.decode()
#: The functions that these stand for, by name.
pure = {}

prepare_crc32()

cdef object _appended = Appended

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


def known_run(bytes data not None, at, Py_ssize_t place, topics):
    cdef const uint8_t *from_ = raw(data)
    cdef const uint8_t *record
    cdef const uint8_t *known = NULL
    cdef Py_ssize_t length = PyBytes_GET_SIZE(data), topic_bytes, known_bytes = -1
    cdef Parts parts
    cdef int64_t begin = 0
    cdef int32_t queue_id
    cdef list records = []
    cdef object topic = None, told
    if place < 0 or not fits_place(at, &begin):
        return pure["known_run"](data, at, place, topics)
    while length - place >= MIN_RECORD_BYTES:
        record = from_ + place
        if (
            not find_parts(from_, place, length, &parts)
            or <int64_t>get64(record + 28) != begin + place
            or parts.stop - SEAL_BYTES < parts.properties
            or not seal_is_right(record, parts.size)
        ):
            break
        topic_bytes = parts.topic_end - parts.topic
        if topic_bytes != known_bytes or memcmp(known, from_ + parts.topic, topic_bytes):
            known, known_bytes = from_ + parts.topic, topic_bytes
            topic = topics.get(PyBytes_FromStringAndSize(<const char *>known, known_bytes))
        queue_id = <int32_t>get32(record + 12)
        if topic is None or queue_id < 0:
            break
        told = new_tuple(_appended, 8)
        fill(told, 0, begin + place)
        fill(told, 1, parts.size)
        fill(told, 2, <int64_t>get64(record + 20))
        fill(told, 3, <int64_t>get64(record + 48 + parts.born_bytes))
        fill(told, 4, topic)
        fill(told, 5, queue_id)
        fill(told, 6, parts.sys_flag)
        fill(
            told,
            7,
            PyBytes_FromStringAndSize(
                <const char *>from_ + parts.properties, parts.stop - SEAL_BYTES - parts.properties
            ),
        )
        records.append(told)
        place += parts.size
    return records, place
