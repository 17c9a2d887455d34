# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""The compiled twin of ``auth.frames``: one walk over a header, then its values in order and the body.

Every byte is looked at before it is passed, and none behind the header's end. A header that is not
written without blanks is left to Python, found in ``pure``.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeASCII

from rocketpipe.auth._sha1 cimport *
from rocketpipe.protocol._json_text cimport *
from rocketpipe.record._raw cimport *

from rocketpipe.auth.signature import HASH_BLOCK_BYTES, SigningKey, hash_block

TWINS = ("read_signed", "Signer", "clear_run")
MADE_FROM = ROCKETPIPE_SOURCE.decode()
#: What these stand for, by name.
pure = {}

prepare_sha1()
assert HASH_BLOCK_BYTES == 64

cdef enum:
    MAX_HEADER_BYTES = 4096
    MAX_FIELDS = 24
    SIGNATURE_CHARACTERS = 28
    #: So much is hashed while other threads go on.
    OTHERS_WAIT_BYTES = 16384

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


cdef struct Frame:
    # A signed request, whose values are found in the buffer that it was read from.
    int code
    Text access
    Text signature
    Text topic
    Text group
    #: What is signed of the header.
    uint8_t content[MAX_HEADER_BYTES]
    Py_ssize_t length


cdef enum:
    NOT_TAKEN = 0
    TAKEN = 1
    FOR_PYTHON = 2


cdef int parse(const uint8_t *place, const uint8_t *end, Frame *frame) noexcept:
    """Read a header; says whether it may be taken, or is for Python to read."""
    cdef const uint8_t *start
    cdef Field fields[MAX_FIELDS]
    cdef Text name, word
    cdef Py_ssize_t one
    cdef int count = -1, index, seen = 0, which
    cdef bint long_names, has_access = False, has_signature = False, has_topic = False
    frame.code = 0
    frame.length = 0
    frame.group.start = place
    frame.group.length = 0
    frame.group.escaped = False
    if place >= end or place[0] != c"{":
        return FOR_PYTHON
    place += 1
    while True:
        place = read_text(place, end, &name)
        if place == NULL or name.escaped or place >= end or place[0] != c":":
            return FOR_PYTHON
        place += 1
        start = place
        if is_word(&name, b"extFields", 9):
            which = 1
            count = read_fields(&place, end, fields)
            if count < 0:
                return FOR_PYTHON
        elif is_word(&name, b"code", 4):
            which = 2
            place = skip_number(place, end)
            if place != NULL:
                if place - start > 6 or start[0] == c"-":
                    return FOR_PYTHON
                frame.code = read_code(start, place)
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
            return FOR_PYTHON
        seen |= which
        if place[0] == c"}":
            break
        if place[0] != c",":
            return FOR_PYTHON
        place += 1
    if place + 1 != end or seen & 3 != 3:
        return FOR_PYTHON
    if not frame.code:
        return NOT_TAKEN
    long_names = frame.code != 310 and frame.code != 320
    for index in range(count):
        word = fields[index].name
        if is_word(&word, b"AccessKey", 9):
            frame.access = fields[index].value
            has_access = True
        elif is_word(&word, b"Signature", 9):
            frame.signature = fields[index].value
            has_signature = True
            continue
        elif (
            is_word(&word, b"SecurityToken", 13) or is_word(&word, b"_UNIQUE_KEY_QUERY", 17)
            or is_word(&word, b"FromAddress", 11)
        ):
            return NOT_TAKEN
        elif not long_names and is_word(&word, b"b", 1):
            frame.topic = fields[index].value
            has_topic = True
        elif long_names and is_word(&word, b"topic", 5):
            frame.topic = fields[index].value
            has_topic = True
        elif long_names and frame.code != 10 and is_word(&word, b"consumerGroup", 13):
            frame.group = fields[index].value
        one = fields[index].value.length
        if fields[index].value.escaped:
            one = unescape(&fields[index].value, frame.content + frame.length)
            if one < 0:
                return FOR_PYTHON
        else:
            memcpy(frame.content + frame.length, fields[index].value.start, one)
        frame.length += one
    if not has_access or not has_signature or not has_topic or not frame.access.length:
        return NOT_TAKEN
    if (
        frame.access.escaped or frame.signature.escaped
        or frame.topic.escaped or frame.group.escaped
    ):
        return FOR_PYTHON
    if frame.signature.length != SIGNATURE_CHARACTERS or not frame.topic.length:
        return NOT_TAKEN
    return TAKEN


cdef inline int read_frame(
    bytes buffer, Py_ssize_t at, Py_ssize_t body, Py_ssize_t stop, Frame *frame
) noexcept:
    if at < 0 or body < at + 8 or stop < body or stop > PyBytes_GET_SIZE(buffer):
        return FOR_PYTHON
    if raw(buffer)[at + 4] or body - at - 8 > MAX_HEADER_BYTES:
        return NOT_TAKEN
    return parse(raw(buffer) + at + 8, raw(buffer) + body, frame)


cdef inline str text_of(const Text *text):
    return PyUnicode_DecodeASCII(<const char *>text.start, text.length, NULL)


