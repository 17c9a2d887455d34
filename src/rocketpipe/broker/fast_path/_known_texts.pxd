# Property texts that were found plain, but for their keys, in the order of their finding: a few, by
# which the next message is mostly known without an object. Whether a text is plain never changes.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from rocketpipe.record._raw cimport *

cdef enum:
    MAX_KEY_BYTES = 64
    KNOWN_TEXTS = 16

cdef enum:
    # What becomes of a frame: it is kept, it is another kind of send, it is for Python.
    KEPT = 0
    OTHER = 1
    ODD = 2


cdef struct KnownText:
    # What stands before the key, and what behind; whoever keeps this keeps the bytes.
    const uint8_t *before
    Py_ssize_t before_bytes
    const uint8_t *behind
    Py_ssize_t behind_bytes


cdef struct KnownTexts:
    KnownText texts[KNOWN_TEXTS]
    int count
    int next


cdef inline Py_ssize_t find_key(const uint8_t *text, Py_ssize_t length, Py_ssize_t *end) noexcept:
    """Where the value of the first unique key starts and ends; −1 if there is none."""
    cdef Py_ssize_t at = 0
    cdef const uint8_t *stop
    while at < length:
        stop = <const uint8_t *>memchr(text + at, 2, length - at)
        end[0] = length if stop == NULL else stop - text
        if end[0] - at >= 9 and memcmp(text + at, b"UNIQ_KEY\x01", 9) == 0:
            return at + 9
        at = end[0] + 1
    return -1


cdef inline bint is_key(const uint8_t *text, Py_ssize_t length) noexcept:
    return length <= MAX_KEY_BYTES and is_alnum(text, length)


cdef inline bint is_known(
    const KnownTexts *known, const uint8_t *text, Py_ssize_t length, Py_ssize_t *key,
    Py_ssize_t *key_end
) noexcept:
    """Whether it is one of the texts, with any key; says where that is."""
    cdef const KnownText *each
    cdef int number
    for number in range(known.count):
        each = &known.texts[number]
        if (
            length > each.before_bytes + each.behind_bytes
            and memcmp(text + length - each.behind_bytes, each.behind, each.behind_bytes) == 0
            and memcmp(text, each.before, each.before_bytes) == 0
        ):
            key[0] = each.before_bytes
            key_end[0] = length - each.behind_bytes
            if is_key(text + key[0], key_end[0] - key[0]):
                return True
    return False


cdef inline void know(
    KnownTexts *known, const uint8_t *rest, Py_ssize_t length, Py_ssize_t key
) noexcept:
    """Remember a text without its key, which stood at ``key``; the oldest one goes."""
    cdef KnownText *text = &known.texts[known.next]
    text.before, text.before_bytes = rest, key
    text.behind, text.behind_bytes = rest + key, length - key
    known.next = (known.next + 1) % KNOWN_TEXTS
    if known.count < KNOWN_TEXTS:
        known.count += 1


cdef inline int look_up(
    KnownTexts *known, list kept, set rests, const uint8_t *text, Py_ssize_t length,
    Py_ssize_t *key, Py_ssize_t *end,
) except -1:
    """Whether properties are like those of ``rests`` but for their key; says where that is.

    ``kept`` keeps the bytes of those that are known.
    """
    if is_known(known, text, length, key, end):
        return KEPT
    key[0] = find_key(text, length, end)
    if key[0] < 0 or not is_key(text + key[0], end[0] - key[0]):
        return OTHER
    rest = PyBytes_FromStringAndSize(NULL, length - (end[0] - key[0]))
    memcpy(PyBytes_AS_STRING(rest), text, key[0])
    memcpy(PyBytes_AS_STRING(rest) + key[0], text + end[0], length - end[0])
    if rest not in rests:
        return OTHER
    if memchr(text, c"#", length) != NULL:
        return ODD  # only the store writes some names that have one
    kept[known.next] = rest
    know(known, raw(rest), PyBytes_GET_SIZE(rest), key[0])
    return KEPT
