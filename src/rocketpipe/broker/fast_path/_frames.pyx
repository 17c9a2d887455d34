# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""The compiled twin of ``fast_path.frames``: reads the JSON that producers write, and no other.

A header of another form, however right, is left to the function in Python, found in ``pure``. Every
byte is looked at before it is passed, and none behind the header's end.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeASCII

from rocketpipe.record._raw cimport *

from rocketpipe.model.flags import INNER_BATCH
from rocketpipe.store.log.puts import Put

TWINS = ("read_plain",)
MADE_FROM = ROCKETPIPE_SOURCE.decode()
#: The functions that these stand for, by name.
pure = {}

cdef enum:
    ONEWAY = 2
    HALF_BITS = 0xC
    MAX_KEY_BYTES = 64
    MAX_TEXT = 640
    A_TO_H = 0xFF

cdef enum:
    # Fields of a send by the letters that are their names, from "a" on.
    TOPIC = 1
    DEFAULT_QUEUES = 3
    QUEUE_ID = 4
    SYS_FLAG = 5
    BORN_MS = 6
    FLAG = 7
    PROPERTIES = 8
    RECONSUME_TIMES = 9
    UNIT_MODE = 10
    MAX_RECONSUME_TIMES = 11
    BATCH = 12

cdef int64_t _inner_batch = int(INNER_BATCH)
cdef object _put = Put

cdef struct Text:
    const uint8_t *start
    Py_ssize_t length
    bint escaped

cdef struct Send:
    # What a header says, as far as it matters here.
    int64_t opaque
    int64_t rpc_flag
    Text fields[14]
    int there


cdef inline const uint8_t *read_text(const uint8_t *at, const uint8_t *end, Text *text) noexcept:
    """Read a JSON string of ASCII characters; gives the place behind it, or NULL."""
    if at >= end or at[0] != c'"':
        return NULL
    at += 1
    text.start = at
    text.escaped = False
    while at < end:
        if at[0] == c'"':
            text.length = at - text.start
            return at + 1
        if at[0] < 32 or at[0] >= 127:
            return NULL
        if at[0] == c"\\":
            text.escaped = True
            at += 1
            if at >= end or at[0] < 32 or at[0] >= 127:
                return NULL
        at += 1
    return NULL


cdef inline const uint8_t *read_number(
    const uint8_t *at, const uint8_t *end, int64_t *number
) noexcept:
    """Read digits, with no more than a minus before them; gives the place behind, or NULL."""
    cdef bint negative = at < end and at[0] == c"-"
    cdef int digits = 0
    cdef int64_t total = 0
    if negative:
        at += 1
    if at < end and at[0] == c"0" and (negative or (at + 1 < end and c"0" <= at[1] <= c"9")):
        return NULL
    while at < end and c"0" <= at[0] <= c"9":
        digits += 1
        if digits > 18:
            return NULL
        total = 10 * total + (at[0] - c"0")
        at += 1
    if not digits:
        return NULL
    number[0] = -total if negative else total
    return at


cdef inline bint number_of(Text *text, int64_t least, int64_t most, int64_t *number) noexcept:
    """Read a number that stands in a string, and is all of it."""
    return (
        read_number(text.start, text.start + text.length, number) == text.start + text.length
        and least <= number[0] <= most
    )


cdef inline bint is_word(Text *text, const char *word, Py_ssize_t length) noexcept:
    return text.length == length and memcmp(text.start, word, length) == 0


cdef const uint8_t *read_fields(const uint8_t *at, const uint8_t *end, Send *send) noexcept:
    """Read the fields, which have letters for names; gives the place behind them, or NULL."""
    cdef Text name
    cdef int letter
    if at >= end or at[0] != c"{":
        return NULL
    at += 1
    while True:
        at = read_text(at, end, &name)
        if at == NULL or name.length != 1 or not c"a" <= name.start[0] <= c"n":
            return NULL
        letter = name.start[0] - c"a"
        if send.there >> letter & 1 or at >= end or at[0] != c":":
            return NULL
        send.there |= 1 << letter
        at = read_text(at + 1, end, &send.fields[letter])
        # Properties alone have characters that must be written otherwise.
        if at == NULL or at >= end or (send.fields[letter].escaped and letter != PROPERTIES):
            return NULL
        if at[0] == c"}":
            return at + 1
        if at[0] != c",":
            return NULL
        at += 1


