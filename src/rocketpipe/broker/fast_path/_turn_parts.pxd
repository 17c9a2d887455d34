# The parts of a turn's twin: its sends and their messages as numbers and places, without objects.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Realloc

from rocketpipe.protocol._send_reply cimport *
from rocketpipe.record._raw cimport *
from rocketpipe.record._writing cimport *

cdef enum:
    TURN_BYTES = 4 << 20
    HALF_BITS = 0xC
    FILLER_BYTES = 8
    SIZE_BOUNDS = 6
    SMALL_BYTES = 1024
    MAX_SUFFIX = 16384

cdef enum:
    # What becomes of a frame: it is kept, it is another kind of send, it is for Python.
    KEPT = 0
    OTHER = 1
    ODD = 2

cdef struct Message:
    # Properties lie at ``text``, or at a place among those that were written down.
    const uint8_t *body
    const uint8_t *text
    Py_ssize_t text_at
    int32_t body_bytes
    int32_t text_bytes
    int32_t flag
    int64_t at

cdef struct Request:
    # A send of one message or of several; what is an object lies in a list under its number.
    int64_t opaque
    int64_t born
    int64_t queue_offset
    Py_ssize_t at
    Py_ssize_t body
    Py_ssize_t end
    int32_t queue
    int32_t sys_flag
    # Of its unique key, among the texts that were written down.
    Py_ssize_t key
    Py_ssize_t key_bytes
    const uint8_t *host
    Py_ssize_t host_bytes
    int topic
    int from_
    int first
    int count
    bint oneway

cdef struct QueueCount:
    # The next offset of a queue, as this turn goes on.
    int32_t queue
    int topic
    int64_t next
    bint used

cdef struct Topic:
    const uint8_t *head
    Py_ssize_t head_bytes
    int32_t magic
    Py_ssize_t count
    Py_ssize_t size
    # How many are how large, by the bounds of ``broker.counts``; those within the first are left out.
    Py_ssize_t large
    Py_ssize_t sizes[SIZE_BOUNDS + 1]


cdef inline void *grown(void *there, Py_ssize_t *most, Py_ssize_t wanted, size_t size) except NULL:
    """Room for so many things of a size; what is there moves, and stays as it is."""
    cdef Py_ssize_t count = max(most[0], <Py_ssize_t>32)
    while count < wanted:
        count *= 2
    there = PyMem_Realloc(there, count * size)
    if there == NULL:
        raise MemoryError
    most[0] = count
    return there


cdef inline QueueCount *count_of(
    QueueCount *counts, Py_ssize_t places, int topic, int32_t queue
) noexcept:
    """The place of a queue in a table of twice as many places as there are queues, or more."""
    cdef Py_ssize_t place = (<uint32_t>queue * 0x9E3779B1u + <uint32_t>topic * 0x85EBCA77u) & (
        places - 1
    )
    while counts[place].used and (counts[place].queue != queue or counts[place].topic != topic):
        place = (place + 1) & (places - 1)
    return &counts[place]


cdef inline dict count_queues(
    Request *requests, Py_ssize_t count, list topics, next_offset, QueueCount *counts,
    Py_ssize_t places,
):
    """Give each send its place in its queue; says where queues go on."""
    cdef QueueCount *counted
    cdef Py_ssize_t number
    cdef dict following = {}
    for number in range(count):
        counted = count_of(counts, places, requests[number].topic, requests[number].queue)
        if not counted.used:
            counted.topic, counted.queue = requests[number].topic, requests[number].queue
            counted.next = next_offset(topics[counted.topic], counted.queue)
            counted.used = True
        requests[number].queue_offset = counted.next
        counted.next += requests[number].count
    for number in range(places):
        if counts[number].used:
            queues = following.setdefault(topics[counts[number].topic], {})
            queues[counts[number].queue] = counts[number].next
    return following


cdef inline void draft_of(
    const Request *request, const Message *message, const uint8_t *texts, const Topic *topics,
    Draft *draft,
) noexcept:
    """Have a draft be of one message; hosts of the store, suffix and times are there."""
    draft.magic = topics[request.topic].magic
    draft.topic, draft.topic_bytes = topics[request.topic].head, topics[request.topic].head_bytes
    draft.queue, draft.born = request.queue, request.born
    draft.born_host, draft.born_bytes = request.host, request.host_bytes
    draft.sys_flag = request.sys_flag | (STORE_V6 if draft.store_bytes > 8 else 0)
    draft.flag, draft.at = message.flag, message.at
    draft.body, draft.body_bytes = message.body, message.body_bytes
    draft.text = message.text if message.text != NULL else texts + message.text_at
    draft.text_bytes = message.text_bytes
    draft.ended = draft.text[draft.text_bytes - 1] != 2
    draft.mark_bytes = MARK_BYTES if request.count > 1 else 0


