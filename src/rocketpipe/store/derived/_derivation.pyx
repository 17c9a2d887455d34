# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""The compiled twin of ``derived.derivation``.

Every length is compared with what is there before it is used. What is at all unusual, and whatever
has to raise, is left to the function in Python, found in ``pure``.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE

from rocketpipe.record._raw cimport *
from rocketpipe.store.index._hashes cimport add_hashes, hash_text, positive

from rocketpipe.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketpipe.store.index.entries import key_hashes

TWINS = ("derive", "derive_bytes")
MADE_FROM = ROCKETPIPE_SOURCE.decode()
#: The functions that these stand for, by name.
pure = {}

prepare_crc32()

cdef enum:
    ENTRY_BYTES = 20
    KEY_BYTES = 20
    PREPARED = 4

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
    cdef list runs = [], timed = [], arrivals = [], hashes
    cdef bytearray keys = bytearray()
    cdef bytearray entries
    cdef const uint8_t *tag
    cdef uint8_t *to
    cdef Py_ssize_t tag_bytes = 0, used
    cdef int64_t at = 0, size = 0, offset = 0, next_offset = 0, sys_flag = 0, stored = 0, code
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
            if not fits_long(stored_ms, &stored):
                return pure["derive"](records, level_delays_ms, index_tags)
            for number in hashes:
                used = PyByteArray_GET_SIZE(keys)
                PyByteArray_Resize(keys, used + KEY_BYTES)
                to = <uint8_t *>PyByteArray_AS_STRING(keys) + used
                put32(to, <uint32_t>number)
                put64(to + 4, <uint64_t>at)
                put64(to + 12, <uint64_t>stored)
        if speaks_of_delivery(raw(properties), PyBytes_GET_SIZE(properties)):
            timed.append(record)
    return _derivation(len(records), runs, bytes(keys), timed, arrivals)


cdef struct Run:
    # Entries of one queue that follow each other; the one before it with its place in a table.
    const uint8_t *topic
    Py_ssize_t topic_bytes
    uint32_t topic_hash
    int32_t queue
    int64_t first
    int64_t following
    Py_ssize_t log_at
    Py_ssize_t count
    uint8_t *to
    int before


cdef struct Names:
    # The properties that something follows from; of several of one name the last that has a value.
    const uint8_t *unique
    Py_ssize_t unique_bytes
    const uint8_t *keys
    Py_ssize_t keys_bytes
    const uint8_t *tag
    Py_ssize_t tag_bytes


cdef class Walk:
    """The runs that are found on the way through bytes of the log, and of which each record is."""

    cdef Run *runs
    cdef int *run_of_record
    cdef int *table
    cdef Py_ssize_t places
    cdef int count
    cdef list topics

    def __cinit__(self, Py_ssize_t most):
        self.places = 64
        while self.places < most:
            self.places *= 2
        self.topics = []
        self.runs = <Run *>PyMem_Malloc(most * sizeof(Run))
        self.run_of_record = <int *>PyMem_Malloc(most * sizeof(int))
        self.table = <int *>PyMem_Calloc(self.places, sizeof(int))
        if self.runs == NULL or self.run_of_record == NULL or self.table == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.runs)
        PyMem_Free(self.run_of_record)
        PyMem_Free(self.table)

    cdef int find(self, const uint8_t *topic, Py_ssize_t length, int32_t queue) noexcept:
        """The last run of a queue; −1 if there is none."""
        cdef int number = self.table[self.place_of(topic, length, queue)] - 1
        while number >= 0 and not (
            self.runs[number].queue == queue
            and self.runs[number].topic_bytes == length
            and memcmp(self.runs[number].topic, topic, length) == 0
        ):
            number = self.runs[number].before
        return number

    cdef Py_ssize_t place_of(self, const uint8_t *topic, Py_ssize_t length, int32_t queue) noexcept:
        return hash_on(<uint32_t>queue * 0x9E3779B1u, topic, length) & (self.places - 1)

    cdef int open(self, const uint8_t *topic, Py_ssize_t length, int32_t queue) noexcept:
        """Begin another run, which is found from now on."""
        cdef Py_ssize_t place = self.place_of(topic, length, queue)
        cdef Run *run = &self.runs[self.count]
        run.topic, run.topic_bytes, run.queue, run.count = topic, length, queue, 0
        run.before = self.table[place] - 1
        self.count += 1
        self.table[place] = self.count
        return self.count - 1


cdef inline void read_names(const uint8_t *piece, const uint8_t *end, Names *names) noexcept:
    cdef const uint8_t *stop
    names.unique = names.keys = names.tag = NULL
    while piece < end:
        stop = <const uint8_t *>memchr(piece, 2, end - piece)
        if stop == NULL:
            stop = end
        if piece[0] == c"U":
            if stop - piece > 9 and memcmp(piece, b"UNIQ_KEY\x01", 9) == 0:
                names.unique, names.unique_bytes = piece + 9, stop - piece - 9
        elif piece[0] == c"K":
            if stop - piece > 5 and memcmp(piece, b"KEYS\x01", 5) == 0:
                names.keys, names.keys_bytes = piece + 5, stop - piece - 5
        elif piece[0] == c"T":
            if stop - piece > 5 and memcmp(piece, b"TAGS\x01", 5) == 0:
                names.tag, names.tag_bytes = piece + 5, stop - piece - 5
        piece = stop + 1


cdef inline void add_key(bytearray keys, uint32_t number, int64_t at, const uint8_t *stored):
    cdef Py_ssize_t used = PyByteArray_GET_SIZE(keys)
    PyByteArray_Resize(keys, used + KEY_BYTES)
    cdef uint8_t *to = <uint8_t *>PyByteArray_AS_STRING(keys) + used
    put32(to, positive(number))
    put64(to + 4, <uint64_t>at)
    memcpy(to + 12, stored, 8)


