# The header of a send as producers write it, in JSON, under the letters of codes 310 and 320, read
# in place. A header of another form, however right, is for Python. Every byte is looked at before
# it is passed, and none behind the header's end.

from rocketpipe.protocol._json_text cimport *
from rocketpipe.record._raw cimport *

cdef enum:
    ONEWAY = 2
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
    # And who sends it, which others look at.
    ACCESS_KEY = 14
    SIGNATURE = 15

cdef struct Send:
    # What a header says, as far as it matters here.
    int64_t opaque
    int64_t rpc_flag
    Text fields[16]
    int there


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


cdef inline const uint8_t *read_fields(const uint8_t *at, const uint8_t *end, Send *send) noexcept:
    """Read the fields, most of which have letters for names; gives the place behind, or NULL."""
    cdef Text name
    cdef int letter
    if at >= end or at[0] != c"{":
        return NULL
    at += 1
    while True:
        at = read_text(at, end, &name)
        if at == NULL or name.escaped:
            return NULL
        if name.length == 1 and c"a" <= name.start[0] <= c"n":
            letter = name.start[0] - c"a"
        elif is_word(&name, b"AccessKey", 9):
            letter = ACCESS_KEY
        elif is_word(&name, b"Signature", 9):
            letter = SIGNATURE
        else:
            return NULL
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


cdef inline bint read_header(const uint8_t *at, const uint8_t *end, Send *send) noexcept:
    """Read a header that began with its code and a comma."""
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


cdef inline Py_ssize_t unescape(Text *text, uint8_t *to) noexcept:
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


cdef struct SendNumbers:
    int64_t queue
    int64_t sys_flag
    int64_t born
    int64_t flag
    bint batch


cdef inline bint read_numbers(Send *send, SendNumbers *numbers) noexcept:
    """Read what a send's fields say, if all are of the usual form; it is not sent again."""
    cdef int64_t least = -0x80000000
    cdef int64_t most = 0x7FFFFFFF
    cdef int64_t number = 0
    cdef Text *batch = &send.fields[BATCH]
    numbers.batch = send.there >> BATCH & 1 and is_word(batch, b"true", 4)
    return (
        number_of(&send.fields[DEFAULT_QUEUES], least, most, &number)
        and number_of(&send.fields[QUEUE_ID], 0, most, &numbers.queue)
        and number_of(&send.fields[SYS_FLAG], least, most, &numbers.sys_flag)
        and number_of(&send.fields[BORN_MS], -(<int64_t>1 << 62), <int64_t>1 << 62, &numbers.born)
        and number_of(&send.fields[FLAG], least, most, &numbers.flag)
        and send.there >> PROPERTIES & 1
        and (
            not send.there >> RECONSUME_TIMES & 1
            or number_of(&send.fields[RECONSUME_TIMES], 0, 0, &number)
        )
        and (
            not send.there >> UNIT_MODE & 1
            or is_word(&send.fields[UNIT_MODE], b"false", 5)
            or is_word(&send.fields[UNIT_MODE], b"true", 4)
        )
        and (
            not send.there >> MAX_RECONSUME_TIMES & 1
            or number_of(&send.fields[MAX_RECONSUME_TIMES], least, most, &number)
        )
        and (not send.there >> BATCH & 1 or numbers.batch or is_word(batch, b"false", 5))
    )
