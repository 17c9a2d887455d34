# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""The compiled twin of ``intake.plain_batch``: from the bytes of a batch to those of its records.

What is at all unusual is left to the class in Python, found in ``pure``.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from rocketpipe.broker.intake._plain_texts cimport *
from rocketpipe.record._writing cimport *

from rocketpipe.broker.intake.sent_properties import SPECIAL
from rocketpipe.store.log.commit_log import filler
from rocketpipe.store.log.puts import Encoded

TWINS = ("plain_count", "PlainBatch")
MADE_FROM = ROCKETPIPE_SOURCE.decode()
#: What these stand for, by name.
pure = {}

prepare_crc32()

cdef enum:
    FILLER_BYTES = 8
    MAX_SUFFIX = 16384
    IN_NO_QUEUE = 4

cdef OddNames _odd
cdef list _names = [name.encode() + b"\x01" for name in sorted(SPECIAL)]
for _name in _names:
    add_name(&_odd, raw(_name), PyBytes_GET_SIZE(_name))


def plain_count(bytes body not None):
    cdef const uint8_t *data = raw(body)
    cdef Py_ssize_t at = 0, end = PyBytes_GET_SIZE(body), count = 0
    cdef BatchEntry entry
    while at < end:
        at = next_entry(data, at, end, &entry)
        if at < 0 or not is_plain_entry(&_odd, &entry):
            return 0
        count += 1
    return count


