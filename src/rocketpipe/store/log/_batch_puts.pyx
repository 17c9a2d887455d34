# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""The compiled twin of ``log.batch_puts``.

Every length is compared with what is there before it is used. What is at all unusual, and whatever
has to raise, is left to the function in Python, found in ``pure``.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from rocketpipe.record._raw cimport *

from rocketpipe.store.log.puts import Put

TWINS = ("puts_of_batch",)
MADE_FROM = ROCKETPIPE_SOURCE.decode()
#: The functions that these stand for, by name.
pure = {}

prepare_crc32()

cdef enum:
    UNIQUE_BYTES = 32

cdef object _put = Put


def puts_of_batch(
    bytes buffer not None, Py_ssize_t max_bytes, set heads not None, topic, queue_id, sys_flag,
    born_ms, born_host, bytes suffix not None,
):
    cdef const uint8_t *data = raw(buffer)
    cdef const uint8_t *text
    cdef const uint8_t *known = NULL
    cdef Py_ssize_t end = PyBytes_GET_SIZE(buffer), added = PyBytes_GET_SIZE(suffix)
    cdef Py_ssize_t at = 0, body_end, stop, text_bytes, head_bytes, known_bytes = -1
    cdef int32_t size, body_bytes
    cdef list puts = []
    cdef uint8_t *to
    if end > max_bytes:
        return None
    while end - at >= 22:
        size = <int32_t>get32(data + at)
        body_bytes = <int32_t>get32(data + at + 16)
        if size < 22 or size > end - at or body_bytes < 0 or body_bytes > size - 22:
            return None
        stop = at + size
        body_end = at + 20 + body_bytes
        text = data + body_end + 2
        text_bytes = stop - body_end - 2
        if (data[body_end] << 8 | data[body_end + 1]) != text_bytes or text_bytes > MAX_PROPERTIES:
            return None
        # … UNIQ_KEY 0x01 key 0x02, of which what stands before was seen to be plain.
        head_bytes = text_bytes - (9 + UNIQUE_BYTES + 1)
        if (
            head_bytes < 0
            or data[stop - 1] != 2
            or memcmp(text + head_bytes, b"UNIQ_KEY\x01", 9) != 0
            or not is_alnum(text + head_bytes + 9, UNIQUE_BYTES)
        ):
            return None
        if head_bytes != known_bytes or memcmp(text, known, head_bytes) != 0:
            if PyBytes_FromStringAndSize(<const char *>text, head_bytes) not in heads:
                return None
            known = text
            known_bytes = head_bytes
        properties = PyBytes_FromStringAndSize(NULL, text_bytes + added)
        to = <uint8_t *>PyBytes_AS_STRING(properties)
        memcpy(to, text, text_bytes)
        memcpy(to + text_bytes, PyBytes_AS_STRING(suffix), added)
        put = new_tuple(_put, 10)
        fill(put, 0, topic)
        fill(put, 1, queue_id)
        fill(put, 2, PyBytes_FromStringAndSize(<const char *>data + at + 20, body_bytes))
        fill(put, 3, properties)
        fill(put, 4, <int32_t>get32(data + at + 12))
        fill(put, 5, sys_flag)
        fill(put, 6, born_ms)
        fill(put, 7, born_host)
        fill(put, 8, 0)
        fill(put, 9, 0)
        puts.append(put)
        if stop == end:
            return puts
        at = stop
    return None