cdef bint find_runs(const uint8_t *data, Py_ssize_t length, Walk walk, topics) except -1:
    """Find which record is of which run; false if one is unusual."""
    cdef Parts parts
    cdef Run *run
    cdef const uint8_t *topic = NULL
    cdef Py_ssize_t at = 0, topic_bytes = -1, number = 0
    cdef int64_t offset
    cdef int32_t queue
    cdef int found = -1
    cdef object name = None
    while at < length:
        if not find_parts(data, at, length, &parts) or parts.sys_flag & PREPARED:
            return False
        if (
            parts.topic_end - parts.topic != topic_bytes
            or memcmp(topic, data + parts.topic, topic_bytes) != 0
        ):
            topic, topic_bytes = data + parts.topic, parts.topic_end - parts.topic
            name = topics.get(PyBytes_FromStringAndSize(<const char *>topic, topic_bytes))
            if type(name) is not str or name == _schedule_topic or name == _timer_topic:
                return False
            found = -1
        queue = <int32_t>get32(data + at + 12)
        offset = <int64_t>get64(data + at + 20)
        if queue < 0:
            return False
        if found < 0 or walk.runs[found].queue != queue:
            found = walk.find(topic, topic_bytes, queue)
        if found < 0 or walk.runs[found].following != offset:
            found = walk.open(topic, topic_bytes, queue)
            run = &walk.runs[found]
            run.topic_hash = 31 * hash_text(0, name) + 35
            run.first, run.log_at = offset, at
            walk.topics.append(name)
        run = &walk.runs[found]
        run.following = offset + 1
        run.count += 1
        walk.run_of_record[number] = found
        number += 1
        at += parts.size
    return True


cdef list made_runs(Walk walk, int64_t begin):
    """The runs as objects, with room for their entries."""
    cdef list runs = []
    cdef Run *run
    cdef int number
    for number in range(walk.count):
        run = &walk.runs[number]
        made = _queue_run(walk.topics[number], run.queue, run.first, begin + run.log_at)
        made.next = run.following
        entries = PyBytes_FromStringAndSize(NULL, run.count * ENTRY_BYTES)
        run.to = <uint8_t *>PyBytes_AS_STRING(entries)
        made.entries = entries
        runs.append(made)
    return runs


cdef object derive_walked(
    const uint8_t *data, Py_ssize_t length, int64_t begin, Walk walk, bint tags, wanted
):
    """What follows, once runs are found; None if something is for Python."""
    cdef Parts parts
    cdef Names names
    cdef Run *run
    cdef const uint8_t *stored
    cdef const uint8_t *text_end
    cdef Py_ssize_t at = 0, count = 0, start, end
    cdef bytearray keys = bytearray()
    cdef list arrivals = [], runs = made_runs(walk, begin)
    cdef int32_t code
    while at < length:
        if not find_parts(data, at, length, &parts):
            return None
        run = &walk.runs[walk.run_of_record[count]]
        text_end = data + parts.stop
        if has_seal_name(data + at, parts.size):
            text_end -= SEAL_BYTES
        if text_end < data + parts.properties:
            return None
        read_names(data + parts.properties, text_end, &names)
        stored = data + at + 48 + parts.born_bytes
        code = 0
        if names.tag != NULL:
            if not is_ascii(names.tag, names.tag_bytes):
                return None
            code = <int32_t>hash_on(0, names.tag, names.tag_bytes)
        put64(run.to, <uint64_t>(begin + at))
        put32(run.to + 8, <uint32_t>parts.size)
        put64(run.to + 12, <uint64_t><int64_t>code)
        run.to += ENTRY_BYTES
        if names.unique != NULL:
            if not is_ascii(names.unique, names.unique_bytes):
                return None
            add_key(
                keys, hash_on(run.topic_hash, names.unique, names.unique_bytes), begin + at, stored
            )
        if names.keys != NULL:
            if not is_ascii(names.keys, names.keys_bytes):
                return None
            start = 0
            for end in range(names.keys_bytes + 1):
                if end == names.keys_bytes or names.keys[end] == c" ":
                    if end > start:
                        add_key(
                            keys, hash_on(run.topic_hash, names.keys + start, end - start),
                            begin + at, stored,
                        )
                    start = end + 1
        if tags and names.tag != NULL:
            add_key(
                keys,
                hash_on(
                    hash_on(run.topic_hash, <const uint8_t *>b"T#", 2), names.tag, names.tag_bytes
                ),
                begin + at, stored,
            )
        if speaks_of_delivery(data + parts.properties, text_end - data - parts.properties):
            return None
        if wanted is None or (wanted and walk.topics[walk.run_of_record[count]] in wanted):
            arrivals.append((
                walk.topics[walk.run_of_record[count]], run.queue, <int64_t>get64(data + at + 20),
                code, <int64_t>get64(stored),
                PyBytes_FromStringAndSize(
                    <const char *>data + parts.properties, text_end - data - parts.properties
                ),
            ))
        count += 1
        at += parts.size
    return _derivation(count, runs, bytes(keys), [], arrivals)


def derive_bytes(bytes data not None, at, topics, level_delays_ms, bint index_tags, wanted):
    cdef Py_ssize_t length = PyBytes_GET_SIZE(data)
    cdef int64_t begin = 0
    cdef Walk walk = Walk(length // MIN_RECORD_BYTES + 1)
    found = None
    if _derivation is None:
        know_derivation()
    if fits_place(at, &begin) and find_runs(raw(data), length, walk, topics):
        found = derive_walked(raw(data), length, begin, walk, index_tags, wanted)
    if found is None:
        return pure["derive_bytes"](data, at, topics, level_delays_ms, index_tags, wanted)
    return found
