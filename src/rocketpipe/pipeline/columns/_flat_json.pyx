# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""The compiled twin of ``pipeline.columns.flat_json``: fields of many JSON objects in one pass.

A body is read here only where there is no doubt what it holds; all others are left alone. The
grammar is that of Python's ``json``, without NaN and Infinity, which `json_fields` refuses too.
"""

from rocketpipe.record._raw cimport *

cdef extern from "Python.h":
    double to_double "PyOS_string_to_double"(
        const char *text, char **end, void *overflow
    ) except? -1.0

TWINS = ("flat_fields",)
MADE_FROM = ROCKETPIPE_SOURCE.decode()
#: The functions that these stand for, by name.
pure = {}

cdef enum:
    MAX_FIELDS = 64
    #: Deeper ones are left alone: this recurses.
    MAX_DEPTH = 32
    #: A whole number of so many digits fits 64 bits.
    SAFE_DIGITS = 18
    #: A number of so many digits is exact as a double, and so is 10 to the 22nd.
    EXACT_DIGITS = 15
    EXACT_POWER = 22
    MAX_NUMBER = 60
    BOOLEAN = 0
    WHOLE = 1
    FLOAT = 2
    TEXT = 3

cdef double POWERS[23]
cdef int _power
POWERS[0] = 1.0
for _power in range(1, 23):
    POWERS[_power] = POWERS[_power - 1] * 10.0


cdef struct Number:
    const uint8_t *text
    Py_ssize_t length
    bint is_negative
    bint is_whole
    int digits
    int64_t mantissa
    int64_t exponent


cdef inline const uint8_t *blanks(const uint8_t *at, const uint8_t *end) noexcept nogil:
    while at < end and (at[0] == 32 or at[0] == 10 or at[0] == 13 or at[0] == 9):
        at += 1
    return at


cdef inline bint is_same(const uint8_t *name, const uint8_t *other, Py_ssize_t size) noexcept nogil:
    """Names are short: a call would take longer than to look at each letter."""
    while size:
        size -= 1
        if name[size] != other[size]:
            return False
    return True


cdef inline bint is_digit(const uint8_t *at, const uint8_t *end) noexcept nogil:
    return at < end and <uint8_t>(at[0] - 48) < 10


cdef const uint8_t *text_end(const uint8_t *at, const uint8_t *end, bint *has_escapes) noexcept nogil:
    """Behind the quote that ends a text, which ``at`` is inside of; NULL if it is none."""
    cdef int digit
    cdef uint8_t letter
    while at < end:
        letter = at[0]
        if letter == 34:
            return at + 1
        if letter < 32:
            return NULL
        if letter == 92:
            has_escapes[0] = True
            at += 1
            if at >= end:
                return NULL
            letter = at[0]
            if letter == c"u":
                if end - at < 5:
                    return NULL
                for digit in range(1, 5):
                    letter = at[digit]
                    if not (c"0" <= letter <= c"9" or c"a" <= letter | 32 <= c"f"):
                        return NULL
                at += 4
            elif not (
                letter == 34 or letter == 92 or letter == c"/" or letter == c"b"
                or letter == c"f" or letter == c"n" or letter == c"r" or letter == c"t"
            ):
                return NULL
        at += 1
    return NULL


cdef const uint8_t *number_end(const uint8_t *at, const uint8_t *end, Number *number) noexcept nogil:
    """Behind a number, of which this tells the digits; NULL if it is none."""
    cdef int64_t exponent = 0
    cdef bint is_negative = False
    number.text = at
    number.is_negative = at[0] == c"-"
    number.is_whole = True
    number.digits = 0
    number.mantissa = 0
    number.exponent = 0
    if number.is_negative:
        at += 1
    if not is_digit(at, end):
        return NULL
    if at[0] == c"0":
        at += 1
        if is_digit(at, end):
            return NULL
    else:
        while is_digit(at, end):
            number.digits += 1
            if number.digits <= SAFE_DIGITS:
                number.mantissa = number.mantissa * 10 + (at[0] - 48)
            at += 1
    if at < end and at[0] == c".":
        number.is_whole = False
        at += 1
        if not is_digit(at, end):
            return NULL
        while is_digit(at, end):
            if number.digits or at[0] != c"0":
                number.digits += 1
            if number.digits <= SAFE_DIGITS:
                number.mantissa = number.mantissa * 10 + (at[0] - 48)
            number.exponent -= 1
            at += 1
    if at < end and at[0] | 32 == c"e":
        number.is_whole = False
        at += 1
        if at < end and (at[0] == c"+" or at[0] == c"-"):
            is_negative = at[0] == c"-"
            at += 1
        if not is_digit(at, end):
            return NULL
        while is_digit(at, end):
            if exponent < 100000:
                exponent = exponent * 10 + (at[0] - 48)
            at += 1
        number.exponent += -exponent if is_negative else exponent
    number.length = at - number.text
    return at


cdef const uint8_t *value_end(const uint8_t *at, const uint8_t *end, int depth) noexcept nogil:
    """Behind a value that nobody asked for; NULL if it is none, or too deep for this."""
    cdef Number number
    cdef bint has_escapes = False, is_object
    if at >= end:
        return NULL
    if at[0] == 34:
        return text_end(at + 1, end, &has_escapes)
    if at[0] == c"-" or is_digit(at, end):
        return number_end(at, end, &number)
    if at[0] == c"t":
        return at + 4 if end - at >= 4 and memcmp(at, b"true", 4) == 0 else NULL
    if at[0] == c"f":
        return at + 5 if end - at >= 5 and memcmp(at, b"false", 5) == 0 else NULL
    if at[0] == c"n":
        return at + 4 if end - at >= 4 and memcmp(at, b"null", 4) == 0 else NULL
    if (at[0] != c"{" and at[0] != c"[") or depth >= MAX_DEPTH:
        return NULL
    is_object = at[0] == c"{"
    at = blanks(at + 1, end)
    if at < end and at[0] == (c"}" if is_object else c"]"):
        return at + 1
    while True:
        if is_object:
            if at >= end or at[0] != 34:
                return NULL
            at = text_end(at + 1, end, &has_escapes)
            if at == NULL:
                return NULL
            at = blanks(at, end)
            if at >= end or at[0] != c":":
                return NULL
            at = blanks(at + 1, end)
        at = value_end(at, end, depth + 1)
        if at == NULL:
            return NULL
        at = blanks(at, end)
        if at >= end:
            return NULL
        if at[0] == (c"}" if is_object else c"]"):
            return at + 1
        if at[0] != c",":
            return NULL
        at = blanks(at + 1, end)


cdef bint is_utf8(const uint8_t *at, const uint8_t *end) noexcept nogil:
    cdef uint8_t first, second
    while at < end:
        first = at[0]
        if first < 0x80:
            at += 1
            continue
        if end - at < 2:
            return False
        second = at[1]
        if second & 0xC0 != 0x80:
            return False
        if 0xC2 <= first <= 0xDF:
            at += 2
        elif 0xE0 <= first <= 0xEF:
            if end - at < 3 or at[2] & 0xC0 != 0x80:
                return False
            if (first == 0xE0 and second < 0xA0) or (first == 0xED and second >= 0xA0):
                return False
            at += 3
        elif 0xF0 <= first <= 0xF4:
            if end - at < 4 or at[2] & 0xC0 != 0x80 or at[3] & 0xC0 != 0x80:
                return False
            if (first == 0xF0 and second < 0x90) or (first == 0xF4 and second >= 0x90):
                return False
            at += 4
        else:
            return False
    return True


cdef bint real(const Number *number, double *value) noexcept nogil:
    """A number as Python's ``float`` reads it; false if that is not sure here."""
    cdef char text[MAX_NUMBER + 1]
    cdef double found
    if number.digits <= EXACT_DIGITS and -EXACT_POWER <= number.exponent <= EXACT_POWER:
        # Both are exact, so one rounding is all there is.
        found = <double>number.mantissa
        if number.exponent < 0:
            found = found / POWERS[-number.exponent]
        else:
            found = found * POWERS[number.exponent]
        value[0] = -found if number.is_negative else found
        return True
    if number.length > MAX_NUMBER:
        return False
    memcpy(text, number.text, number.length)
    text[number.length] = 0
    with gil:
        try:
            value[0] = to_double(text, NULL, NULL)
        except Exception:
            return False
    return True


