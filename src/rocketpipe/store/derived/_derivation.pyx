# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""The compiled twin of ``derived.derivation``.

Every length is compared with what is there before it is used. What is at all unusual, and whatever
has to raise, is left to the function in Python, found in ``pure``.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_GET_SIZE
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE

from rocketpipe.record._raw cimport *
from rocketpipe.store.index._hashes cimport add_hashes, hash_text

from rocketpipe.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketpipe.store.index.entries import key_hashes

TWINS = ("derive",)
MADE_FROM = ROCKETPIPE_SOURCE.decode()
#: The functions that these stand for, by name.
pure = {}

prepare_crc32()

cdef enum:
    ENTRY_BYTES = 20

cdef object _schedule_topic = SCHEDULE_TOPIC
cdef object _timer_topic = TIMER_TOPIC
cdef object _derivation = None
cdef object _queue_run = None


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
                hashes = key_hashes(topic, properties, index_tags)
            for number in hashes:
                keys.append((number, log_offset, stored_ms))
        if speaks_of_delivery(raw(properties), PyBytes_GET_SIZE(properties)):
            timed.append(record)
    return _derivation(runs, keys, timed, arrivals)