cdef inline int64_t place_all(
    const Request *requests, Py_ssize_t count, Message *messages, const uint8_t *texts,
    const Topic *topics, Draft *draft, int64_t at, int64_t segment, Py_ssize_t *cut,
    Py_ssize_t *used,
) noexcept:
    """Give each message its place in the log, from ``at`` on; says where the last one ends.

    ``cut`` is the first that goes into the next segment, −1 if none does, and ``used`` how many
    bytes those before it have. The result is −1 if one fits into no segment, or they go beyond the
    next.
    """
    cdef Py_ssize_t number, size
    cdef int64_t start = at
    cdef int64_t limit = at - at % segment + segment - FILLER_BYTES
    cdef int each
    cut[0] = -1
    for number in range(count):
        for each in range(requests[number].first, requests[number].first + requests[number].count):
            draft_of(&requests[number], &messages[each], texts, topics, draft)
            size = record_bytes(draft)
            if at + size > limit:
                if cut[0] >= 0 or size > segment - FILLER_BYTES:
                    return -1
                cut[0], used[0] = each, at - start
                at = limit + FILLER_BYTES
                limit += segment
            messages[each].at = at
            at += size
    return at


cdef inline void note_large(Topic *topic, int32_t size) noexcept:
    """Count a record that is larger than most."""
    cdef int place = 6
    if size <= 4096:
        place = 1
    elif size <= 524288:
        place = 2
    elif size <= 1048576:
        place = 3
    elif size <= 2097152:
        place = 4
    elif size <= 4194304:
        place = 5
    topic.large += 1
    topic.sizes[place] += 1


cdef inline list sizes_of(const Topic *topic):
    """How many messages of a topic are how large; None if all are small."""
    cdef int place
    if not topic.large:
        return None
    cdef list sizes = [topic.sizes[place] for place in range(SIZE_BOUNDS + 1)]
    sizes[0] = topic.count - topic.large
    return sizes


cdef inline Py_ssize_t count_batches(const Request *requests, Py_ssize_t count) noexcept:
    """How many sends have several messages."""
    cdef Py_ssize_t number, several = 0
    for number in range(count):
        several += requests[number].count > 1
    return several


cdef inline void write_all(
    const Request *requests, Py_ssize_t count, const Message *messages, const uint8_t *texts,
    Topic *topics, Draft *draft, uint8_t *to, Py_ssize_t cut, uint8_t *behind_cut,
) noexcept:
    """Write the records of messages that have their places, those from ``cut`` on elsewhere."""
    cdef uint8_t mark[MARK_BYTES]
    cdef const Request *request
    cdef Topic *topic
    cdef Py_ssize_t number
    cdef int each, behind
    draft.mark = mark
    for number in range(count):
        request = &requests[number]
        behind = request.first + request.count
        if request.count > 1:
            draft_of(request, &messages[behind - 1], texts, topics, draft)
            write_mark(
                mark, messages[request.first].at, messages[behind - 1].at + record_bytes(draft)
            )
        topic = &topics[request.topic]
        topic.count += request.count
        for each in range(request.first, behind):
            draft_of(request, &messages[each], texts, topics, draft)
            draft.size = <int32_t>record_bytes(draft)
            draft.queue_offset = request.queue_offset + each - request.first
            if each == cut:
                to = behind_cut
            write_record(draft, to)
            to += draft.size
            topic.size += draft.size
            if draft.size > SMALL_BYTES:
                note_large(topic, draft.size)


cdef inline Py_ssize_t answer_bytes(const Request *request, bytes host, bytes tail) noexcept:
    """How long the answer to a send is at most."""
    return (
        REPLY_BYTES
        + request.count * (PyBytes_GET_SIZE(host) + 17)
        + request.key_bytes
        + PyBytes_GET_SIZE(tail)
    )


cdef inline uint8_t *write_answer(
    const Request *request, const Message *messages, const uint8_t *texts, int64_t code,
    bytes host, bytes tail, int64_t version, uint8_t *frame,
) noexcept:
    """Write what a peer is told of a send that was stored."""
    cdef const uint8_t *key = NULL
    cdef uint8_t *to = begin_reply(frame, code)
    cdef int number, last = request.first + request.count - 1
    for number in range(request.first, last):
        to = write_id(to, raw(host), PyBytes_GET_SIZE(host), messages[number].at)
        to[0] = c","
        to += 1
    to = write_id(to, raw(host), PyBytes_GET_SIZE(host), messages[last].at)
    if request.key_bytes:
        key = texts + request.key
    return end_reply(
        frame, to, request.queue, request.queue_offset, key, request.key_bytes, raw(tail),
        PyBytes_GET_SIZE(tail), request.opaque, version,
    )
