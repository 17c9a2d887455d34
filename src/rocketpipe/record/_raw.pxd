# What the compiled twins share: numbers as records have them, checksums, hashes, and the walk over
# encoded properties. Nothing here allocates, raises or touches a Python object; who calls it has
# made sure that the bytes are there.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    /* CRC-32 as zlib computes it, eight bytes a step by tables. Where a processor multiplies
       polynomials, 64 bytes a step: four lanes of 128 bits are each carried 512 bits further by
       multiplying their halves with x^(512+64-1) and x^(512-1) modulo the polynomial, then folded
       into one, of which the tables make the checksum. */

    static uint32_t rp_tables[8][256];
    static int rp_folds = 0;

    #if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    #define RP_FOLDS 1
    #include <emmintrin.h>
    #include <wmmintrin.h>

    #define RP_LOAD(from) _mm_loadu_si128((const __m128i *)(from))
    #define RP_CARRY(lane, by, next)                                     \\
        _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(lane, by, 0x00), \\
                                    _mm_clmulepi64_si128(lane, by, 0x11)), next)

    /* Of at least 64 bytes takes all whole 16, and leaves 16 that have the same checksum. */
    __attribute__((target("pclmul,sse2")))
    static size_t rp_fold(uint32_t state, const uint8_t *data, size_t length, uint8_t *rest)
    {
        const __m128i by_512 = _mm_set_epi64x(0x1c6e41596LL, 0x154442bd4LL);
        const __m128i by_128 = _mm_set_epi64x(0x0ccaa009eLL, 0x1751997d0LL);
        __m128i a = _mm_xor_si128(RP_LOAD(data), _mm_cvtsi32_si128((int)state));
        __m128i b = RP_LOAD(data + 16), c = RP_LOAD(data + 32), d = RP_LOAD(data + 48);
        size_t at = 64;
        for (; length - at >= 64; at += 64) {
            a = RP_CARRY(a, by_512, RP_LOAD(data + at));
            b = RP_CARRY(b, by_512, RP_LOAD(data + at + 16));
            c = RP_CARRY(c, by_512, RP_LOAD(data + at + 32));
            d = RP_CARRY(d, by_512, RP_LOAD(data + at + 48));
        }
        a = RP_CARRY(a, by_128, b);
        a = RP_CARRY(a, by_128, c);
        a = RP_CARRY(a, by_128, d);
        for (; length - at >= 16; at += 16)
            a = RP_CARRY(a, by_128, RP_LOAD(data + at));
        _mm_storeu_si128((__m128i *)rest, a);
        return at;
    }
    #endif

    static inline void rp_crc32_prepare(void)
    {
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t crc = byte;
            for (int bit = 0; bit < 8; bit++)
                crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
            rp_tables[0][byte] = crc;
        }
        for (int table = 1; table < 8; table++)
            for (int byte = 0; byte < 256; byte++) {
                uint32_t crc = rp_tables[table - 1][byte];
                rp_tables[table][byte] = crc >> 8 ^ rp_tables[0][crc & 0xFF];
            }
    #ifdef RP_FOLDS
        rp_folds = __builtin_cpu_supports("pclmul") != 0;
    #endif
    }

    static inline uint32_t rp_by_tables(uint32_t state, const uint8_t *data, size_t length)
    {
        for (; length >= 8; data += 8, length -= 8) {
            uint32_t low = ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16
                            | (uint32_t)data[3] << 24) ^ state;
            state = rp_tables[7][low & 0xFF] ^ rp_tables[6][low >> 8 & 0xFF]
                  ^ rp_tables[5][low >> 16 & 0xFF] ^ rp_tables[4][low >> 24]
                  ^ rp_tables[3][data[4]] ^ rp_tables[2][data[5]]
                  ^ rp_tables[1][data[6]] ^ rp_tables[0][data[7]];
        }
        if (length >= 4) {
            state ^= (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16
                   | (uint32_t)data[3] << 24;
            state = rp_tables[3][state & 0xFF] ^ rp_tables[2][state >> 8 & 0xFF]
                  ^ rp_tables[1][state >> 16 & 0xFF] ^ rp_tables[0][state >> 24];
            data += 4;
            length -= 4;
        }
        for (; length; data++, length--)
            state = state >> 8 ^ rp_tables[0][(state ^ *data) & 0xFF];
        return state;
    }

    /* Of data behind something whose checksum is ``before``, which is 0 of nothing. */
    static inline uint32_t rp_crc32_on(uint32_t before, const uint8_t *data, size_t length)
    {
        uint32_t state = ~before;
    #ifdef RP_FOLDS
        if (rp_folds && length >= 64) {
            uint8_t rest[16];
            size_t taken = rp_fold(state, data, length, rest);
            state = rp_by_tables(0, rest, 16);
            data += taken;
            length -= taken;
        }
    #endif
        return ~rp_by_tables(state, data, length);
    }

    static inline uint32_t rp_crc32(const uint8_t *data, size_t length)
    {
        return rp_crc32_on(0, data, length);
    }

    static inline uint32_t rp_get32(const uint8_t *from)
    {
        return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
    }

    static inline uint64_t rp_get64(const uint8_t *from)
    {
        return (uint64_t)rp_get32(from) << 32 | rp_get32(from + 4);
    }

    static inline void rp_put32(uint8_t *to, uint32_t number)
    {
        to[0] = (uint8_t)(number >> 24);
        to[1] = (uint8_t)(number >> 16);
        to[2] = (uint8_t)(number >> 8);
        to[3] = (uint8_t)number;
    }

    static inline void rp_put64(uint8_t *to, uint64_t number)
    {
        rp_put32(to, (uint32_t)(number >> 32));
        rp_put32(to + 4, (uint32_t)number);
    }

    /* What ``tuple.__new__`` does for a subclass, without the call; its items are yet to be set. */
    static inline PyObject *rp_new_tuple(PyObject *kind, Py_ssize_t size)
    {
        return ((PyTypeObject *)kind)->tp_alloc((PyTypeObject *)kind, size);
    }

    /* Which source this was compiled from, by `rocketpipe.compiled.digest`. */
    #ifndef ROCKETPIPE_SOURCE
    #define ROCKETPIPE_SOURCE "unknown"
    #endif
    """
    const char *ROCKETPIPE_SOURCE
    object new_tuple "rp_new_tuple"(object kind, Py_ssize_t size)
    void prepare_crc32 "rp_crc32_prepare"() noexcept nogil
    uint32_t crc32_of "rp_crc32"(const uint8_t *data, size_t length) noexcept nogil
    uint32_t crc32_on "rp_crc32_on"(
        uint32_t before, const uint8_t *data, size_t length
    ) noexcept nogil
    int folds "rp_folds"
    uint32_t get32 "rp_get32"(const uint8_t *at) noexcept nogil
    uint64_t get64 "rp_get64"(const uint8_t *at) noexcept nogil
    void put32 "rp_put32"(uint8_t *to, uint32_t number) noexcept nogil
    void put64 "rp_put64"(uint8_t *to, uint64_t number) noexcept nogil


from cpython.bytes cimport PyBytes_AS_STRING
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_Check
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM

cdef enum:
    MAGIC_V1 = -626843481
    MAGIC_V2 = -626843477
    SEAL_BYTES = 20
    MIN_RECORD_BYTES = 91
    BORN_V6 = 0x10
    STORE_V6 = 0x20
    MAX_V1_TOPIC = 127
    MAX_PROPERTIES = 32767


cdef struct Parts:
    # A record's parts, counted from the start of its buffer; hosts are 8 or 20 bytes.
    int32_t size
    int32_t body_bytes
    int32_t sys_flag
    int born_bytes
    int store_bytes
    Py_ssize_t body
    Py_ssize_t topic
    Py_ssize_t topic_end
    Py_ssize_t properties
    Py_ssize_t stop


cdef inline bint find_parts(
    const uint8_t *data, Py_ssize_t at, Py_ssize_t end, Parts *parts
) noexcept nogil:
    """Find the parts of the record at ``at``; false where `record.hot.split` would raise.

    ``data[at:end]`` must be there.
    """
    cdef int32_t topic_bytes
    cdef int32_t magic
    cdef int hosts = 16
    if end - at < MIN_RECORD_BYTES:
        return False
    parts.size = <int32_t>get32(data + at)
    if parts.size < MIN_RECORD_BYTES or parts.size > end - at:
        return False
    parts.stop = at + parts.size
    magic = <int32_t>get32(data + at + 4)
    parts.sys_flag = <int32_t>get32(data + at + 36)
    parts.born_bytes = 20 if parts.sys_flag & BORN_V6 else 8
    parts.store_bytes = 20 if parts.sys_flag & STORE_V6 else 8
    hosts = parts.born_bytes + parts.store_bytes
    parts.body = at + 72 + hosts
    if parts.body > parts.stop:
        return False
    parts.body_bytes = <int32_t>get32(data + parts.body - 4)
    if parts.body_bytes < 0 or parts.body_bytes > parts.stop - parts.body - 3:
        return False
    parts.topic = parts.body + parts.body_bytes
    if magic == MAGIC_V1:
        topic_bytes = data[parts.topic]
        parts.topic += 1
        if topic_bytes > MAX_V1_TOPIC:
            return False
    elif magic == MAGIC_V2:
        topic_bytes = data[parts.topic] << 8 | data[parts.topic + 1]
        parts.topic += 2
        if topic_bytes > 0x7FFF:
            return False
    else:
        return False
    parts.topic_end = parts.topic + topic_bytes
    parts.properties = parts.topic_end + 2
    if parts.properties > parts.stop:
        return False
    topic_bytes = data[parts.topic_end] << 8 | data[parts.topic_end + 1]
    return topic_bytes <= MAX_PROPERTIES and parts.properties + topic_bytes == parts.stop


cdef inline void write_seal(const uint8_t *record, Py_ssize_t length, uint8_t *seal) noexcept nogil:
    """Write the checksum property of ``length`` bytes: see `record.checksum`."""
    cdef uint32_t crc = crc32_of(record, length) & 0x7FFFFFFF
    cdef int digit
    memcpy(seal, b"__CRC32#\x01", 9)
    for digit in range(10):
        seal[9 + digit] = 48 + crc % 10
        crc //= 10
    seal[19] = 2


cdef inline bint has_seal_name(const uint8_t *record, Py_ssize_t size) noexcept nogil:
    return size >= SEAL_BYTES and memcmp(record + size - SEAL_BYTES, b"__CRC32#\x01", 9) == 0


cdef inline bint seal_is_right(const uint8_t *record, Py_ssize_t size) noexcept nogil:
    """Whether a record ends in the checksum of what precedes it."""
    cdef uint8_t seal[SEAL_BYTES]
    if not has_seal_name(record, size):
        return False
    write_seal(record, size - SEAL_BYTES, seal)
    return memcmp(record + size - SEAL_BYTES, seal, SEAL_BYTES) == 0


cdef inline const uint8_t *find_value(
    const uint8_t *text, Py_ssize_t length, const char *name, Py_ssize_t name_bytes,
    Py_ssize_t *value_bytes
) noexcept nogil:
    """Find the value of a property, of several the last that is not empty; NULL if there is none.

    ``name`` ends in 0x01.
    """
    cdef const uint8_t *piece = text
    cdef const uint8_t *end = text + length
    cdef const uint8_t *stop
    cdef const uint8_t *found = NULL
    while piece < end:
        stop = <const uint8_t *>memchr(piece, 2, end - piece)
        if stop == NULL:
            stop = end
        if (
            stop - piece > name_bytes
            and piece[0] == <uint8_t>name[0]  # mostly that tells, and saves a call
            and memcmp(piece, name, name_bytes) == 0
        ):
            found = piece + name_bytes
            value_bytes[0] = stop - found
        piece = stop + 1
    return found


cdef inline bint is_ascii(const uint8_t *text, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t at
    cdef uint8_t seen = 0
    for at in range(length):
        seen |= text[at]
    return seen < 0x80


cdef inline uint32_t hash_on(uint32_t total, const uint8_t *text, Py_ssize_t length) noexcept nogil:
    """Carry Java's hash on over ASCII text."""
    cdef Py_ssize_t at
    for at in range(length):
        total = 31 * total + text[at]
    return total


