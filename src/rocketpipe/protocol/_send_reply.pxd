# The answer to a send, written in place. Who calls it has made sure that there is room.

from rocketpipe.record._raw cimport *

cdef enum:
    # What an answer has at most beside ids, transaction and tail: names, numbers, the lengths.
    REPLY_BYTES = 320


cdef inline uint8_t *write_text(uint8_t *to, const char *text, Py_ssize_t length) noexcept:
    memcpy(to, text, length)
    return to + length


cdef inline uint8_t *write_number(uint8_t *to, int64_t number) noexcept:
    """Write a number in decimal digits."""
    cdef uint8_t digits[20]
    cdef int count = 0
    cdef uint64_t rest = <uint64_t>number
    if number < 0:
        to[0] = c"-"
        to += 1
        rest = 0 - rest
    while True:
        digits[count] = <uint8_t>(48 + rest % 10)
        rest //= 10
        count += 1
        if not rest:
            break
    while count:
        count -= 1
        to[0] = digits[count]
        to += 1
    return to


cdef inline uint8_t *write_id(
    uint8_t *to, const uint8_t *host, Py_ssize_t host_bytes, int64_t place
) noexcept:
    """Write a message id: the store's host, which is in hex already, and a place in its log."""
    cdef const char *digits = b"0123456789ABCDEF"
    cdef int nibble
    memcpy(to, host, host_bytes)
    to += host_bytes
    for nibble in range(16):
        to[15 - nibble] = digits[<uint64_t>place >> 4 * nibble & 15]
    return to + 16


cdef inline uint8_t *begin_reply(uint8_t *frame, int64_t code) noexcept:
    """Write what stands before the ids; the lengths are left to `end_reply`."""
    cdef uint8_t *to = write_text(frame + 8, b'{"code":', 8)
    return write_text(write_number(to, code), b',"extFields":{"msgId":"', 23)


cdef inline uint8_t *end_reply(
    uint8_t *frame, uint8_t *to, int64_t queue, int64_t offset, const uint8_t *key,
    Py_ssize_t key_bytes, const uint8_t *tail, Py_ssize_t tail_bytes, int64_t opaque,
    int64_t version,
) noexcept:
    """Write what stands behind the ids, and the lengths; gives the place behind the frame."""
    cdef uint32_t length
    to = write_number(write_text(to, b'","queueId":"', 13), queue)
    to = write_number(write_text(to, b'","queueOffset":"', 17), offset)
    to = write_text(to, b'",', 2)
    if key_bytes:
        to = write_text(to, b'"transactionId":"', 17)
        to = write_text(to, <const char *>key, key_bytes)
        to = write_text(to, b'",', 2)
    to = write_text(to, <const char *>tail, tail_bytes)
    to = write_text(to, b'},"flag":1,"language":"PYTHON","opaque":', 40)
    to = write_number(to, opaque)
    to = write_text(to, b',"serializeTypeCurrentRPC":"JSON","version":', 44)
    to = write_text(write_number(to, version), b"}", 1)
    length = <uint32_t>(to - frame)
    put32(frame, length - 4)
    put32(frame + 4, length - 8)
    return to
