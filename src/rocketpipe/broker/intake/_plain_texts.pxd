# Whether a property text asks for nothing but to be stored, as `intake.sent_properties` has it: by
# the names in it, without an object.

from rocketpipe.record._raw cimport *

cdef enum:
    MAX_KEY_BYTES = 64
    MAX_TEXT_BYTES = 640
    MOST_NAMES = 32

cdef struct OddNames:
    # Names that ask for something, each with the 0x01 behind it, in the order of their letters.
    const uint8_t *names[MOST_NAMES]
    Py_ssize_t lengths[MOST_NAMES]
    int count
    # Of each first letter where its names start, and how many there are.
    uint8_t first[256]
    uint8_t many[256]


cdef inline void add_name(OddNames *odd, const uint8_t *name, Py_ssize_t length):
    """Add a name behind those that sort before it; whoever has it keeps the bytes."""
    if odd.count == MOST_NAMES:
        raise ValueError("too many names")
    if not odd.many[name[0]]:
        odd.first[name[0]] = <uint8_t>odd.count
    odd.many[name[0]] += 1
    odd.names[odd.count], odd.lengths[odd.count] = name, length
    odd.count += 1


cdef inline bint is_plain(
    const OddNames *odd, const uint8_t *text, Py_ssize_t length, Py_ssize_t *key, Py_ssize_t *key_end
) noexcept nogil:
    """Whether a text is of the usual form, as `sent_properties.usual_key` has it.

    Says where its unique key is, which is empty where there is none.
    """
    cdef Py_ssize_t at = 0, end, size
    cdef const uint8_t *stop
    cdef uint8_t letter
    cdef int number
    cdef bint found = False
    key[0] = key_end[0] = 0
    if length > MAX_TEXT_BYTES or not is_ascii(text, length):
        return False
    while at < length:
        stop = <const uint8_t *>memchr(text + at, 2, length - at)
        end = length if stop == NULL else stop - text
        size = end - at
        letter = text[at]
        for number in range(odd.first[letter], odd.first[letter] + odd.many[letter]):
            if size >= odd.lengths[number] and memcmp(
                text + at, odd.names[number], odd.lengths[number]
            ) == 0:
                return False
        if letter == c"W" and size >= 5 and memcmp(text + at, b"WAIT\x01", 5) == 0:
            if size != 9 or memcmp(text + at + 5, b"true", 4) != 0:
                return False
        elif letter == c"U" and size >= 9 and memcmp(text + at, b"UNIQ_KEY\x01", 9) == 0:
            if found or size - 9 > MAX_KEY_BYTES or not is_alnum(text + at + 9, size - 9):
                return False
            found = True
            key[0], key_end[0] = at + 9, end
        at = end + 1
    return True


cdef struct BatchEntry:
    # One message of a batch: see `record.batch`.
    const uint8_t *body
    const uint8_t *text
    int32_t body_bytes
    int32_t text_bytes
    int32_t flag


cdef inline Py_ssize_t next_entry(
    const uint8_t *data, Py_ssize_t at, Py_ssize_t end, BatchEntry *entry
) noexcept nogil:
    """Find the parts of the entry at ``at``; gives where the next one starts, −1 if it is none."""
    cdef int32_t size
    cdef Py_ssize_t body_end
    if end - at < 22:
        return -1
    size = <int32_t>get32(data + at)
    entry.body_bytes = <int32_t>get32(data + at + 16)
    if (
        size < 22 or size > end - at or entry.body_bytes < 0 or entry.body_bytes > size - 22
    ):
        return -1
    body_end = at + 20 + entry.body_bytes
    entry.body, entry.text = data + at + 20, data + body_end + 2
    entry.text_bytes = <int32_t>(at + size - body_end - 2)
    entry.flag = <int32_t>get32(data + at + 12)
    if (data[body_end] << 8 | data[body_end + 1]) != entry.text_bytes:
        return -1
    return at + size if entry.text_bytes <= MAX_PROPERTIES else -1


cdef inline bint is_plain_entry(const OddNames *odd, const BatchEntry *entry) noexcept nogil:
    """Whether a message asks for nothing, and has its unique key."""
    cdef Py_ssize_t key, key_end
    return is_plain(odd, entry.text, entry.text_bytes, &key, &key_end) and key < key_end