cdef bytes joined(
    const uint8_t *one, Py_ssize_t one_bytes, const uint8_t *two, Py_ssize_t two_bytes
):
    cdef bytes whole = PyBytes_FromStringAndSize(NULL, one_bytes + two_bytes)
    memcpy(PyBytes_AS_STRING(whole), one, one_bytes)
    memcpy(PyBytes_AS_STRING(whole) + one_bytes, two, two_bytes)
    return whole


def read_signed(bytes buffer not None, Py_ssize_t at, Py_ssize_t body, Py_ssize_t stop):
    cdef Frame frame
    cdef int found = read_frame(buffer, at, body, stop, &frame)
    if found == FOR_PYTHON:
        return pure["read_signed"](buffer, at, body, stop)
    if found == NOT_TAKEN:
        return None
    return (
        frame.code,
        text_of(&frame.access),
        PyBytes_FromStringAndSize(<const char *>frame.signature.start, SIGNATURE_CHARACTERS),
        joined(frame.content, frame.length, raw(buffer) + body, stop - body),
        text_of(&frame.topic),
        text_of(&frame.group),
    )


cdef class Signer:
    cdef HmacKey key
    cdef HmacKey old_key
    cdef object hashes, old_hashes
    cdef readonly bint lets_in, does_all
    cdef readonly object old_until_ms
    cdef readonly Py_ssize_t checks
    #: Whether it is the processor's own instructions that hash.
    cdef public bint is_quick

    def __init__(self, secret, *, lets_in, does_all, old=None, old_until_ms=0):
        self.hashes = SigningKey(secret)
        self.old_hashes = None if old is None else SigningKey(old)
        self.is_quick = has_sha1
        if has_sha1:
            prepare_hmac(&self.key, raw(hash_block(secret)))
            if old is not None:
                prepare_hmac(&self.old_key, raw(hash_block(old)))
        self.lets_in = lets_in
        self.does_all = does_all
        self.old_until_ms = old_until_ms

    def __repr__(self):
        return repr(self.hashes)

    def __reduce__(self):
        raise TypeError("a secret stays where it is")

    def made(self, bytes signature not None, bytes content not None, gate):
        """See the class in Python."""
        if PyBytes_GET_SIZE(signature) != SIGNATURE_CHARACTERS:
            return False
        return self.has_made(
            raw(signature), raw(content), PyBytes_GET_SIZE(content), raw(content), 0, gate
        )

    cdef bint has_made(
        self, const uint8_t *signature, const uint8_t *one, Py_ssize_t one_bytes,
        const uint8_t *two, Py_ssize_t two_bytes, gate
    ) except -1:
        self.checks += 1
        if self.is_by(&self.key, self.hashes, signature, one, one_bytes, two, two_bytes):
            return True
        if self.old_hashes is None or not self.is_by(
            &self.old_key, self.old_hashes, signature, one, one_bytes, two, two_bytes
        ):
            return False
        return gate.is_before(self.old_until_ms)

    cdef bint is_by(
        self, const HmacKey *key, hashes, const uint8_t *signature,
        const uint8_t *one, Py_ssize_t one_bytes, const uint8_t *two, Py_ssize_t two_bytes
    ) except -1:
        cdef uint8_t digest[20]
        cdef bytes made
        if not self.is_quick:
            made = hashes.digest(joined(one, one_bytes, two, two_bytes))
            return is_base64(raw(made), signature)
        if two_bytes < OTHERS_WAIT_BYTES:
            hmac_of(key, one, one_bytes, two, two_bytes, digest)
        else:
            with nogil:
                hmac_of(key, one, one_bytes, two, two_bytes, digest)
        return is_base64(digest, signature)


def clear_run(
    bytes buffer not None, list frames not None, Py_ssize_t start, bint sends_only, gate, visit
):
    cdef dict signers = gate.signers
    cdef set grants = visit.grants
    cdef Frame frame
    cdef Signer signer
    cdef PyObject *known
    cdef tuple grant, place
    cdef Py_ssize_t number, at, body, stop
    cdef int found
    cdef str name, topic, group
    cdef bytes signature, content
    for number in range(start, len(frames)):
        place = frames[number]
        at, body, stop = place
        found = read_frame(buffer, at, body, stop, &frame)
        if found == NOT_TAKEN:
            return number
        content = None
        if found == TAKEN:
            name, topic, group = text_of(&frame.access), text_of(&frame.topic), text_of(&frame.group)
        else:
            read = pure["read_signed"](buffer, at, body, stop)
            if read is None:
                return number
            frame.code, name, signature, content, topic, group = read
        if sends_only and frame.code != 310 and frame.code != 320:
            return number
        known = PyDict_GetItem(signers, name)
        signer = <Signer?>(gate.signer(name) if known == NULL else <object>known)
        if content is not None:
            if not signer.made(signature, content, gate):
                return number
        elif not signer.has_made(
            frame.signature.start, frame.content, frame.length, raw(buffer) + body, stop - body, gate
        ):
            return number
        if not signer.lets_in:
            return number
        if not signer.does_all:
            grant = (frame.code, name, topic, group)
            if grant not in grants and not gate.grants(visit, grant):
                return number
    return len(frames)
