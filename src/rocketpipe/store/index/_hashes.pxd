"""The hashes of a message's keys, for the twins of ``entries`` and of ``derivation``."""

from cpython.bytes cimport PyBytes_GET_SIZE

from rocketpipe.record._raw cimport *


cdef inline uint32_t positive(uint32_t number) noexcept:
    # Java's abs; it has no positive counterpart of its least number, and takes 0.
    return number if number < 0x80000000u else (-number) & 0x7FFFFFFF


cdef inline uint32_t hash_text(uint32_t total, str text) except? 0xFFFFFFFF:
    cdef Py_UCS4 letter
    for letter in text:
        if letter > 0xFFFF:
            total = 31 * total + (0xD7C0 + (<uint32_t>letter >> 10))
            total = 31 * total + (0xDC00 + (<uint32_t>letter & 0x3FF))
        else:
            total = 31 * total + <uint32_t>letter
    return total


cdef inline bint add_hashes(list hashes, uint32_t topic, bytes properties, bint tags) except -1:
    """Add the numbers of all keys; false if one is not ASCII, and is for Python."""
    cdef const uint8_t *text = raw(properties)
    cdef Py_ssize_t length = PyBytes_GET_SIZE(properties)
    cdef Py_ssize_t bytes_there = 0, at, start
    cdef const uint8_t *value = find_value(text, length, b"UNIQ_KEY\x01", 9, &bytes_there)
    if value != NULL:
        if not is_ascii(value, bytes_there):
            return False
        hashes.append(positive(hash_on(topic, value, bytes_there)))
    value = find_value(text, length, b"KEYS\x01", 5, &bytes_there)
    if value != NULL:
        if not is_ascii(value, bytes_there):
            return False
        start = 0
        for at in range(bytes_there + 1):
            if at == bytes_there or value[at] == c" ":
                if at > start:
                    hashes.append(positive(hash_on(topic, value + start, at - start)))
                start = at + 1
    if tags:
        value = find_value(text, length, b"TAGS\x01", 5, &bytes_there)
        if value != NULL:
            if not is_ascii(value, bytes_there):
                return False
            topic = hash_on(topic, <const uint8_t *>b"T#", 2)
            hashes.append(positive(hash_on(topic, value, bytes_there)))
    return True
