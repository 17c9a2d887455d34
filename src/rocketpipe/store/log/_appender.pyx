# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""The compiled twin of ``log.appender``.

Every length is compared with what is there before it is used. What is at all unusual, and whatever
has to raise, is left to the function in Python, found in ``pure``.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE

from rocketpipe.record._writing cimport *

from rocketpipe.record.checksum import strip
from rocketpipe.store.log.batch_mark import strip_mark
from rocketpipe.store.log.commit_log import filler
from rocketpipe.store.log.puts import Appended, Encoded

TWINS = ("encode_groups",)
MADE_FROM = ROCKETPIPE_SOURCE.decode()
#: The functions that these stand for, by name.
pure = {}

prepare_crc32()

cdef enum:
    FILLER_BYTES = 8

cdef object _appended = Appended


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

    cdef bytes given(self):
        """All bytes, of which there are none afterwards."""
        data = PyBytes_FromStringAndSize(<const char *>self.data, self.used)
        self.used = 0
        return data


cdef inline object own_properties(object properties):
    """Without what only the store writes, and only at the end."""
    if memchr(PyBytes_AS_STRING(properties), c"#", PyBytes_GET_SIZE(properties)) != NULL:
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


cdef bytes mark_of(
    list group, int64_t at, int64_t limit, int64_t segment, int fixed, dict topics, remember,
):
    """The property of a group's records, for which their places are found ahead.

    ``fixed`` is what each record has beside its hosts' wider form and what varies. None if one of
    them is unusual.
    """
    cdef int64_t start = -1, size
    cdef Py_ssize_t length
    for put in group:
        if not is_put(put):
            return None
        topic = <object>PyTuple_GET_ITEM(put, 0)
        known = topics.get(topic) or remember(topic)
        properties = own_properties(<object>PyTuple_GET_ITEM(put, 3))
        length = PyBytes_GET_SIZE(properties)
        if length and raw(properties)[length - 1] != 2:
            length += 1
        size = fixed + PyBytes_GET_SIZE(<object>PyTuple_GET_ITEM(put, 7)) + length + MARK_BYTES
        size += PyBytes_GET_SIZE(<object>PyTuple_GET_ITEM(put, 2)) + len(<bytes?>known[1])
        if at + size > limit:
            at = limit + FILLER_BYTES
            limit += segment
        if start < 0:
            start = at
        at += size
    mark = PyBytes_FromStringAndSize(NULL, MARK_BYTES)
    write_mark(<uint8_t *>PyBytes_AS_STRING(mark), start, at)
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
        found = encode_usual(
            groups, at, limit, segment_bytes, stored, stored_ms, store_host, seal, topics, remember,
            next_offset,
        )
    if found is None:
        return pure["encode_groups"](
            groups, start, stored_ms, segment, store_host, seal, topics, remember, next_offset
        )
    return found


cdef object encode_usual(
    object groups, int64_t start, int64_t limit, int64_t segment, int64_t stored, object stored_ms,
    bytes store_host, bint seal, dict topics, object remember, object next_offset,
):
    """Encode what is as usual, the first of it below ``limit``; None if not all of it is."""
    cdef int64_t at = start, chunk_at = start, last_record = -1, flags, offset = 0, flag = 0, born = 0
    cdef int64_t reconsumed = 0, prepared = 0, queue = 0, sys_flag = 0
    cdef Py_ssize_t size
    cdef int64_t host_bit = STORE_V6 if PyBytes_GET_SIZE(store_host) > 8 else 0
    cdef Draft draft
    cdef uint8_t *to
    cdef bytes mark = None
    cdef bytes topic_raw = None
    cdef object last_topic = None, flags_object = 0
    cdef int64_t flags_known = 0
    cdef dict counted = {}
    cdef dict counts = None
    cdef list placed = []
    cdef list chunks = []
    cdef list appended
    cdef Room room = Room()
    cdef int fixed
    draft.store_host, draft.store_bytes = raw(store_host), PyBytes_GET_SIZE(store_host)
    draft.stored, draft.sealed, draft.suffix_bytes = stored, seal, 0
    draft.suffix = draft.mark = draft.text = draft.store_host  # of which nothing is read
    fixed = <int>(AROUND_BYTES + draft.store_bytes + (SEAL_BYTES if seal else 0))
    for group in groups:
        if type(group) is not list or not group:
            return None
        mark = None
        draft.mark_bytes = 0
        if len(<list>group) > 1:
            mark = mark_of(group, at, limit, segment, fixed, topics, remember)
            if mark is None:
                return None
            draft.mark, draft.mark_bytes = raw(mark), MARK_BYTES
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
                draft.magic = known[0]
                topic_raw = known[1]
                draft.topic, draft.topic_bytes = raw(topic_raw), PyBytes_GET_SIZE(topic_raw)
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
            draft.born_host, draft.born_bytes = raw(born_host), PyBytes_GET_SIZE(born_host)
            flags = sys_flag & ~<int64_t>(BORN_V6 | STORE_V6) | host_bit
            if draft.born_bytes > 8:
                flags |= BORN_V6
            draft.body, draft.body_bytes = raw(body), PyBytes_GET_SIZE(body)
            draft.text, draft.text_bytes = raw(properties), PyBytes_GET_SIZE(properties)
            draft.ended = (
                draft.text_bytes > 0
                and draft.text[draft.text_bytes - 1] != 2
                and (seal or mark is not None)
            )
            size = record_bytes(&draft)
            if (
                properties_bytes(&draft) > MAX_PROPERTIES
                or size > 0x7FFFFFFF
                or size > segment - FILLER_BYTES
            ):
                return None
            if at + size > limit:
                chunks.append((chunk_at, room.given() + filler(limit + FILLER_BYTES - at)))
                chunk_at = at = limit + FILLER_BYTES
                limit += segment
            draft.size, draft.queue, draft.flag = <int32_t>size, <int32_t>queue, <int32_t>flag
            draft.queue_offset, draft.at, draft.sys_flag = offset, at, <int32_t>flags
            draft.born, draft.reconsumed, draft.prepared = born, <int32_t>reconsumed, prepared
            to = write_record(&draft, room.take(size))
            if draft.ended or mark is not None:
                properties = PyBytes_FromStringAndSize(
                    <const char *>to, draft.text_bytes + draft.ended + draft.mark_bytes
                )
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
    chunks.append((chunk_at, room.given()))
    return Encoded(chunks, placed, at, last_record, counted)