cdef bint read_header(const uint8_t *at, const uint8_t *end, Send *send) noexcept:
    """Read a header that began with its code, 310, and a comma."""
    cdef Text name
    cdef Text word
    cdef int64_t version = 0
    cdef int seen = 0, which
    send.there = 0
    send.opaque = 0
    send.rpc_flag = 0
    while True:
        at = read_text(at, end, &name)
        if at == NULL or at >= end or at[0] != c":":
            return False
        at += 1
        if is_word(&name, b"extFields", 9):
            which = 1
            at = read_fields(at, end, send)
        elif is_word(&name, b"opaque", 6):
            which = 2
            at = read_number(at, end, &send.opaque)
        elif is_word(&name, b"flag", 4):
            which = 4
            at = read_number(at, end, &send.rpc_flag)
        elif is_word(&name, b"version", 7):
            which = 8
            at = read_number(at, end, &version)
        elif is_word(&name, b"language", 8) or is_word(&name, b"serializeTypeCurrentRPC", 23):
            which = 16 if name.length == 8 else 32
            at = read_text(at, end, &word)
            if at != NULL and word.escaped:
                return False
        else:
            return False
        if at == NULL or at >= end or seen & which:
            return False
        seen |= which
        if at[0] == c"}":
            break
        if at[0] != c",":
            return False
        at += 1
    return (
        at + 1 == end
        and seen & 3 == 3
        and send.there & A_TO_H == A_TO_H
        and -0x80000000 <= send.opaque <= 0x7FFFFFFF
        and -0x80000000 <= version <= 0x7FFFFFFF
        and (send.rpc_flag == 0 or send.rpc_flag == ONEWAY)
    )


cdef inline int hex_of(uint8_t letter) noexcept:
    if c"0" <= letter <= c"9":
        return letter - c"0"
    letter |= 32
    return letter - c"a" + 10 if c"a" <= letter <= c"f" else -1


cdef Py_ssize_t unescape(Text *text, uint8_t *to) noexcept:
    """Write a string without its escapes, ``\\u00XX`` alone; its length, or −1 if it has others.

    It takes no more than MAX_TEXT bytes.
    """
    cdef const uint8_t *at = text.start
    cdef const uint8_t *end = at + text.length
    cdef Py_ssize_t length = 0
    cdef int high, low
    while at < end:
        if length >= MAX_TEXT:
            return -1
        if at[0] != c"\\":
            to[length] = at[0]
            at += 1
        else:
            if end - at < 6 or at[1] != c"u" or at[2] != c"0" or at[3] != c"0":
                return -1
            high = hex_of(at[4])
            low = hex_of(at[5])
            if high < 0 or high > 7 or low < 0:
                return -1
            to[length] = <uint8_t>(16 * high + low)
            at += 6
        length += 1
    return length


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


cdef inline bytes without(const uint8_t *text, Py_ssize_t length, Py_ssize_t start, Py_ssize_t end):
    rest = PyBytes_FromStringAndSize(NULL, length - (end - start))
    memcpy(PyBytes_AS_STRING(rest), text, start)
    memcpy(PyBytes_AS_STRING(rest) + start, text + end, length - end)
    return rest