cdef class PlainBatch:
    cdef bytes body, suffix
    cdef object like, last
    #: Encoded names of topics, which nobody else may keep.
    cdef list heads
    cdef readonly object last_record

    def __init__(self, bytes body not None, like, bytes suffix not None, last):
        self.body, self.like, self.suffix, self.last = body, like, suffix, last
        self.heads = []
        self.last_record = -1

    def encode(self, appender, start, stored_ms):
        cdef int64_t at = 0, stored = 0
        found = None
        if (
            fits_place(start, &at)
            and fits_long(stored_ms, &stored)
            and PyBytes_GET_SIZE(<bytes?>appender.store_host) in (8, 20)
            and PyBytes_GET_SIZE(self.suffix) <= MAX_SUFFIX
            and b"#" not in self.suffix
        ):
            found = self.encode_within(appender, at, stored)
        if found is None:
            slow = pure["PlainBatch"](self.body, self.like, self.suffix, self.last)
            found = slow.encode(appender, start, stored_ms)
        self.last_record = found.last_record
        return found

    cdef object encode_within(self, appender, int64_t start, int64_t stored):
        """Make all records; None if they go beyond the next segment, or something is unusual."""
        cdef const uint8_t *data = raw(self.body)
        cdef Py_ssize_t at = 0, length = PyBytes_GET_SIZE(self.body), count = 0
        cdef int64_t segment = appender.segment_bytes, offset = 0, last_offset = 0, first = -1
        cdef int64_t following_segment = start - start % segment + segment
        cdef int64_t end = start, limit = following_segment - FILLER_BYTES, cut = -1
        cdef uint8_t mark[MARK_BYTES]
        cdef uint8_t *to
        cdef uint8_t *behind_cut = NULL
        cdef BatchEntry entry
        cdef Draft draft, last
        store_host = appender.store_host
        if not self.draft_of(self.like, appender, store_host, stored, &draft):
            return None
        if not self.draft_of(self.last, appender, store_host, stored, &last):
            return None
        draft.suffix, draft.suffix_bytes = raw(self.suffix), PyBytes_GET_SIZE(self.suffix)
        while at < length:
            at = next_entry(data, at, length, &entry)
            if at < 0 or not entry.text_bytes:
                return None
            if memchr(entry.text, c"#", entry.text_bytes) != NULL:
                return None  # only the store writes some names that have one
            self.take_entry(&draft, &entry)
            if end + record_bytes(&draft) > limit:
                if cut >= 0:
                    return None
                cut, end, limit = end, following_segment, limit + segment
            if first < 0:
                first = end
            end += record_bytes(&draft)
            count += 1
        if end + record_bytes(&last) > limit:
            if cut >= 0:
                return None
            cut, end, limit = end, following_segment, limit + segment
        last.at, last.size = end, <int32_t>record_bytes(&last)
        end += last.size
        if not count or end > limit:
            return None
        topic, queue_id, last_topic, last_queue = (
            self.like[0], self.like[1], self.last[0], self.last[1]
        )
        if topic == last_topic:
            return None
        if not fits_long(appender.next_offset(topic, queue_id), &offset):
            return None
        if not fits_long(appender.next_offset(last_topic, last_queue), &last_offset):
            return None
        write_mark(mark, first, end)
        draft.mark = last.mark = mark
        if cut < 0:
            records = PyBytes_FromStringAndSize(NULL, end - start)
            chunks = [(start, records)]
        else:
            # The first segment is closed behind its last record.
            records = PyBytes_FromStringAndSize(NULL, cut - start + FILLER_BYTES)
            closing = filler(following_segment - cut)
            memcpy(PyBytes_AS_STRING(records) + cut - start, raw(closing), FILLER_BYTES)
            rest = PyBytes_FromStringAndSize(NULL, end - following_segment)
            behind_cut = <uint8_t *>PyBytes_AS_STRING(rest)
            chunks = [(start, records), (following_segment, rest)]
        to = <uint8_t *>PyBytes_AS_STRING(records)
        draft.at, draft.queue_offset = start, offset
        at = 0
        while at < length:
            at = next_entry(data, at, length, &entry)
            self.take_entry(&draft, &entry)
            draft.size = <int32_t>record_bytes(&draft)
            if draft.at == cut:
                draft.at, to = following_segment, behind_cut
            write_record(&draft, to)
            to += draft.size
            draft.at += draft.size
            draft.queue_offset += 1
        if draft.at == cut:
            to = behind_cut
        last.queue_offset = last_offset
        write_record(&last, to)
        following = {topic: {queue_id: offset + count}, last_topic: {last_queue: last_offset + 1}}
        return Encoded(chunks, None, end, last.at, following)

    cdef void take_entry(self, Draft *draft, const BatchEntry *entry) noexcept:
        draft.body, draft.body_bytes = entry.body, entry.body_bytes
        draft.text, draft.text_bytes = entry.text, entry.text_bytes
        draft.ended = entry.text[entry.text_bytes - 1] != 2
        draft.flag = entry.flag

    cdef bint draft_of(
        self, put, appender, bytes store_host, int64_t stored, Draft *draft
    ) except -1:
        """Have a draft be of a message, whose bytes its owner keeps; false if it is unusual."""
        cdef int64_t queue = 0, flag = 0, sys_flag = 0, born = 0, reconsumed = 0, prepared = 0
        topic, queue_id, body, properties, flag_, sys_flag_, born_ms, born_host, again, half = put
        if (
            type(body) is not bytes
            or type(properties) is not bytes
            or type(born_host) is not bytes
            or PyBytes_GET_SIZE(born_host) not in (8, 20)
            or PyBytes_GET_SIZE(properties)  # nothing of ours has any
            or not fits(queue_id, 0, 0x7FFFFFFF, &queue)
            or not fits_int(flag_, &flag)
            or not fits_int(sys_flag_, &sys_flag)
            or sys_flag & IN_NO_QUEUE
            or not fits_long(born_ms, &born)
            or not fits_int(again, &reconsumed)
            or not fits_long(half, &prepared)
        ):
            return False
        magic, head = appender.head_of(topic)
        self.heads.append(head)
        draft.magic, draft.topic, draft.topic_bytes = magic, raw(head), PyBytes_GET_SIZE(head)
        draft.queue, draft.flag, draft.born = <int32_t>queue, <int32_t>flag, born
        draft.sys_flag = <int32_t>(sys_flag & ~<int64_t>(BORN_V6 | STORE_V6))
        draft.born_host, draft.born_bytes = raw(born_host), PyBytes_GET_SIZE(born_host)
        draft.store_host, draft.store_bytes = raw(store_host), PyBytes_GET_SIZE(store_host)
        if draft.born_bytes > 8:
            draft.sys_flag |= BORN_V6
        if draft.store_bytes > 8:
            draft.sys_flag |= STORE_V6
        draft.stored, draft.sealed = stored, appender.seal
        draft.reconsumed, draft.prepared = <int32_t>reconsumed, prepared
        draft.body, draft.body_bytes = raw(body), PyBytes_GET_SIZE(body)
        draft.text, draft.text_bytes, draft.ended = raw(properties), 0, False
        draft.suffix, draft.suffix_bytes = raw(properties), 0
        draft.mark_bytes = MARK_BYTES
        return True
