# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""The compiled twin of ``record.hot``: the same functions, for less.

Bytes from outside are read here: every length is compared with what is there before it is used.
What is at all unusual, and whatever has to raise, is left to the function in Python, in ``pure``.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_ND, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
)
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_Check

from rocketpipe.record._raw cimport *

TWINS = (
    "java_hash", "tag_code", "encode", "split", "queue_offsets", "cut", "checked_body", "seal",
    "seal_holds", "split_batch", "checksums",
)
MADE_FROM = ROCKETPIPE_SOURCE.decode()
#: The functions that these stand for, by name.
pure = {}

prepare_crc32()


def crc32(bytes data not None):
    """The checksum as these functions compute it, for tests."""
    return crc32_of(<const uint8_t *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


def crc32_by_tables(bytes data not None):
    """The same on a processor that does not multiply polynomials."""
    global folds
    cdef int before = folds
    folds = 0
    found = crc32_of(<const uint8_t *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    folds = before
    return found


def java_hash(str text not None):
    cdef uint32_t total = 0
    cdef Py_UCS4 letter
    for letter in text:
        if letter > 0xFFFF:
            total = 31 * total + (0xD7C0 + (<uint32_t>letter >> 10))
            total = 31 * total + (0xDC00 + (<uint32_t>letter & 0x3FF))
        else:
            total = 31 * total + <uint32_t>letter
    return <int32_t>total


def tag_code(bytes properties not None):
    cdef Py_ssize_t length = 0
    cdef const uint8_t *tag = find_value(
        <const uint8_t *>PyBytes_AS_STRING(properties),
        PyBytes_GET_SIZE(properties),
        b"TAGS\x01",
        5,
        &length,
    )
    if tag == NULL:
        return 0
    if not is_ascii(tag, length):
        return pure["tag_code"](properties)
    return <int32_t>hash_on(0, tag, length)


def encode(
    magic, queue_id, flag, queue_offset, log_offset, sys_flag, born_ms, bytes born_host not None,
    stored_ms, bytes store_host not None, reconsume_times, prepared_offset, body,
    bytes topic not None, bytes properties not None,
):
    cdef int64_t ints[5]
    cdef int64_t longs[5]
    cdef int64_t least = -0x80000000
    cdef int64_t most = 0x7FFFFFFF
    cdef int64_t lowest = <int64_t>(<uint64_t>1 << 63)
    cdef int64_t highest = ~lowest
    cdef Py_ssize_t born = PyBytes_GET_SIZE(born_host)
    cdef Py_ssize_t stored = PyBytes_GET_SIZE(store_host)
    cdef Py_ssize_t topic_bytes = PyBytes_GET_SIZE(topic)
    cdef Py_ssize_t properties_bytes = PyBytes_GET_SIZE(properties)
    cdef Py_ssize_t body_bytes, size
    cdef uint8_t *at
    if not isinstance(body, bytes):
        body = bytes(memoryview(body))
    body_bytes = PyBytes_GET_SIZE(<bytes>body)
    size = 72 + born + stored + body_bytes + topic_bytes + 2 + properties_bytes
    if (
        not fits(magic, least, most, &ints[0])
        or not fits(queue_id, least, most, &ints[1])
        or not fits(flag, least, most, &ints[2])
        or not fits(queue_offset, lowest, highest, &longs[0])
        or not fits(log_offset, lowest, highest, &longs[1])
        or not fits(sys_flag, least, most, &ints[3])
        or not fits(born_ms, lowest, highest, &longs[2])
        or not fits(stored_ms, lowest, highest, &longs[3])
        or not fits(reconsume_times, least, most, &ints[4])
        or not fits(prepared_offset, lowest, highest, &longs[4])
        or born != (20 if ints[3] & BORN_V6 else 8)
        or stored != (20 if ints[3] & STORE_V6 else 8)
        or properties_bytes > MAX_PROPERTIES
        or size > 0x7FFFFFFF
    ):
        return pure["encode"](
            magic, queue_id, flag, queue_offset, log_offset, sys_flag, born_ms, born_host,
            stored_ms, store_host, reconsume_times, prepared_offset, body, topic, properties,
        )
    record = PyBytes_FromStringAndSize(NULL, size)
    at = <uint8_t *>PyBytes_AS_STRING(record)
    put32(at, <uint32_t>size)
    put32(at + 4, <uint32_t>ints[0])
    put32(at + 8, crc32_of(<const uint8_t *>PyBytes_AS_STRING(body), body_bytes) & 0x7FFFFFFF)
    put32(at + 12, <uint32_t>ints[1])
    put32(at + 16, <uint32_t>ints[2])
    put64(at + 20, <uint64_t>longs[0])
    put64(at + 28, <uint64_t>longs[1])
    put32(at + 36, <uint32_t>ints[3])
    put64(at + 40, <uint64_t>longs[2])
    memcpy(at + 48, PyBytes_AS_STRING(born_host), born)
    at += 48 + born
    put64(at, <uint64_t>longs[3])
    memcpy(at + 8, PyBytes_AS_STRING(store_host), stored)
    at += 8 + stored
    put32(at, <uint32_t>ints[4])
    put64(at + 4, <uint64_t>longs[4])
    put32(at + 12, <uint32_t>body_bytes)
    memcpy(at + 16, PyBytes_AS_STRING(body), body_bytes)
    at += 16 + body_bytes
    memcpy(at, PyBytes_AS_STRING(topic), topic_bytes)
    at += topic_bytes
    at[0] = <uint8_t>(properties_bytes >> 8)
    at[1] = <uint8_t>properties_bytes
    memcpy(at + 2, PyBytes_AS_STRING(properties), properties_bytes)
    return record


def split(buffer, Py_ssize_t at, Py_ssize_t end):
    cdef Py_buffer view
    cdef const uint8_t *data
    cdef object found
    if type(buffer) is bytes:
        data = <const uint8_t *>PyBytes_AS_STRING(buffer)
        found = _split(data, PyBytes_GET_SIZE(buffer), at, end, 0)
    else:
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        try:
            found = _split(<const uint8_t *>view.buf, view.len, at, end, 0)
        finally:
            PyBuffer_Release(&view)
    return pure["split"](buffer, at, end) if found is None else found


def cut(buffer, Py_ssize_t at, Py_ssize_t end):
    cdef const uint8_t *data
    cdef object found = None
    if type(buffer) is bytes:
        data = <const uint8_t *>PyBytes_AS_STRING(buffer)
        found = _split(data, PyBytes_GET_SIZE(buffer), at, end, at)
    if found is None:
        return pure["cut"](buffer, at, end)
    return PyBytes_FromStringAndSize(<const char *>data + at, <int32_t>get32(data + at)), found


def checked_body(buffer, Py_ssize_t at, Py_ssize_t end, crc):
    cdef const uint8_t *data
    cdef int64_t wanted = 0
    if (
        type(buffer) is not bytes
        or not 0 <= at <= end <= PyBytes_GET_SIZE(buffer)
        or not fits(crc, -0x80000000, 0x7FFFFFFF, &wanted)
    ):
        return pure["checked_body"](buffer, at, end, crc)
    data = <const uint8_t *>PyBytes_AS_STRING(buffer) + at
    if <int64_t>(crc32_of(data, end - at) & 0x7FFFFFFF) != wanted:
        return None
    return PyBytes_FromStringAndSize(<const char *>data, end - at)


cdef object _split(
    const uint8_t *data, Py_ssize_t length, Py_ssize_t at, Py_ssize_t end, Py_ssize_t from_
):
    """What `split` gives, with places counted from ``from_``; None where it would raise."""
    cdef Parts parts
    cdef const uint8_t *head
    cdef const uint8_t *behind
    if at < 0 or end > length or not find_parts(data, at, end, &parts):
        return None
    head = data + at
    behind = head + 48 + parts.born_bytes
    return (
        (
            parts.size,
            <int32_t>get32(head + 4),
            <int32_t>get32(head + 8),
            <int32_t>get32(head + 12),
            <int32_t>get32(head + 16),
            <int64_t>get64(head + 20),
            <int64_t>get64(head + 28),
            parts.sys_flag,
            <int64_t>get64(head + 40),
            PyBytes_FromStringAndSize(<const char *>head + 48, parts.born_bytes),
            <int64_t>get64(behind),
            PyBytes_FromStringAndSize(<const char *>behind + 8, parts.store_bytes),
            <int32_t>get32(data + parts.body - 16),
            <int64_t>get64(data + parts.body - 12),
            parts.body_bytes,
        ),
        parts.body - from_,
        parts.topic - from_,
        parts.topic_end - from_,
        parts.properties - from_,
        parts.stop - from_,
    )


cdef bint has_longs(const Py_buffer *view) noexcept:
    return (
        view.ndim == 1
        and view.itemsize == 8
        and view.format != NULL
        and (view.format[0] == c"l" or view.format[0] == c"q")
        and view.format[1] == 0
    )


def checksums(buffer, starts, ends, before=0):
    cdef Py_buffer data, firsts, lasts
    cdef const int64_t *first
    cdef const int64_t *last
    cdef uint32_t *to
    cdef Py_ssize_t number, count
    cdef int64_t begun = 0
    cdef bint right = fits(before, 0, 0xFFFFFFFF, &begun)
    found = None
    PyObject_GetBuffer(buffer, &data, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(starts, &firsts, PyBUF_FORMAT | PyBUF_ND)
        try:
            PyObject_GetBuffer(ends, &lasts, PyBUF_FORMAT | PyBUF_ND)
            try:
                if (
                    right
                    and has_longs(&firsts)
                    and has_longs(&lasts)
                    and firsts.len == lasts.len
                ):
                    count = firsts.len // 8
                    found = PyBytes_FromStringAndSize(NULL, 4 * count)
                    to = <uint32_t *>PyBytes_AS_STRING(found)
                    first, last = <const int64_t *>firsts.buf, <const int64_t *>lasts.buf
                    with nogil:
                        for number in range(count):
                            if not 0 <= first[number] <= last[number] <= data.len:
                                right = False
                                break
                            to[number] = crc32_on(
                                <uint32_t>begun,
                                <const uint8_t *>data.buf + first[number],
                                last[number] - first[number],
                            )
            finally:
                PyBuffer_Release(&lasts)
        finally:
            PyBuffer_Release(&firsts)
    finally:
        PyBuffer_Release(&data)
    if found is None or not right:
        return pure["checksums"](buffer, starts, ends, before)
    return found


def queue_offsets(bytes records not None):
    cdef const uint8_t *data = <const uint8_t *>PyBytes_AS_STRING(records)
    cdef Py_ssize_t at = 0, end = PyBytes_GET_SIZE(records)
    cdef Parts parts
    cdef list offsets = []
    while at < end:
        if not find_parts(data, at, end, &parts):
            return pure["queue_offsets"](records)
        offsets.append(<int64_t>get64(data + at + 20))
        at = parts.stop
    return offsets


def seal(bytes record not None):
    cdef Py_ssize_t size = PyBytes_GET_SIZE(record)
    cdef uint8_t *to
    if size < SEAL_BYTES:
        return pure["seal"](record)
    sealed = PyBytes_FromStringAndSize(NULL, size)
    to = <uint8_t *>PyBytes_AS_STRING(sealed)
    memcpy(to, PyBytes_AS_STRING(record), size - SEAL_BYTES)
    write_seal(to, size - SEAL_BYTES, to + size - SEAL_BYTES)
    return sealed


def seal_holds(bytes record not None):
    return seal_is_right(<const uint8_t *>PyBytes_AS_STRING(record), PyBytes_GET_SIZE(record))


def split_batch(bytes buffer not None, Py_ssize_t max_bytes):
    cdef const uint8_t *data = <const uint8_t *>PyBytes_AS_STRING(buffer)
    cdef Py_ssize_t end = PyBytes_GET_SIZE(buffer)
    cdef Py_ssize_t at = 0, body, body_end, stop, text_bytes
    cdef int32_t size, body_bytes
    cdef list entries = []
    if end > max_bytes:
        return None
    while end - at >= 22:
        size = <int32_t>get32(data + at)
        body_bytes = <int32_t>get32(data + at + 16)
        if size < 22 or size > end - at or body_bytes < 0 or body_bytes > size - 22:
            return None
        stop = at + size
        body = at + 20
        body_end = body + body_bytes
        # A length of more than 32767 would be negative: it does not bring us to the end either.
        text_bytes = data[body_end] << 8 | data[body_end + 1]
        if body_end + 2 + text_bytes != stop or text_bytes > MAX_PROPERTIES:
            return None
        entries.append(
            (
                <int32_t>get32(data + at + 12),
                PyBytes_FromStringAndSize(<const char *>data + body, body_bytes),
                PyBytes_FromStringAndSize(<const char *>data + body_end + 2, stop - body_end - 2),
            )
        )
        if stop == end:
            return entries
        at = stop
    return None