def read_plain(
    bytes buffer not None, Py_ssize_t at, Py_ssize_t body, Py_ssize_t end, dict queues not None,
    set rests not None, bytes suffix not None, Py_ssize_t max_body_bytes, bytes born_host not None,
):
    cdef const uint8_t *data = <const uint8_t *>PyBytes_AS_STRING(buffer)
    cdef Send send
    cdef uint8_t text[MAX_TEXT + 1]
    cdef uint8_t *to
    cdef Py_ssize_t length, key, key_end = 0, added = PyBytes_GET_SIZE(suffix)
    cdef int64_t queue = 0, sys_flag = 0, born = 0, flag = 0, number = 0
    cdef int64_t least = -0x80000000
    cdef int64_t most = 0x7FFFFFFF
    if at < 0 or body < at + 20 or end < body or end > PyBytes_GET_SIZE(buffer) or data[at + 4]:
        return pure["read_plain"](
            buffer, at, body, end, queues, rests, suffix, max_body_bytes, born_host
        )
    if memcmp(data + at + 8, b'{"code":310,', 12) != 0 or end - body > max_body_bytes:
        return None
    if (
        not read_header(data + at + 20, data + body, &send)
        or not number_of(&send.fields[DEFAULT_QUEUES], least, most, &number)
        or not number_of(&send.fields[QUEUE_ID], 0, most, &queue)
        or not number_of(&send.fields[SYS_FLAG], least, most, &sys_flag)
        or not number_of(&send.fields[BORN_MS], -(<int64_t>1 << 62), <int64_t>1 << 62, &born)
        or not number_of(&send.fields[FLAG], least, most, &flag)
        or not send.there >> PROPERTIES & 1
        or (
            send.there >> RECONSUME_TIMES & 1
            and not number_of(&send.fields[RECONSUME_TIMES], 0, 0, &number)
        )
        or (
            send.there >> UNIT_MODE & 1
            and not is_word(&send.fields[UNIT_MODE], b"false", 5)
            and not is_word(&send.fields[UNIT_MODE], b"true", 4)
        )
        or (
            send.there >> MAX_RECONSUME_TIMES & 1
            and not number_of(&send.fields[MAX_RECONSUME_TIMES], least, most, &number)
        )
        or (send.there >> BATCH & 1 and not is_word(&send.fields[BATCH], b"false", 5))
        or sys_flag & _inner_batch
    ):
        # Another way to write it may be as good.
        return pure["read_plain"](
            buffer, at, body, end, queues, rests, suffix, max_body_bytes, born_host
        )
    length = unescape(&send.fields[PROPERTIES], text)
    if length <= 0:
        return pure["read_plain"](
            buffer, at, body, end, queues, rests, suffix, max_body_bytes, born_host
        )
    key = find_key(text, length, &key_end)
    if key < 0 or key_end - key > MAX_KEY_BYTES or not is_alnum(text + key, key_end - key):
        return None
    if without(text, length, key, key_end) not in rests:
        return None
    topic = PyUnicode_DecodeASCII(
        <const char *>send.fields[TOPIC].start, send.fields[TOPIC].length, NULL
    )
    queues_there = queues.get(topic)
    if queues_there is None or queue >= queues_there:
        return None
    if text[length - 1] != 2:
        text[length] = 2
        length += 1
    properties = PyBytes_FromStringAndSize(NULL, length + added)
    to = <uint8_t *>PyBytes_AS_STRING(properties)
    memcpy(to, text, length)
    memcpy(to + length, PyBytes_AS_STRING(suffix), added)
    sys_flag &= ~<int64_t>(BORN_V6 | STORE_V6 | HALF_BITS)
    if PyBytes_GET_SIZE(born_host) > 8:
        sys_flag |= BORN_V6
    queue_id = queue
    put = new_tuple(_put, 10)
    fill(put, 0, topic)
    fill(put, 1, queue_id)
    fill(put, 2, PyBytes_FromStringAndSize(<const char *>data + body, end - body))
    fill(put, 3, properties)
    fill(put, 4, flag)
    fill(put, 5, sys_flag)
    fill(put, 6, born)
    fill(put, 7, born_host)
    fill(put, 8, 0)
    fill(put, 9, 0)
    name = PyUnicode_DecodeASCII(<const char *>text + key, key_end - key, NULL)
    return (None if send.rpc_flag else send.opaque), queue_id, name, put
