# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""The compiled twin of ``protocol.hot``: frames found and answers written for less.

Bytes from outside are read here: every length is compared with what is there before it is used.
What is at all unusual, and whatever has to raise, is left to the function in Python, in ``pure``.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_Check
from libc.stdio cimport snprintf

from rocketpipe.record._raw cimport *

from rocketpipe.protocol.codes import OUR_VERSION

TWINS = ("scan", "send_reply", "message_ids")
MADE_FROM = ROCKETPIPE_SOURCE.decode()
#: The functions that these stand for, by name.
pure = {}

cdef long long _version = int(OUR_VERSION)
cdef const char *_hex = b"0123456789ABCDEF"


def scan(data, Py_ssize_t at, Py_ssize_t end, max_frame_bytes=None):
    cdef const uint8_t *from_
    cdef int64_t longest = 0
    cdef int32_t length
    cdef uint32_t word
    cdef Py_ssize_t first = at
    cdef int64_t header
    cdef list frames = []
    if max_frame_bytes is None:
        return pure["scan"](data, at, end)
    if (
        type(data) is not bytes
        or at < 0
        or end > PyBytes_GET_SIZE(data)
        or not fits(max_frame_bytes, 8, 0x7FFFFFFF, &longest)
    ):
        return pure["scan"](data, at, end, max_frame_bytes)
    from_ = <const uint8_t *>PyBytes_AS_STRING(data)
    while end - at >= 8:
        length = <int32_t>get32(from_ + at)
        word = get32(from_ + at + 4)
        header = word & 0x00FFFFFF
        if length < 4 or length > longest - 4 or word > 0x01FFFFFF or header > length - 4:
            if not frames:
                return pure["scan"](data, first, end, max_frame_bytes)
            break
        if length > end - at - 4:
            break
        frames.append((at, at + 8 + <Py_ssize_t>header, at + 4 + length))
        at += 4 + length
    return frames


cdef inline void write_hex(uint8_t *to, uint64_t number) noexcept:
    cdef int digit
    for digit in range(16):
        to[15 - digit] = _hex[number & 15]
        number >>= 4


def send_reply(
    opaque, code, bytes host not None, log_offset, queue_id, queue_offset, bytes tail not None
):
    cdef int64_t number = 0, status = 0, place = 0, queue = 0, offset = 0
    cdef int64_t least = -0x80000000
    cdef int64_t most = 0x7FFFFFFF
    cdef char start[64]
    cdef char middle[96]
    cdef char close[128]
    cdef int start_bytes, middle_bytes, close_bytes
    cdef Py_ssize_t host_bytes = PyBytes_GET_SIZE(host), tail_bytes = PyBytes_GET_SIZE(tail), size
    cdef uint8_t *to
    if (
        not fits(opaque, least, most, &number)
        or not fits(code, least, most, &status)
        or not fits(log_offset, 0, 0x7FFFFFFFFFFFFFFF, &place)
        or not fits(queue_id, least, most, &queue)
        or not fits(queue_offset, 0, 0x7FFFFFFFFFFFFFFF, &offset)
    ):
        return pure["send_reply"](opaque, code, host, log_offset, queue_id, queue_offset, tail)
    start_bytes = snprintf(
        start, sizeof(start), b'{"code":%lld,"extFields":{"msgId":"', <long long>status
    )
    middle_bytes = snprintf(
        middle, sizeof(middle), b'","queueId":"%lld","queueOffset":"%lld",',
        <long long>queue, <long long>offset,
    )
    close_bytes = snprintf(
        close, sizeof(close),
        b'},"flag":1,"language":"PYTHON","opaque":%lld,'
        b'"serializeTypeCurrentRPC":"JSON","version":%lld}',
        <long long>number, _version,
    )
    size = start_bytes + host_bytes + 16 + middle_bytes + tail_bytes + close_bytes
    if size > 0x00FFFFFF:
        return pure["send_reply"](opaque, code, host, log_offset, queue_id, queue_offset, tail)
    frame = PyBytes_FromStringAndSize(NULL, size + 8)
    to = <uint8_t *>PyBytes_AS_STRING(frame)
    put32(to, <uint32_t>(size + 4))
    put32(to + 4, <uint32_t>size)
    to += 8
    memcpy(to, start, start_bytes)
    to += start_bytes
    memcpy(to, PyBytes_AS_STRING(host), host_bytes)
    to += host_bytes
    write_hex(to, <uint64_t>place)
    to += 16
    memcpy(to, middle, middle_bytes)
    to += middle_bytes
    memcpy(to, PyBytes_AS_STRING(tail), tail_bytes)
    memcpy(to + tail_bytes, close, close_bytes)
    return frame


def message_ids(bytes host not None, list offsets not None):
    cdef Py_ssize_t host_bytes = PyBytes_GET_SIZE(host), many = len(offsets)
    cdef int64_t place = 0
    cdef uint8_t *to
    for offset in offsets:
        if not fits(offset, 0, 0x7FFFFFFFFFFFFFFF, &place):
            return pure["message_ids"](host, offsets)
    ids = PyBytes_FromStringAndSize(NULL, many * (host_bytes + 17) + host_bytes)
    to = <uint8_t *>PyBytes_AS_STRING(ids)
    for offset in offsets:
        fits(offset, 0, 0x7FFFFFFFFFFFFFFF, &place)
        memcpy(to, PyBytes_AS_STRING(host), host_bytes)
        write_hex(to + host_bytes, <uint64_t>place)
        to[host_bytes + 16] = 44
        to += host_bytes + 17
    memcpy(to, PyBytes_AS_STRING(host), host_bytes)
    return ids
