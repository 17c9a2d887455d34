# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""The compiled twin of ``auth.frames``: one walk over a header, then its values in order and the body.

Every byte is looked at before it is passed, and none behind the header's end. A header that is not
written without blanks is left to Python, found in ``pure``.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeASCII

from rocketpipe.protocol._json_text cimport *
from rocketpipe.record._raw cimport *

TWINS = ("read_signed",)
MADE_FROM = ROCKETPIPE_SOURCE.decode()
#: The functions that these stand for, by name.
pure = {}

cdef enum:
    MAX_HEADER_BYTES = 4096
    MAX_FIELDS = 24
    SIGNATURE_CHARACTERS = 28

cdef struct Field:
    Text name
    Text value


cdef inline int compare(const Text *one, const Text *other) noexcept:
    cdef Py_ssize_t length = one.length if one.length < other.length else other.length
    cdef int order = memcmp(one.start, other.start, length)
    if order:
        return order
    return -1 if one.length < other.length else one.length > other.length


cdef inline int hex_of(uint8_t letter) noexcept:
    if c"0" <= letter <= c"9":
        return letter - c"0"
    letter |= 32
    return letter - c"a" + 10 if c"a" <= letter <= c"f" else -1


cdef inline Py_ssize_t unescape(const Text *text, uint8_t *to) noexcept:
    """Write a string without its escapes; its length, or −1 if it is more than ASCII, or wrong."""
    cdef const uint8_t *at = text.start
    cdef const uint8_t *end = at + text.length
    cdef Py_ssize_t length = 0
    cdef int high, low
    cdef uint8_t letter
    while at < end:
        if at[0] != c"\\":
            to[length] = at[0]
            at += 1
        else:
            letter = at[1]
            if letter == c"u":
                if end - at < 6 or at[2] != c"0" or at[3] != c"0":
                    return -1
                high = hex_of(at[4])
                low = hex_of(at[5])
                if high < 0 or high > 7 or low < 0:
                    return -1
                to[length] = <uint8_t>(16 * high + low)
                at += 6
            else:
                if letter == c"n":
                    letter = 10
                elif letter == c"t":
                    letter = 9
                elif letter == c"r":
                    letter = 13
                elif letter == c"b":
                    letter = 8
                elif letter == c"f":
                    letter = 12
                elif letter != c'"' and letter != c"\\" and letter != c"/":
                    return -1
                to[length] = letter
                at += 2
        length += 1
    return length


cdef inline const uint8_t *skip_number(const uint8_t *at, const uint8_t *end) noexcept:
    """Pass over a whole number; gives the place behind it, or NULL."""
    cdef int digits = 0
    if at < end and at[0] == c"-":
        at += 1
    if at + 1 < end and at[0] == c"0" and c"0" <= at[1] <= c"9":
        return NULL
    while at < end and c"0" <= at[0] <= c"9" and digits < 18:
        digits += 1
        at += 1
    return at if digits else NULL


cdef int read_fields(
    const uint8_t **place, const uint8_t *end, Field *fields
) noexcept:
    """Read the fields in the order of their names; how many, or −1 if that is for Python."""
    cdef const uint8_t *at = place[0]
    cdef Field field
    cdef int count = 0, where, order
    if at >= end or at[0] != c"{":
        return -1
    at += 1
    while True:
        at = read_text(at, end, &field.name)
        if at == NULL or field.name.escaped or at >= end or at[0] != c":" or count == MAX_FIELDS:
            return -1
        at = read_text(at + 1, end, &field.value)
        if at == NULL or at >= end:
            return -1
        where = count
        while where:
            order = compare(&fields[where - 1].name, &field.name)
            if order == 0:
                return -1
            if order < 0:
                break
            fields[where] = fields[where - 1]
            where -= 1
        fields[where] = field
        count += 1
        if at[0] == c"}":
            place[0] = at + 1
            return count
        if at[0] != c",":
            return -1
        at += 1


cdef int read_code(const uint8_t *at, const uint8_t *end) noexcept:
    """The code of a request that a fast path may take; 0 of any other."""
    cdef int code = 0
    while at < end:
        code = 10 * code + (at[0] - c"0")
        at += 1
    return code if code in (10, 11, 310, 320, 361, 200051) else 0