cdef inline bint fits(object number, int64_t least, int64_t most, int64_t *value) except -1:
    """Read a number that must lie between two others."""
    cdef int overflow = 0
    if not PyLong_Check(number):
        return False
    value[0] = PyLong_AsLongLongAndOverflow(number, &overflow)
    return not overflow and least <= value[0] <= most


cdef inline bint fits_int(object number, int64_t *value) except -1:
    return fits(number, -0x80000000, 0x7FFFFFFF, value)


cdef inline bint fits_long(object number, int64_t *value) except -1:
    cdef int64_t least = <int64_t>(<uint64_t>1 << 63)
    return fits(number, least, ~least, value)


cdef inline bint fits_place(object number, int64_t *value) except -1:
    """Read an offset, which leaves room for sums with another."""
    return fits(number, 0, <int64_t>1 << 62, value)


cdef inline void fill(object made, Py_ssize_t at, object value) noexcept:
    Py_INCREF(value)
    PyTuple_SET_ITEM(made, at, value)


cdef inline const uint8_t *raw(bytes data) noexcept:
    return <const uint8_t *>PyBytes_AS_STRING(data)


cdef inline bint is_alnum(const uint8_t *text, Py_ssize_t length) noexcept nogil:
    """Whether these are letters and digits of ASCII, and at least one."""
    cdef Py_ssize_t at
    for at in range(length):
        if not (c"0" <= text[at] <= c"9" or c"a" <= text[at] | 32 <= c"z"):
            return False
    return length > 0
