# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""The compiled twin of ``queues.entries``.

Every length is compared with what is there before it is used. What is at all unusual, and whatever
has to raise, is left to the function in Python, found in ``pure``.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_Check
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE

from rocketpipe.record._raw cimport *

TWINS = ("choose_entries", "window_end", "sealed_records")
MADE_FROM = ROCKETPIPE_SOURCE.decode()
#: The functions that these stand for, by name.
pure = {}

prepare_crc32()

#: The module that this stands beside is not there yet when this is loaded by it.
cdef object _tag_codes = None

cdef enum:
    MAX_CODES = 32
    ENTRY_BYTES = 20
    BLANK_SIZE = 0x7FFFFFFF


cdef Py_ssize_t codes_of(object matches, int32_t *codes) except -2:
    """Read the hashes that are wanted; −1 if others have to be asked, or they are too many."""
    global _tag_codes
    cdef Py_ssize_t count = 0
    cdef int64_t code = 0
    if _tag_codes is None:
        from rocketpipe.store.queues.entries import TagCodes

        _tag_codes = TagCodes
    if type(matches) is not _tag_codes or type(matches.codes) is not frozenset:
        return -1
    if len(matches.codes) > MAX_CODES:
        return -1
    for each in matches.codes:
        if not PyLong_Check(each):
            return -1
        # No tag has a longer one.
        if fits_int(each, &code):
            codes[count] = <int32_t>code
            count += 1
    return count


cdef inline bint is_among(const int32_t *codes, Py_ssize_t count, int32_t code) noexcept nogil:
    cdef Py_ssize_t at
    for at in range(count):
        if codes[at] == code:
            return True
    return False


def choose_entries(bytes entries not None, first, max_count, max_bytes, matches):
    cdef const uint8_t *data = raw(entries)
    cdef Py_ssize_t at, length = PyBytes_GET_SIZE(entries)
    cdef int64_t oldest = 0, most = 0, room = 0, offset
    cdef int32_t size
    cdef Py_ssize_t number = 0
    cdef list wanted = []
    cdef bint removed = False
    cdef int32_t codes[MAX_CODES]
    cdef Py_ssize_t known = -1 if matches is None else codes_of(matches, codes)
    if (
        length % ENTRY_BYTES
        or not fits_long(first, &oldest)
        or not fits_long(max_count, &most)
        or not fits(max_bytes, -(<int64_t>1 << 62), <int64_t>1 << 62, &room)
    ):
        return pure["choose_entries"](entries, first, max_count, max_bytes, matches)
    for at in range(0, length, ENTRY_BYTES):
        size = <int32_t>get32(data + at + 8)
        offset = <int64_t>get64(data + at)
        if size == BLANK_SIZE:
            pass  # no message ever was here, or it was lost
        elif offset < oldest:
            removed = True
        elif (
            matches is None
            or (known >= 0 and is_among(codes, known, <int32_t>get32(data + at + 16)))
            or (known < 0 and matches(<int64_t>get64(data + at + 12)))
        ):
            room -= size
            if wanted and room < 0:
                break
            wanted.append((offset, size, number))
            if len(wanted) >= most:
                number += 1
                break
        number += 1
    return wanted, number, removed


cdef inline bint place_of(object each, int64_t *offset, int64_t *size) except -1:
    """Read a wanted entry; false if it is not one that can be right."""
    return (
        type(each) is tuple
        and PyTuple_GET_SIZE(each) == 3
        and fits_place(<object>PyTuple_GET_ITEM(each, 0), offset)
        and fits(<object>PyTuple_GET_ITEM(each, 1), 0, 0x7FFFFFFF, size)
    )


def window_end(list wanted not None, Py_ssize_t first, limit, max_gap):
    cdef int64_t offset = 0, size = 0, end, most = 0, gap = 0
    cdef Py_ssize_t number
    if (
        first < 0
        or first >= len(wanted)
        or not fits_place(limit, &most)
        or not fits(max_gap, 0, 0x7FFFFFFF, &gap)
        or not place_of(wanted[first], &offset, &size)
    ):
        return pure["window_end"](wanted, first, limit, max_gap)
    end = offset + size
    for number in range(first + 1, len(wanted)):
        if not place_of(wanted[number], &offset, &size):
            return pure["window_end"](wanted, first, limit, max_gap)
        if offset < end or offset > end + gap or offset + size > most:
            break
        end = offset + size
    return end


def sealed_records(bytes data not None, start, list wanted not None, Py_ssize_t first, bint verify):
    cdef const uint8_t *from_ = raw(data)
    cdef const uint8_t *record
    cdef Py_ssize_t length = PyBytes_GET_SIZE(data), number, many = 0, total = 0
    cdef int64_t begin = 0, offset = 0, size = 0, behind
    cdef bint joined = True
    cdef uint8_t *to
    if first < 0 or not fits_place(start, &begin):
        return pure["sealed_records"](data, start, wanted, first, verify)
    behind = begin
    for number in range(first, len(wanted)):
        if not place_of(wanted[number], &offset, &size):
            return pure["sealed_records"](data, start, wanted, first, verify)
        if offset < begin or size < SEAL_BYTES or offset - begin > length - size:
            break
        if verify:
            record = from_ + (offset - begin)
            if (
                size < MIN_RECORD_BYTES
                or get32(record) != size
                or <int64_t>get64(record + 28) != offset
                or not seal_is_right(record, size)
            ):
                break
        joined = joined and offset == behind
        behind = offset + size
        total += size
        many += 1
    if joined and total == length:
        return data, many
    found = PyBytes_FromStringAndSize(NULL, total)
    to = <uint8_t *>PyBytes_AS_STRING(found)
    for number in range(first, first + many):
        place_of(wanted[number], &offset, &size)
        memcpy(to, from_ + (offset - begin), size)
        to += size
    return found, many