def read_signed(bytes buffer not None, Py_ssize_t at, Py_ssize_t body, Py_ssize_t stop):
    cdef const uint8_t *place = raw(buffer)
    cdef const uint8_t *end
    cdef const uint8_t *start
    cdef Field fields[MAX_FIELDS]
    cdef Text name, word
    cdef Text *access = NULL
    cdef Text *signature = NULL
    cdef Text *topic = NULL
    cdef Text *group = NULL
    cdef uint8_t content[MAX_HEADER_BYTES]
    cdef Py_ssize_t length = 0, one
    cdef int count = -1, code = 0, index, seen = 0, which
    cdef bint long_names
    cdef bytes whole
    if at < 0 or body < at + 8 or stop < body or stop > PyBytes_GET_SIZE(buffer):
        return pure["read_signed"](buffer, at, body, stop)
    if place[at + 4] or body - at - 8 > MAX_HEADER_BYTES:
        return None
    end = place + body
    place += at + 8
    if place >= end or place[0] != c"{":
        return pure["read_signed"](buffer, at, body, stop)
    place += 1
    while True:
        place = read_text(place, end, &name)
        if place == NULL or name.escaped or place >= end or place[0] != c":":
            return pure["read_signed"](buffer, at, body, stop)
        place += 1
        start = place
        if is_word(&name, b"extFields", 9):
            which = 1
            count = read_fields(&place, end, fields)
            if count < 0:
                return pure["read_signed"](buffer, at, body, stop)
        elif is_word(&name, b"code", 4):
            which = 2
            place = skip_number(place, end)
            if place != NULL:
                if place - start > 6 or start[0] == c"-":
                    return pure["read_signed"](buffer, at, body, stop)
                code = read_code(start, place)
        elif is_word(&name, b"opaque", 6):
            which = 4
            place = skip_number(place, end)
        elif is_word(&name, b"flag", 4):
            which = 8
            place = skip_number(place, end)
        elif is_word(&name, b"version", 7):
            which = 16
            place = skip_number(place, end)
        elif is_word(&name, b"language", 8) or is_word(&name, b"serializeTypeCurrentRPC", 23):
            which = 32 if name.length == 8 else 64
            place = read_text(place, end, &word)
            if place != NULL and word.escaped:
                place = NULL
        else:
            place = NULL
            which = 0
        if place == NULL or place >= end or seen & which:
            return pure["read_signed"](buffer, at, body, stop)
        seen |= which
        if place[0] == c"}":
            break
        if place[0] != c",":
            return pure["read_signed"](buffer, at, body, stop)
        place += 1
    if place + 1 != end or seen & 3 != 3:
        return pure["read_signed"](buffer, at, body, stop)
    if not code:
        return None
    long_names = code != 310 and code != 320
    for index in range(count):
        word = fields[index].name
        if is_word(&word, b"AccessKey", 9):
            access = &fields[index].value
        elif is_word(&word, b"Signature", 9):
            signature = &fields[index].value
            continue
        elif is_word(&word, b"SecurityToken", 13) or is_word(&word, b"_UNIQUE_KEY_QUERY", 17):
            return None
        elif not long_names and is_word(&word, b"b", 1):
            topic = &fields[index].value
        elif long_names and is_word(&word, b"topic", 5):
            topic = &fields[index].value
        elif long_names and code != 10 and is_word(&word, b"consumerGroup", 13):
            group = &fields[index].value
        one = fields[index].value.length
        if fields[index].value.escaped:
            one = unescape(&fields[index].value, content + length)
            if one < 0:
                return pure["read_signed"](buffer, at, body, stop)
        else:
            memcpy(content + length, fields[index].value.start, one)
        length += one
    if access == NULL or signature == NULL or topic == NULL or not access.length:
        return None
    if access.escaped or signature.escaped or topic.escaped or (group != NULL and group.escaped):
        return pure["read_signed"](buffer, at, body, stop)
    if signature.length != SIGNATURE_CHARACTERS or not topic.length:
        return None
    whole = PyBytes_FromStringAndSize(NULL, length + stop - body)
    memcpy(PyBytes_AS_STRING(whole), content, length)
    memcpy(PyBytes_AS_STRING(whole) + length, raw(buffer) + body, stop - body)
    return (
        code,
        PyUnicode_DecodeASCII(<const char *>access.start, access.length, NULL),
        PyBytes_FromStringAndSize(<const char *>signature.start, signature.length),
        whole,
        PyUnicode_DecodeASCII(<const char *>topic.start, topic.length, NULL),
        "" if group == NULL
        else PyUnicode_DecodeASCII(<const char *>group.start, group.length, NULL),
    )