cdef struct Field:
    const uint8_t *name
    Py_ssize_t name_bytes
    int kind
    int64_t least
    int64_t most
    int64_t *values
    uint8_t *valid
    int32_t *edges
    uint8_t *data
    int64_t filled


cdef const uint8_t *take(
    const uint8_t *at, const uint8_t *end, Field *field, Py_ssize_t row
) noexcept nogil:
    """Behind a value that goes into a field's row; NULL if it does not fit as it is."""
    cdef Number number
    cdef bint has_escapes = False
    cdef const uint8_t *stop
    cdef int64_t whole
    cdef int32_t begin
    if at >= end:
        return NULL
    if at[0] == c"n":
        if end - at < 4 or memcmp(at, b"null", 4) != 0:
            return NULL
        field.valid[row] = 0
        return at + 4
    if field.kind == TEXT:
        if at[0] != 34:
            return NULL
        stop = text_end(at + 1, end, &has_escapes)
        if stop == NULL or has_escapes:
            return NULL
        # One that is there twice is written over: it is the row's last text.
        begin = field.edges[row]
        memcpy(field.data + begin, at + 1, stop - at - 2)
        field.filled = begin + (stop - at - 2)
    elif field.kind == BOOLEAN:
        stop = value_end(at, end, 0)
        if stop == NULL or (at[0] != c"t" and at[0] != c"f"):
            return NULL
        field.values[row] = at[0] == c"t"
    else:
        if at[0] != c"-" and not is_digit(at, end):
            return NULL
        stop = number_end(at, end, &number)
        if stop == NULL:
            return NULL
        if field.kind == FLOAT:
            if not real(&number, <double *>&field.values[row]):
                return NULL
        else:
            if not number.is_whole or number.digits > SAFE_DIGITS:
                return NULL
            whole = -number.mantissa if number.is_negative else number.mantissa
            if whole < field.least or whole > field.most:
                return NULL
            field.values[row] = whole
    field.valid[row] = 1
    return stop


