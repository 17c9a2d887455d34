# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""The compiled twin of ``store.hot``, and of the loops of ``appender`` and ``derivation``.

Bytes of the log are read here: every length is compared with what is there before it is used. What
is at all unusual, and whatever has to raise, is left to the function in Python, found in ``pure``.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_Check
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_SET_ITEM

from rocketpipe.record._raw cimport *

from rocketpipe.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketpipe.record.checksum import strip
from rocketpipe.record.hot import split
from rocketpipe.store.log.batch_mark import strip_mark
from rocketpipe.store.log.puts import Appended, Encoded, Put

TWINS = (
    "check_record", "is_sealed", "value_of", "key_hash", "key_hashes", "whole_entries",
    "chain_entries", "choose_entries", "window_end", "sealed_records", "sealed_run",
    "puts_of_batch", "encode_groups", "derive",
)
MADE_FROM = ROCKETPIPE_SOURCE.decode()
#: The functions that these stand for, by name.
pure = {}

prepare_crc32()

cdef enum:
    ENTRY_BYTES = 20
    BLANK_SIZE = 0x7FFFFFFF
    MARK_BYTES = 42
    FILLER_BYTES = 8
    MAX_RECORD_BYTES = 16 * 1024 * 1024 + 64 * 1024
    UNIQUE_BYTES = 32

cdef object _schedule_topic = SCHEDULE_TOPIC
cdef object _timer_topic = TIMER_TOPIC
cdef object _appended = Appended
cdef object _put = Put
cdef const char *_hex = b"0123456789abcdef"


cdef inline bint fits(object number, int64_t least, int64_t most, int64_t *value) except -1:
    """Read a number that must lie between two others."""
    cdef int overflow = 0
    if not PyLong_Check(number):
        return False
    value[0] = PyLong_AsLongLongAndOverflow(number, &overflow)
    return not overflow and least <= value[0] <= most


cdef inline bint fits_int(object number, int64_t *value) except -1:
    return fits(number, -0x80000000, 0x7FFFFFFF, value)


cdef inline bint fits_long(object number, int64_t *value) except -1:
    cdef int64_t least = <int64_t>(<uint64_t>1 << 63)
    return fits(number, least, ~least, value)


cdef inline bint fits_place(object number, int64_t *value) except -1:
    """Read an offset, which leaves room for sums with another."""
    return fits(number, 0, <int64_t>1 << 62, value)


cdef inline void fill(object made, Py_ssize_t at, object value) noexcept:
    Py_INCREF(value)
    PyTuple_SET_ITEM(made, at, value)


cdef inline const uint8_t *raw(bytes data) noexcept:
    return <const uint8_t *>PyBytes_AS_STRING(data)


# --- hashes of keys -------------------------------------------------------------------------------


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


def key_hash(str topic not None, str key not None):
    return positive(hash_text(31 * hash_text(0, topic) + 35, key))


def key_hashes(str topic not None, bytes properties not None, bint tags=False):
    cdef list hashes = []
    if not add_hashes(hashes, 31 * hash_text(0, topic) + 35, properties, tags):
        return pure["key_hashes"](topic, properties, tags)
    return hashes


cdef bint add_hashes(list hashes, uint32_t topic, bytes properties, bint tags) except -1:
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
            if at == bytes_there or value[at] == 32:
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


def value_of(bytes properties not None, bytes name not None):
    cdef Py_ssize_t length = 0
    cdef const uint8_t *value
    if not name.endswith(b"\x01") or b"\x02" in name:
        return pure["value_of"](properties, name)
    value = find_value(
        raw(properties),
        PyBytes_GET_SIZE(properties),
        PyBytes_AS_STRING(name),
        PyBytes_GET_SIZE(name),
        &length,
    )
    return b"" if value == NULL else PyBytes_FromStringAndSize(<const char *>value, length)


# --- records and entries that were written --------------------------------------------------------


def is_sealed(bytes record not None):
    return has_seal_name(raw(record), PyBytes_GET_SIZE(record))


