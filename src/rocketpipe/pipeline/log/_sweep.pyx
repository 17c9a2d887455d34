# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""The compiled twin of ``pipeline.log.sweep``: records read and taken apart in one pass.

A few hundred kilobytes are read at a time, so that what was read is still in the processor's cache
when it is taken apart. Whatever is at all unusual ends the pass.
"""

from libc.errno cimport EINTR, errno
from libc.stdlib cimport free, malloc, realloc
from posix.unistd cimport pread

from rocketpipe.record._raw cimport *

TWINS = ("merge", "sweep")
MADE_FROM = ROCKETPIPE_SOURCE.decode()
#: The functions that these stand for, by name.
pure = {}

prepare_crc32()

cdef enum:
    ENTRY_BYTES = 20
    WINDOW_BYTES = 262144
    #: To read so much for nothing is quicker than to read twice.
    MAX_BETWEEN = 16384
    MAX_RECORD = 16842752
    MAX_NAMES = 8
    #: Of more than these the next one is found quicker by sorting.
    MAX_PIECES = 16
    COMPRESSED = 1


cdef struct Texts:
    # Runs of bytes one behind the other, and where each ends; there is room for all of them.
    int32_t *edges
    uint8_t *data
    int64_t filled


cdef inline void add(Texts *texts, Py_ssize_t row, const uint8_t *text, Py_ssize_t size) noexcept nogil:
    if size:
        memcpy(texts.data + texts.filled, text, size)
    texts.filled += size
    texts.edges[row + 1] = <int32_t>texts.filled


cdef bint read_whole(int file, uint8_t *to, Py_ssize_t size, int64_t at) noexcept nogil:
    """Read as much as that; false if there is less, or it cannot be read."""
    cdef Py_ssize_t done = 0, read
    while done < size:
        read = pread(file, to + done, size - done, at + done)
        if read < 0 and errno == EINTR:
            continue
        if read <= 0:
            return False
        done += read
    return True


cdef inline int64_t place_of(const uint8_t *entry) noexcept nogil:
    return <int64_t>get64(entry)


cdef inline int64_t size_of(const uint8_t *entry) noexcept nogil:
    return <int32_t>get32(entry + 8)


cdef struct Piece:
    # Entries that are still to be merged, and the place of the first.
    const uint8_t *at
    const uint8_t *end
    int64_t place


def merge(tuple pieces not None, uint8_t[::1] room):
    cdef Piece left[MAX_PIECES]
    cdef Py_ssize_t count = 0, each, least
    cdef int64_t limit, total = 0
    cdef const uint8_t[::1] octets
    cdef const uint8_t *first
    cdef uint8_t *to
    cdef bint in_order = True
    if not 0 < len(pieces) <= MAX_PIECES:
        return False
    for piece in pieces:
        octets = piece
        if octets.shape[0] % ENTRY_BYTES:
            raise ValueError("entries that are not whole")
        total += octets.shape[0]
        if octets.shape[0]:
            left[count].at = &octets[0]
            left[count].end = &octets[0] + octets.shape[0]
            left[count].place = place_of(&octets[0])
            if left[count].place < 0:
                return False
            count += 1
    if total != room.shape[0]:
        raise ValueError("a room of another size than the entries")
    if not total:
        return True
    to = &room[0]
    with nogil:
        while count and in_order:
            # All up to the next of another piece are copied at once; of equals the first comes first.
            least = 0
            for each in range(1, count):
                if left[each].place < left[least].place:
                    least = each
            limit = 0x7FFFFFFFFFFFFFFF
            for each in range(count):
                if each < least and left[each].place <= limit:
                    limit = left[each].place - 1
                elif each > least and left[each].place < limit:
                    limit = left[each].place
            first = left[least].at
            while left[least].place <= limit:
                total = left[least].place
                left[least].at += ENTRY_BYTES
                if left[least].at == left[least].end:
                    break
                left[least].place = place_of(left[least].at)
                if left[least].place < total:
                    in_order = False
                    break
            memcpy(to, first, left[least].at - first)
            to += left[least].at - first
            if left[least].at == left[least].end:
                count -= 1
                for each in range(least, count):
                    left[each] = left[each + 1]
    return in_order


cdef inline int64_t head(const uint8_t *record, const Parts *parts, uint8_t field) noexcept nogil:
    """One of the numbers that records begin with, by its place in ``FIELDS`` of the twin."""
    if field == 0:
        return <int32_t>get32(record + 12)
    if field == 1:
        return <int64_t>get64(record + 20)
    if field == 2:
        return parts.sys_flag
    if field == 3:
        return <int64_t>get64(record + 40)
    if field == 4:
        return <int64_t>get64(record + 48 + parts.born_bytes)
    return <int32_t>get32(record + parts.body - 16)


def sweep(
    int file, int64_t base, const uint8_t[::1] entries, bytes fields not None,
    int64_t[:, ::1] heads, bytes topic, tuple names not None, bint with_bodies,
    int32_t[:, ::1] edges, uint8_t[:, ::1] data,
):
    cdef Py_ssize_t count = entries.shape[0] // ENTRY_BYTES
    cdef Py_ssize_t asked = len(fields)
    cdef const uint8_t *field = raw(fields)
    cdef Py_ssize_t row = 0, next_row, named = len(names), number, size, capacity = WINDOW_BYTES
    cdef Py_ssize_t texts = named + with_bodies
    cdef const uint8_t *entry
    cdef const uint8_t *record
    cdef const uint8_t *value
    cdef const uint8_t *topic_text = NULL
    cdef Py_ssize_t topic_bytes = -1
    cdef uint8_t *window
    cdef uint8_t *larger
    cdef int64_t at, end, place, needed = 0
    cdef Texts found[MAX_NAMES]
    cdef const char *name[MAX_NAMES]
    cdef Py_ssize_t name_bytes[MAX_NAMES]
    cdef Parts parts
    cdef bint good = True
    if (
        not count
        or entries.shape[0] % ENTRY_BYTES
        or texts > MAX_NAMES
        or heads.shape[0] != asked
        or (asked and heads.shape[1] != count)
        or edges.shape[0] != texts
        or data.shape[0] != texts
        or (texts and edges.shape[1] != count + 1)
    ):
        raise ValueError("rooms of other sizes than the entries ask for")
    for number in range(count):
        entry = &entries[0] + number * ENTRY_BYTES
        size = size_of(entry)
        if size < MIN_RECORD_BYTES or size > MAX_RECORD:
            return False
        # Sums with it stay in 64 bits.
        if place_of(entry) < 0 or place_of(entry) >> 62:
            return False
        needed += size
    if needed > 0x7FFFFFFF or (texts and data.shape[1] < needed):
        raise ValueError("no room for all texts")
    if topic is not None:
        topic_text, topic_bytes = raw(topic), len(topic)
    for number in range(texts):
        found[number].edges = &edges[number, 0]
        found[number].data = &data[number, 0]
        found[number].filled = 0
        found[number].edges[0] = 0
    for number in range(named):
        name[number] = PyBytes_AS_STRING(<bytes?>names[number])
        name_bytes[number] = len(<bytes>names[number])
    window = <uint8_t *>malloc(capacity)
    if window == NULL:
        raise MemoryError
    with nogil:
        while good and row < count:
            entry = &entries[0] + row * ENTRY_BYTES
            at = place_of(entry)
            end = at + size_of(entry)
            next_row = row + 1
            while next_row < count:
                entry += ENTRY_BYTES
                place = place_of(entry)
                if place < end or place - end > MAX_BETWEEN:
                    break
                if place + size_of(entry) - at > WINDOW_BYTES:
                    break
                end = place + size_of(entry)
                next_row += 1
            if at < base:
                good = False
                break
            if end - at > capacity:
                larger = <uint8_t *>realloc(window, end - at)
                if larger == NULL:
                    good = False
                    break
                window, capacity = larger, end - at
            if not read_whole(file, window, end - at, at - base):
                good = False
                break
            while row < next_row:
                entry = &entries[0] + row * ENTRY_BYTES
                place, size = place_of(entry), size_of(entry)
                record = window + (place - at)
                if (
                    not find_parts(record, 0, size, &parts)
                    or parts.size != size
                    or <int64_t>get64(record + 28) != place
                ):
                    good = False
                    break
                for number in range(asked):
                    heads[number, row] = head(record, &parts, field[number])
                if topic_text != NULL and (
                    parts.topic_end - parts.topic != topic_bytes
                    or memcmp(record + parts.topic, topic_text, topic_bytes) != 0
                ):
                    good = False
                    break
                for number in range(named):
                    size = 0
                    value = find_value(
                        record + parts.properties, parts.stop - parts.properties,
                        name[number], name_bytes[number], &size,
                    )
                    if value == NULL:
                        size = 0
                    add(&found[number], row, value, size)
                if with_bodies:
                    value = record + parts.body
                    if (
                        parts.sys_flag & COMPRESSED
                        or crc32_of(value, parts.body_bytes) & 0x7FFFFFFF != get32(record + 8)
                    ):
                        good = False
                        break
                    add(&found[named], row, value, parts.body_bytes)
                row += 1
    free(window)
    return good
