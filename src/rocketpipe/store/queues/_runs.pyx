# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""The compiled twin of ``queues.runs``.

Every length is compared with what is there before it is used. What is at all unusual, and whatever
has to raise, is left to the function in Python, found in ``pure``.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdlib cimport free, malloc
from posix.unistd cimport pread

from rocketpipe.record._raw cimport *

from rocketpipe.store.files.disk import DiskFile

TWINS = ("find_run", "read_run")
MADE_FROM = ROCKETPIPE_SOURCE.decode()
#: The functions that these stand for, by name.
pure = {}

prepare_crc32()

cdef object _disk_file = DiskFile

cdef enum:
    ENTRY_BYTES = 20
    BLANK_SIZE = 0x7FFFFFFF
    MAX_GAP_BYTES = 16 << 10
    MAX_WINDOW_BYTES = 512 << 10


def find_run(bytes entries not None, first, max_count, max_bytes):
    cdef const uint8_t *entry = raw(entries)
    cdef Py_ssize_t length = PyBytes_GET_SIZE(entries), many = length // ENTRY_BYTES, count = 0
    cdef int64_t oldest = 0, most = 0, room = 0, offset, start = 0, end = 0, total = 0
    cdef int32_t size
    if (
        length % ENTRY_BYTES
        or not fits_place(first, &oldest)
        or not fits(max_count, 1, 0x7FFFFFFF, &most)
        or not fits(max_bytes, -(<int64_t>1 << 62), <int64_t>1 << 62, &room)
    ):
        return pure["find_run"](entries, first, max_count, max_bytes)
    while count < many and count < most:
        offset = <int64_t>get64(entry)
        size = <int32_t>get32(entry + 8)
        if size == BLANK_SIZE or offset < oldest:
            return None
        if size < 0 or offset > <int64_t>1 << 62:
            return pure["find_run"](entries, first, max_count, max_bytes)
        total += size
        if count == 0:
            start = offset
        elif total > room:
            total -= size
            break
        elif offset < end or offset > end + MAX_GAP_BYTES:
            return None
        end = offset + size
        if end - start > MAX_WINDOW_BYTES:
            return None
        count += 1
        entry += ENTRY_BYTES
    return (start, end, count, total) if count else None


cdef inline bint is_whole(const uint8_t *record, int64_t offset, int64_t size) noexcept nogil:
    """Whether a record says that it is what was wanted, and ends in a checksum that holds."""
    return (
        size >= MIN_RECORD_BYTES
        and get32(record) == size
        and <int64_t>get64(record + 28) == offset
        and seal_is_right(record, size)
    )


cdef bint take_whole(
    const uint8_t *data, int64_t start, const uint8_t *entry, Py_ssize_t count, bint verify,
    uint8_t *to,
) noexcept nogil:
    """Check each record and, unless they lie there already, copy them behind each other."""
    cdef Py_ssize_t number
    cdef int64_t offset, size
    for number in range(count):
        offset = <int64_t>get64(entry)
        size = <int32_t>get32(entry + 8)
        entry += ENTRY_BYTES
        if size < SEAL_BYTES or (verify and not is_whole(data + (offset - start), offset, size)):
            return False
        if to != data + (offset - start):
            memcpy(to, data + (offset - start), size)
        to += size
    return True


def read_run(file, at, bytes head not None, bytes entries not None, tuple span not None, verify):
    cdef const uint8_t *entry = raw(entries)
    cdef Py_ssize_t before = PyBytes_GET_SIZE(head)
    cdef int64_t place = 0, start = 0, end = 0, count = 0, total = 0
    cdef Py_ssize_t got = 0
    cdef bint checked = verify, whole = False
    cdef int descriptor
    cdef uint8_t *to
    cdef uint8_t *data
    if (
        type(file) is not _disk_file
        or len(span) != 4
        or not fits_place(at, &place)
        or not fits_place(span[0], &start)
        or not fits(span[1], start, start + MAX_WINDOW_BYTES, &end)
        or not fits(span[2], 1, PyBytes_GET_SIZE(entries) // ENTRY_BYTES, &count)
        or not fits(span[3], 0, end - start, &total)
        or not is_span(entry, count, start, end, total)
    ):
        return pure["read_run"](file, at, head, entries, span, verify)
    descriptor = file.fileno()
    frame = PyBytes_FromStringAndSize(NULL, before + total)
    memcpy(PyBytes_AS_STRING(frame), PyBytes_AS_STRING(head), before)
    to = <uint8_t *>PyBytes_AS_STRING(frame) + before
    with nogil:
        data = to if total == end - start else <uint8_t *>malloc(end - start)
        if data != NULL:
            got = pread(descriptor, data, end - start, place)
            if got == end - start:
                whole = take_whole(data, start, entry, count, checked, to)
            if data != to:
                free(data)
    if whole:
        return frame
    if got == end - start:
        return None
    return pure["read_run"](file, at, head, entries, span, verify)


cdef bint is_span(
    const uint8_t *entry, Py_ssize_t count, int64_t start, int64_t end, int64_t total
) noexcept nogil:
    """Whether these are the records of a run: inside of it, in order, and so long together."""
    cdef Py_ssize_t number
    cdef int64_t offset, size, behind = start
    for number in range(count):
        offset = <int64_t>get64(entry)
        size = <int32_t>get32(entry + 8)
        entry += ENTRY_BYTES
        if size < 0 or offset < behind or offset > end - size:
            return False
        behind = offset + size
        total -= size
    return total == 0