def check_record(bytes record not None, at):
    cdef Py_ssize_t size = PyBytes_GET_SIZE(record)
    cdef const uint8_t *data = raw(record)
    cdef Parts parts
    cdef int64_t place = 0
    cdef bint good
    if not fits_long(at, &place) or not find_parts(data, 0, size, &parts):
        return pure["check_record"](record, at)
    if has_seal_name(data, size):
        good = seal_is_right(data, size)
    else:
        good = crc32_of(data + parts.body, parts.body_bytes) & 0x7FFFFFFF == get32(data + 8)
    if not good or parts.stop != size or <int64_t>get64(data + 28) != place:
        return pure["check_record"](record, at)
    return split(record, 0, size)


def whole_entries(bytes entries not None, behind, log_end):
    cdef const uint8_t *data = raw(entries)
    cdef Py_ssize_t at, length = PyBytes_GET_SIZE(entries)
    cdef int64_t last = 0, limit = 0, offset
    cdef int32_t size
    cdef Py_ssize_t count = 0
    if length % ENTRY_BYTES or not fits_place(behind, &last) or not fits_place(log_end, &limit):
        return pure["whole_entries"](entries, behind, log_end)
    for at in range(0, length, ENTRY_BYTES):
        offset = <int64_t>get64(data + at)
        size = <int32_t>get32(data + at + 8)
        if size == BLANK_SIZE:
            if get64(data + at + 12) or offset > limit or (last and offset != last):
                break
            last = offset
        else:
            if offset < last or size < MIN_RECORD_BYTES or offset > limit - size:
                break
            last = offset + size
        count += 1
    return count, last