cdef bint read_body(
    const uint8_t *at, const uint8_t *end, Field *fields, int count, Py_ssize_t row
) noexcept nogil:
    """Read one object; false if there is any doubt about it."""
    cdef const uint8_t *name
    cdef Py_ssize_t name_bytes
    cdef bint has_escapes
    cdef int expected = 0, number
    if not is_ascii(at, end - at) and not is_utf8(at, end):
        return False
    at = blanks(at, end)
    if at >= end or at[0] != c"{":
        return False
    at = blanks(at + 1, end)
    if at < end and at[0] == c"}":
        return blanks(at + 1, end) == end
    while True:
        if at >= end or at[0] != 34:
            return False
        name, has_escapes = at + 1, False
        at = text_end(name, end, &has_escapes)
        if at == NULL or has_escapes:
            return False
        name_bytes = at - name - 1
        at = blanks(at, end)
        if at >= end or at[0] != c":":
            return False
        at = blanks(at + 1, end)
        for number in range(count):
            # Most bodies have their fields in one order.
            if expected == count:
                expected = 0
            if (
                fields[expected].name_bytes == name_bytes
                and is_same(fields[expected].name, name, name_bytes)
            ):
                at = take(at, end, &fields[expected], row)
                expected += 1
                break
            expected += 1
        else:
            at = value_end(at, end, 0)
        if at == NULL:
            return False
        at = blanks(at, end)
        if at >= end:
            return False
        if at[0] == c"}":
            return blanks(at + 1, end) == end
        if at[0] != c",":
            return False
        at = blanks(at + 1, end)


def flat_fields(
    const uint8_t[::1] data, const int32_t[::1] edges, tuple names not None, bytes kinds not None,
    bytes bits not None, int64_t[:, ::1] values, uint8_t[:, ::1] valid,
    int32_t[:, ::1] text_edges, uint8_t[:, ::1] text_data, uint8_t[::1] read,
):
    cdef Py_ssize_t rows = edges.shape[0] - 1, row
    cdef int count = len(names), number, texts = 0, width
    cdef Field fields[MAX_FIELDS]
    cdef const uint8_t *octets
    cdef bint good = True
    if (
        rows < 1
        or not 0 < count <= MAX_FIELDS
        or len(kinds) != count
        or len(bits) != count
        or values.shape[0] != count
        or values.shape[1] != rows
        or valid.shape[0] != count
        or valid.shape[1] != rows
        or read.shape[0] != rows
        or text_edges.shape[0] != text_data.shape[0]
    ):
        raise ValueError("rooms of other sizes than the bodies ask for")
    for row in range(rows):
        if not 0 <= edges[row] <= edges[row + 1] <= data.shape[0]:
            raise ValueError("bodies that are not in the data")
    for number in range(count):
        fields[number].name = raw(<bytes?>names[number])
        fields[number].name_bytes = len(<bytes>names[number])
        fields[number].kind = (<const uint8_t *>raw(kinds))[number]
        width = (<const uint8_t *>raw(bits))[number]
        if not 1 <= width <= 64:
            raise ValueError("numbers of other widths than 1 to 64 bits")
        fields[number].most = <int64_t>0x7FFFFFFFFFFFFFFF >> (64 - width)
        fields[number].least = -fields[number].most - 1
        fields[number].values = &values[number, 0]
        fields[number].valid = &valid[number, 0]
        fields[number].filled = 0
        if fields[number].kind == TEXT:
            if (
                texts >= text_edges.shape[0]
                or text_edges.shape[1] != rows + 1
                or text_data.shape[1] < edges[rows] - edges[0] + 1
            ):
                raise ValueError("no room for texts")
            fields[number].edges = &text_edges[texts, 0]
            fields[number].data = &text_data[texts, 0]
            fields[number].edges[0] = 0
            texts += 1
    octets = &data[0] if data.shape[0] else NULL
    with nogil:
        for row in range(rows):
            for number in range(count):
                fields[number].valid[row] = 0
            good = read_body(octets + edges[row], octets + edges[row + 1], fields, count, row)
            read[row] = good
            for number in range(count):
                if fields[number].kind == TEXT:
                    if not good or not fields[number].valid[row]:
                        fields[number].filled = fields[number].edges[row]
                    fields[number].edges[row + 1] = <int32_t>fields[number].filled
