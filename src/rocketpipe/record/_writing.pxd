# A record written in one go, for the twins that make records of messages. Who calls it has made
# sure that there is room, and that every number fits its field.

from rocketpipe.record._raw cimport *

cdef enum:
    # What a record has beside hosts, body, topic (with its length) and properties.
    AROUND_BYTES = 74
    MARK_BYTES = 42


cdef struct Draft:
    # One record; hosts are 8 or 20 bytes, and the topic has its length in front.
    int32_t size
    int32_t magic
    int32_t queue
    int32_t flag
    int32_t sys_flag
    int32_t reconsumed
    int64_t queue_offset
    int64_t at
    int64_t born
    int64_t stored
    int64_t prepared
    const uint8_t *born_host
    const uint8_t *store_host
    const uint8_t *body
    const uint8_t *topic
    # Properties as given, then what the broker adds, then the mark of a group; each may be empty.
    const uint8_t *text
    const uint8_t *suffix
    const uint8_t *mark
    Py_ssize_t born_bytes
    Py_ssize_t store_bytes
    Py_ssize_t body_bytes
    Py_ssize_t topic_bytes
    Py_ssize_t text_bytes
    Py_ssize_t suffix_bytes
    Py_ssize_t mark_bytes
    # One 0x02 more behind the text, where something follows and none is there.
    bint ended
    bint sealed


cdef inline Py_ssize_t properties_bytes(const Draft *draft) noexcept nogil:
    """How long the properties of a record are, with all that is added to them."""
    return (
        draft.text_bytes
        + draft.ended
        + draft.suffix_bytes
        + draft.mark_bytes
        + (SEAL_BYTES if draft.sealed else 0)
    )


cdef inline Py_ssize_t record_bytes(const Draft *draft) noexcept nogil:
    return (
        AROUND_BYTES
        + draft.born_bytes
        + draft.store_bytes
        + draft.body_bytes
        + draft.topic_bytes
        + properties_bytes(draft)
    )


cdef inline uint8_t *write_record(const Draft *draft, uint8_t *record) noexcept nogil:
    """Write a record of ``draft.size`` bytes; gives the place of its properties."""
    cdef uint8_t *to = record
    cdef uint8_t *properties
    cdef Py_ssize_t length = properties_bytes(draft)
    put32(to, <uint32_t>draft.size)
    put32(to + 4, <uint32_t>draft.magic)
    put32(to + 8, crc32_of(draft.body, draft.body_bytes) & 0x7FFFFFFF)
    put32(to + 12, <uint32_t>draft.queue)
    put32(to + 16, <uint32_t>draft.flag)
    put64(to + 20, <uint64_t>draft.queue_offset)
    put64(to + 28, <uint64_t>draft.at)
    put32(to + 36, <uint32_t>draft.sys_flag)
    put64(to + 40, <uint64_t>draft.born)
    memcpy(to + 48, draft.born_host, draft.born_bytes)
    to += 48 + draft.born_bytes
    put64(to, <uint64_t>draft.stored)
    memcpy(to + 8, draft.store_host, draft.store_bytes)
    to += 8 + draft.store_bytes
    put32(to, <uint32_t>draft.reconsumed)
    put64(to + 4, <uint64_t>draft.prepared)
    put32(to + 12, <uint32_t>draft.body_bytes)
    memcpy(to + 16, draft.body, draft.body_bytes)
    to += 16 + draft.body_bytes
    memcpy(to, draft.topic, draft.topic_bytes)
    to += draft.topic_bytes
    to[0] = <uint8_t>(length >> 8)
    to[1] = <uint8_t>length
    properties = to = to + 2
    memcpy(to, draft.text, draft.text_bytes)
    to += draft.text_bytes
    if draft.ended:
        to[0] = 2
        to += 1
    memcpy(to, draft.suffix, draft.suffix_bytes)
    to += draft.suffix_bytes
    memcpy(to, draft.mark, draft.mark_bytes)
    if draft.sealed:
        write_seal(record, draft.size - SEAL_BYTES, record + draft.size - SEAL_BYTES)
    return properties


cdef inline void write_mark(uint8_t *to, int64_t start, int64_t end) noexcept nogil:
    """Write the property of every record of the group that lies between these offsets."""
    cdef const char *digits = b"0123456789abcdef"
    cdef int nibble
    memcpy(to, b"__BATCH#\x01", 9)
    for nibble in range(16):
        to[24 - nibble] = digits[<uint64_t>start >> 4 * nibble & 15]
        to[40 - nibble] = digits[<uint64_t>end >> 4 * nibble & 15]
    to[41] = 2