def chain_entries(
    table, count, begin_ms, list keys not None, Py_ssize_t page_slots, set dirty not None
):
    cdef Py_buffer view
    cdef int64_t first = 0, begin = 0
    if page_slots < 1 or not fits_int(count, &first) or not fits_long(begin_ms, &begin):
        return pure["chain_entries"](table, count, begin_ms, keys, page_slots, dirty)
    PyObject_GetBuffer(table, &view, PyBUF_WRITABLE)
    try:
        found = None
        if getattr(table, "typecode", None) == "i" and sizeof(int) == 4 and view.len >= 4:
            found = chain(<int32_t *>view.buf, view.len // 4, first, begin, keys, page_slots, dirty)
    finally:
        PyBuffer_Release(&view)
    if found is None:
        return pure["chain_entries"](table, count, begin_ms, keys, page_slots, dirty)
    return found


cdef object chain(
    int32_t *table, Py_ssize_t slots, int64_t count, int64_t begin, list keys,
    Py_ssize_t page_slots, set dirty,
):
    """Do what ``chain_entries`` promises; None, and nothing done, if a key is unusual."""
    cdef Py_ssize_t number, many = len(keys), page, last_page = -1
    cdef int64_t hash_of = 0, offset = 0, stored = 0, seconds
    cdef Py_ssize_t slot, used = 0
    cdef uint8_t *to
    for key in keys:
        if (
            type(key) is not tuple
            or PyTuple_GET_SIZE(key) != 3
            or not fits(<object>PyTuple_GET_ITEM(key, 0), 0, 0x7FFFFFFF, &hash_of)
            or not fits_long(<object>PyTuple_GET_ITEM(key, 1), &offset)
            or not fits_place(<object>PyTuple_GET_ITEM(key, 2), &stored)
        ):
            return None
    if count + many > 0x7FFFFFFF or begin < -(<int64_t>1 << 62):
        return None
    entries = PyBytes_FromStringAndSize(NULL, many * ENTRY_BYTES)
    to = <uint8_t *>PyBytes_AS_STRING(entries)
    for number in range(many):
        key = keys[number]
        fits_long(<object>PyTuple_GET_ITEM(key, 0), &hash_of)
        fits_long(<object>PyTuple_GET_ITEM(key, 1), &offset)
        fits_long(<object>PyTuple_GET_ITEM(key, 2), &stored)
        seconds = 0
        if begin > 0 and stored > begin:
            seconds = min((stored - begin) // 1000, <int64_t>0x7FFFFFFF)
        slot = hash_of % slots
        put32(to, <uint32_t>hash_of)
        put64(to + 4, <uint64_t>offset)
        put32(to + 12, <uint32_t>seconds)
        put32(to + 16, <uint32_t>table[slot])
        to += ENTRY_BYTES
        if not table[slot]:
            used += 1
        table[slot] = <int32_t>(count + number)
        page = slot // page_slots
        if page != last_page:
            dirty.add(page)
            last_page = page
    return entries, used


# --- reading --------------------------------------------------------------------------------------


def choose_entries(bytes entries not None, first, max_count, max_bytes, matches):
    cdef const uint8_t *data = raw(entries)
    cdef Py_ssize_t at, length = PyBytes_GET_SIZE(entries)
    cdef int64_t oldest = 0, most = 0, room = 0, offset
    cdef int32_t size
    cdef Py_ssize_t number = 0
    cdef list wanted = []
    cdef bint removed = False
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
        elif matches is None or matches(<int64_t>get64(data + at + 12)):
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


def sealed_run(bytes data not None, at, Py_ssize_t place):
    cdef const uint8_t *from_ = raw(data)
    cdef const uint8_t *record
    cdef Py_ssize_t length = PyBytes_GET_SIZE(data), last = place, count = 0
    cdef int64_t begin = 0
    cdef int32_t size, magic
    if place < 0 or not fits_place(at, &begin):
        return pure["sealed_run"](data, at, place)
    while length - place >= MIN_RECORD_BYTES:
        record = from_ + place
        size = <int32_t>get32(record)
        magic = <int32_t>get32(record + 4)
        if (
            (magic != MAGIC_V1 and magic != MAGIC_V2)
            or size < MIN_RECORD_BYTES
            or size > MAX_RECORD_BYTES
            or <int64_t>get64(record + 28) != begin + place
            or size > length - place
            or not seal_is_right(record, size)
        ):
            break
        last = place
        count += 1
        place += size
    return place, last, count


# --- writing --------------------------------------------------------------------------------------


cdef inline bint is_alnum(const uint8_t *text, Py_ssize_t length) noexcept:
    cdef Py_ssize_t at
    cdef uint8_t letter
    for at in range(length):
        letter = text[at]
        if not (48 <= letter <= 57 or 65 <= letter <= 90 or 97 <= letter <= 122):
            return False
    return True


def puts_of_batch(
    bytes buffer not None, Py_ssize_t max_bytes, set heads not None, topic, queue_id, sys_flag,
    born_ms, born_host, bytes suffix not None,
):
    cdef const uint8_t *data = raw(buffer)
    cdef const uint8_t *text
    cdef const uint8_t *known = NULL
    cdef Py_ssize_t end = PyBytes_GET_SIZE(buffer), added = PyBytes_GET_SIZE(suffix)
    cdef Py_ssize_t at = 0, body_end, stop, text_bytes, head_bytes, known_bytes = -1
    cdef int32_t size, body_bytes
    cdef list puts = []
    cdef uint8_t *to
    if end > max_bytes:
        return None
    while end - at >= 22:
        size = <int32_t>get32(data + at)
        body_bytes = <int32_t>get32(data + at + 16)
        if size < 22 or size > end - at or body_bytes < 0 or body_bytes > size - 22:
            return None
        stop = at + size
        body_end = at + 20 + body_bytes
        text = data + body_end + 2
        text_bytes = stop - body_end - 2
        if (data[body_end] << 8 | data[body_end + 1]) != text_bytes or text_bytes > MAX_PROPERTIES:
            return None
        # … UNIQ_KEY 0x01 key 0x02, of which what stands before was seen to be plain.
        head_bytes = text_bytes - (9 + UNIQUE_BYTES + 1)
        if (
            head_bytes < 0
            or data[stop - 1] != 2
            or memcmp(text + head_bytes, b"UNIQ_KEY\x01", 9) != 0
            or not is_alnum(text + head_bytes + 9, UNIQUE_BYTES)
        ):
            return None
        if head_bytes != known_bytes or memcmp(text, known, head_bytes) != 0:
            if PyBytes_FromStringAndSize(<const char *>text, head_bytes) not in heads:
                return None
            known = text
            known_bytes = head_bytes
        properties = PyBytes_FromStringAndSize(NULL, text_bytes + added)
        to = <uint8_t *>PyBytes_AS_STRING(properties)
        memcpy(to, text, text_bytes)
        memcpy(to + text_bytes, PyBytes_AS_STRING(suffix), added)
        put = new_tuple(_put, 10)
        fill(put, 0, topic)
        fill(put, 1, queue_id)
        fill(put, 2, PyBytes_FromStringAndSize(<const char *>data + at + 20, body_bytes))
        fill(put, 3, properties)
        fill(put, 4, <int32_t>get32(data + at + 12))
        fill(put, 5, sys_flag)
        fill(put, 6, born_ms)
        fill(put, 7, born_host)
        fill(put, 8, 0)
        fill(put, 9, 0)
        puts.append(put)
        if stop == end:
            return puts
        at = stop
    return None


cdef class Room:
    """Bytes that grow at their end, and go with their owner."""

    cdef uint8_t *data
    cdef Py_ssize_t used
    cdef Py_ssize_t size

    def __cinit__(self):
        self.size = 16384
        self.data = <uint8_t *>PyMem_Malloc(self.size)
        if self.data == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.data)

    cdef uint8_t *take(self, Py_ssize_t more) except NULL:
        """Room for so many bytes more; what was given before may have moved."""
        cdef uint8_t *at
        cdef Py_ssize_t size = self.size
        if self.used + more > size:
            while self.used + more > size:
                size *= 2
            at = <uint8_t *>PyMem_Realloc(self.data, size)
            if at == NULL:
                raise MemoryError
            self.data = at
            self.size = size
        at = self.data + self.used
        self.used += more
        return at


cdef inline object own_properties(object properties):
    """Without what only the store writes, and only at the end."""
    if memchr(PyBytes_AS_STRING(properties), 35, PyBytes_GET_SIZE(properties)) != NULL:
        return strip_mark(strip(properties))
    return properties


cdef inline bint is_put(object put) noexcept:
    """Whether it has the fields of a `Put`, as far as bytes are concerned."""
    return (
        isinstance(put, tuple)
        and PyTuple_GET_SIZE(put) == 10
        and type(<object>PyTuple_GET_ITEM(put, 0)) is str
        and type(<object>PyTuple_GET_ITEM(put, 2)) is bytes
        and type(<object>PyTuple_GET_ITEM(put, 3)) is bytes
        and type(<object>PyTuple_GET_ITEM(put, 7)) is bytes
        and PyBytes_GET_SIZE(<object>PyTuple_GET_ITEM(put, 7)) in (8, 20)
    )


cdef bytes mark_of(list group, int64_t start, int64_t limit, int fixed, dict topics, remember):
    """The property of a group's records; None if they do not all fit into the segment.

    ``fixed`` is what each record has beside its hosts' wider form and what varies.
    """
    cdef int64_t end = start
    cdef Py_ssize_t length
    cdef int nibble
    cdef uint8_t *to
    for put in group:
        if not is_put(put):
            return None
        topic = <object>PyTuple_GET_ITEM(put, 0)
        known = topics.get(topic) or remember(topic)
        properties = own_properties(<object>PyTuple_GET_ITEM(put, 3))
        length = PyBytes_GET_SIZE(properties)
        if length and raw(properties)[length - 1] != 2:
            length += 1
        end += fixed + PyBytes_GET_SIZE(<object>PyTuple_GET_ITEM(put, 7)) + length + MARK_BYTES
        end += PyBytes_GET_SIZE(<object>PyTuple_GET_ITEM(put, 2)) + len(<bytes?>known[1])
    if end > limit:
        return None
    mark = PyBytes_FromStringAndSize(NULL, MARK_BYTES)
    to = <uint8_t *>PyBytes_AS_STRING(mark)
    memcpy(to, b"__BATCH#\x01", 9)
    for nibble in range(16):
        to[24 - nibble] = _hex[<uint64_t>start >> 4 * nibble & 15]
        to[40 - nibble] = _hex[<uint64_t>end >> 4 * nibble & 15]
    to[41] = 2
    return mark


def encode_groups(
    groups, start, stored_ms, segment, bytes store_host not None, bint seal,
    dict topics not None, remember, next_offset,
):
    cdef int64_t at = 0, segment_bytes = 0, stored = 0, limit
    found = None
    if (
        fits_place(start, &at)
        and fits(segment, 1, <int64_t>1 << 40, &segment_bytes)
        and fits_long(stored_ms, &stored)
        and PyBytes_GET_SIZE(store_host) in (8, 20)
    ):
        limit = at - at % segment_bytes + segment_bytes - FILLER_BYTES
        found = encode_within(
            groups, at, limit, stored, stored_ms, store_host, seal, topics, remember, next_offset
        )
    if found is None:
        return pure["encode_groups"](
            groups, start, stored_ms, segment, store_host, seal, topics, remember, next_offset
        )
    return found


cdef object encode_within(
    object groups, int64_t start, int64_t limit, int64_t stored, object stored_ms,
    bytes store_host, bint seal, dict topics, object remember, object next_offset,
):
    """Encode what stays below ``limit`` and is as usual; None if not all of it is."""
    cdef int64_t at = start, last_record = -1, flags, offset = 0, flag = 0, born = 0
    cdef int64_t reconsumed = 0, prepared = 0, queue = 0, sys_flag = 0
    cdef Py_ssize_t host_bytes = PyBytes_GET_SIZE(store_host), born_bytes, topic_bytes = 0
    cdef Py_ssize_t body_bytes, properties_bytes, written_bytes, size, added, mark_bytes = 0, ended
    cdef int64_t host_bit = STORE_V6 if host_bytes > 8 else 0
    cdef int64_t magic = 0
    cdef uint8_t *to
    cdef uint8_t *record
    cdef bytes mark = None
    cdef bytes topic_raw = None
    cdef object last_topic = None, flags_object = 0
    cdef int64_t flags_known = 0
    cdef dict counted = {}
    cdef dict counts = None
    cdef list placed = []
    cdef list appended
    cdef Room room = Room()
    added = SEAL_BYTES if seal else 0
    for group in groups:
        if type(group) is not list or not group:
            return None
        mark = None
        mark_bytes = 0
        if len(<list>group) > 1:
            mark = mark_of(group, at, limit, <int>(72 + host_bytes + 2 + added), topics, remember)
            if mark is None:
                return None
            mark_bytes = MARK_BYTES
        appended = []
        for put in <list>group:
            if not is_put(put):
                return None
            topic = <object>PyTuple_GET_ITEM(put, 0)
            queue_id = <object>PyTuple_GET_ITEM(put, 1)
            body = <object>PyTuple_GET_ITEM(put, 2)
            properties = own_properties(<object>PyTuple_GET_ITEM(put, 3))
            born_host = <object>PyTuple_GET_ITEM(put, 7)
            if (
                not fits(queue_id, 0, 0x7FFFFFFF, &queue)
                or not fits_int(<object>PyTuple_GET_ITEM(put, 4), &flag)
                or not fits_int(<object>PyTuple_GET_ITEM(put, 5), &sys_flag)
                or not fits_long(<object>PyTuple_GET_ITEM(put, 6), &born)
                or not fits_int(<object>PyTuple_GET_ITEM(put, 8), &reconsumed)
                or not fits_long(<object>PyTuple_GET_ITEM(put, 9), &prepared)
            ):
                return None
            if topic is not last_topic and last_topic is not None and topic == last_topic:
                topic = last_topic
            if topic is not last_topic:
                known = topics.get(topic) or remember(topic)
                last_topic = topic
                magic = known[0]
                topic_raw = known[1]
                topic_bytes = PyBytes_GET_SIZE(topic_raw)
                counts = counted.setdefault(topic, {})
            if sys_flag & 4:  # prepared or rolled back: in no queue
                queue_offset = 0
            else:
                queue_offset = counts.get(queue_id)
                if queue_offset is None:
                    queue_offset = next_offset(topic, queue_id)
                counts[queue_id] = queue_offset + 1
            if not fits_long(queue_offset, &offset):
                return None
            born_bytes = PyBytes_GET_SIZE(born_host)
            flags = sys_flag & ~<int64_t>(BORN_V6 | STORE_V6) | host_bit
            if born_bytes > 8:
                flags |= BORN_V6
            body_bytes = PyBytes_GET_SIZE(body)
            properties_bytes = PyBytes_GET_SIZE(properties)
            # One 0x02 more, where something follows and none is there.
            ended = (
                properties_bytes > 0
                and raw(properties)[properties_bytes - 1] != 2
                and (seal or mark is not None)
            )
            written_bytes = properties_bytes + ended + mark_bytes
            if written_bytes + added > MAX_PROPERTIES:
                return None
            size = 72 + born_bytes + host_bytes + body_bytes + topic_bytes + 2
            size += written_bytes + added
            if size > 0x7FFFFFFF or at + size > limit:
                return None
            record = to = room.take(size)
            put32(to, <uint32_t>size)
            put32(to + 4, <uint32_t>magic)
            put32(to + 8, crc32_of(raw(body), body_bytes) & 0x7FFFFFFF)
            put32(to + 12, <uint32_t>queue)
            put32(to + 16, <uint32_t>flag)
            put64(to + 20, <uint64_t>offset)
            put64(to + 28, <uint64_t>at)
            put32(to + 36, <uint32_t>flags)
            put64(to + 40, <uint64_t>born)
            memcpy(to + 48, PyBytes_AS_STRING(born_host), born_bytes)
            to += 48 + born_bytes
            put64(to, <uint64_t>stored)
            memcpy(to + 8, PyBytes_AS_STRING(store_host), host_bytes)
            to += 8 + host_bytes
            put32(to, <uint32_t>reconsumed)
            put64(to + 4, <uint64_t>prepared)
            put32(to + 12, <uint32_t>body_bytes)
            memcpy(to + 16, PyBytes_AS_STRING(body), body_bytes)
            to += 16 + body_bytes
            memcpy(to, PyBytes_AS_STRING(topic_raw), topic_bytes)
            to += topic_bytes
            to[0] = <uint8_t>((written_bytes + added) >> 8)
            to[1] = <uint8_t>(written_bytes + added)
            to += 2
            memcpy(to, PyBytes_AS_STRING(properties), properties_bytes)
            if ended:
                to[properties_bytes] = 2
            if mark is not None:
                memcpy(to + properties_bytes + ended, PyBytes_AS_STRING(mark), MARK_BYTES)
            if written_bytes != properties_bytes:
                properties = PyBytes_FromStringAndSize(<const char *>to, written_bytes)
            if seal:
                write_seal(record, size - SEAL_BYTES, record + size - SEAL_BYTES)
            if flags != flags_known:
                flags_known = flags
                flags_object = flags
            told = new_tuple(_appended, 8)
            fill(told, 0, at)
            fill(told, 1, size)
            fill(told, 2, queue_offset)
            fill(told, 3, stored_ms)
            fill(told, 4, topic)
            fill(told, 5, queue_id)
            fill(told, 6, flags_object)
            fill(told, 7, properties)
            appended.append(told)
            last_record = at
            at += size
        placed.append(appended)
    data = PyBytes_FromStringAndSize(<const char *>room.data, room.used)
    return Encoded([(start, data)], placed, at, last_record, counted)


# --- what follows from records --------------------------------------------------------------------


cdef inline bint speaks_of_delivery(const uint8_t *text, Py_ssize_t length) noexcept:
    """Whether ``TIMER_DEQUEUE_MS`` and 0x01 are in it."""
    cdef const uint8_t *end = text + length
    cdef const uint8_t *at = text
    while at < end:
        at = <const uint8_t *>memchr(at, 1, end - at)
        if at == NULL:
            return False
        if at - text >= 16 and memcmp(at - 16, b"TIMER_DEQUEUE_MS", 16) == 0:
            return True
        at += 1
    return False


cdef object _derivation = None
cdef object _queue_run = None


cdef int know_derivation() except -1:
    """Find the classes of the module that takes `derive` over; it is imported after this one."""
    global _derivation, _queue_run
    from rocketpipe.store.derived.derivation import Derivation, QueueRun

    _derivation = Derivation
    _queue_run = QueueRun
    return 0


def derive(records, level_delays_ms, bint index_tags):
    cdef dict open_runs = {}
    cdef list runs = [], keys = [], timed = [], arrivals = [], hashes
    cdef bytearray entries
    cdef const uint8_t *tag
    cdef uint8_t *to
    cdef Py_ssize_t tag_bytes = 0, used
    cdef int64_t at = 0, size = 0, offset = 0, next_offset = 0, sys_flag = 0, code
    cdef uint32_t topic_hash = 0
    cdef object hashed_topic = None, run = None, run_topic = None, run_queue = None
    if _derivation is None:
        know_derivation()
    for record in records:
        if not isinstance(record, tuple) or PyTuple_GET_SIZE(record) != 8:
            return pure["derive"](records, level_delays_ms, index_tags)
        log_offset = <object>PyTuple_GET_ITEM(record, 0)
        queue_offset = <object>PyTuple_GET_ITEM(record, 2)
        stored_ms = <object>PyTuple_GET_ITEM(record, 3)
        topic = <object>PyTuple_GET_ITEM(record, 4)
        queue_id = <object>PyTuple_GET_ITEM(record, 5)
        properties = <object>PyTuple_GET_ITEM(record, 7)
        if (
            type(topic) is not str
            or type(properties) is not bytes
            or not fits_long(log_offset, &at)
            or not fits_int(<object>PyTuple_GET_ITEM(record, 1), &size)
            or not fits_long(queue_offset, &offset)
            or not fits_int(<object>PyTuple_GET_ITEM(record, 6), &sys_flag)
        ):
            return pure["derive"](records, level_delays_ms, index_tags)
        if topic is not hashed_topic:
            if topic == _schedule_topic or topic == _timer_topic:
                return pure["derive"](records, level_delays_ms, index_tags)
            topic_hash = 31 * hash_text(0, topic) + 35
            hashed_topic = topic
        if not sys_flag & 4:
            code = 0
            tag = find_value(
                raw(properties), PyBytes_GET_SIZE(properties), b"TAGS\x01", 5, &tag_bytes
            )
            if tag != NULL:
                if not is_ascii(tag, tag_bytes):
                    return pure["derive"](records, level_delays_ms, index_tags)
                code = <int32_t>hash_on(0, tag, tag_bytes)
            if topic is not run_topic or queue_id is not run_queue or offset != next_offset:
                run = open_runs.get((topic, queue_id))
                if run is None or run.next != queue_offset:
                    run = _queue_run(topic, queue_id, queue_offset, log_offset)
                    open_runs[topic, queue_id] = run
                    runs.append(run)
                run_topic, run_queue = topic, queue_id
            entries = run.entries
            used = PyByteArray_GET_SIZE(entries)
            PyByteArray_Resize(entries, used + ENTRY_BYTES)
            to = <uint8_t *>PyByteArray_AS_STRING(entries) + used
            put64(to, <uint64_t>at)
            put32(to + 8, <uint32_t>size)
            put64(to + 12, <uint64_t>code)
            next_offset = offset + 1
            run.next = next_offset
            arrivals.append((topic, queue_id, queue_offset, code, stored_ms, properties))
        if sys_flag & 12 != 12:
            hashes = []
            if not add_hashes(hashes, topic_hash, properties, index_tags):
                hashes = pure["key_hashes"](topic, properties, index_tags)
            for number in hashes:
                keys.append((number, log_offset, stored_ms))
        if speaks_of_delivery(raw(properties), PyBytes_GET_SIZE(properties)):
            timed.append(record)
    return _derivation(runs, keys, timed, arrivals)
