# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""The compiled twin of ``fast_path.turn``: a turn's sends without an object for each.

Bodies stay where they were read, and so do the properties of batches; those of single messages,
which JSON escapes, are written down. What is at all unusual is left to the class in Python, found in
``pure``, which gets all that was kept before.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.unicode cimport PyUnicode_DecodeASCII

from rocketpipe.broker.fast_path._turn_parts cimport *
from rocketpipe.broker.intake._plain_texts cimport *
from rocketpipe.protocol._send_header cimport *

from rocketpipe.broker.intake.sent_properties import SPECIAL
from rocketpipe.model.flags import INNER_BATCH
from rocketpipe.protocol.codes import OUR_VERSION
from rocketpipe.store.log.commit_log import filler
from rocketpipe.store.log.puts import Encoded, Put

TWINS = ("Turn",)
MADE_FROM = ROCKETPIPE_SOURCE.decode()
#: The class that this stands for.
pure = {}

prepare_crc32()

cdef int64_t _inner_batch = int(INNER_BATCH)
cdef int64_t _version = int(OUR_VERSION)


cdef OddNames _odd
cdef list _names = [name.encode() + b"\x01" for name in sorted(SPECIAL)]
for _name in _names:
    add_name(&_odd, raw(_name), PyBytes_GET_SIZE(_name))


cdef class Tables:
    """Topics and queues by numbers, while records are made; they go with their owner."""

    cdef Topic *topics
    cdef QueueCount *counts
    cdef Py_ssize_t places
    cdef list heads

    def __cinit__(self, Py_ssize_t most, list topics, head_of):
        self.places = 16
        while self.places < 2 * most:
            self.places *= 2
        self.heads = [head_of(topic) for topic in topics]
        self.topics = <Topic *>PyMem_Calloc(len(topics) + 1, sizeof(Topic))
        self.counts = <QueueCount *>PyMem_Calloc(self.places, sizeof(QueueCount))
        if self.topics == NULL or self.counts == NULL:
            raise MemoryError
        for number, (magic, head) in enumerate(self.heads):
            self.topics[number].magic = magic
            self.topics[number].head = raw(head)
            self.topics[number].head_bytes = PyBytes_GET_SIZE(head)

    def __dealloc__(self):
        PyMem_Free(self.topics)
        PyMem_Free(self.counts)


cdef class Turn:
    cdef object known
    cdef bytes suffix
    cdef Request *requests
    cdef Message *messages
    cdef uint8_t *texts
    cdef Py_ssize_t request_count, request_most, message_count, message_most
    cdef Py_ssize_t texts_used, texts_most
    #: For each read what it brought, from whom, and that peer's host; and the topics.
    cdef list buffers, peers, hosts, topics, counts
    cdef dict numbers
    #: The topic of the send before: its number, its name, and how many queues it has.
    cdef int topic
    cdef const uint8_t *topic_name
    cdef Py_ssize_t topic_bytes, queues, max_body_bytes
    #: The turn in Python, once there is something in it that is unusual.
    cdef object slow
    cdef readonly Py_ssize_t size

    def __cinit__(self, known):
        self.known = known
        self.suffix = known.suffix
        self.buffers, self.peers, self.hosts, self.topics, self.counts = [], [], [], [], []
        self.numbers = {}
        self.topic = -1
        self.max_body_bytes = known.max_body_bytes
        if len(self.suffix) > MAX_SUFFIX or b"#" in self.suffix:
            self.slow = pure["Turn"](known)

    def __dealloc__(self):
        PyMem_Free(self.requests)
        PyMem_Free(self.messages)
        PyMem_Free(self.texts)

    def __len__(self):
        return self.request_count + (len(self.slow) if self.slow is not None else 0)

    def another(self):
        return Turn(self.known)

    def take(
        self, bytes buffer not None, Py_ssize_t at, Py_ssize_t end, Py_ssize_t max_frame_bytes,
        peer, bytes born_host not None,
    ):
        cdef const uint8_t *data = raw(buffer)
        cdef Py_ssize_t length, body, stop, first = self.request_count
        cdef int kept
        cdef bint begun = False
        if at < 0 or end > PyBytes_GET_SIZE(buffer) or PyBytes_GET_SIZE(born_host) not in (8, 20):
            raise ValueError("no such bytes")
        while end - at >= 8 and self.size <= TURN_BYTES:
            length = <int32_t>get32(data + at)
            stop = at + 4 + length
            body = at + 8 + (get32(data + at + 4) & 0x00FFFFFF)
            if length < 4 or length > max_frame_bytes - 4 or stop > end or body > stop:
                break
            if data[at + 4]:
                break
            kept = ODD
            if self.slow is None:
                if not begun:
                    self.buffers.append(buffer)
                    self.peers.append(peer)
                    self.hosts.append(born_host)
                    begun = True
                kept = self.take_frame(data, at, body, stop)
            if kept == ODD:
                how = (max_frame_bytes, peer, born_host)
                if self.slow is None and pure["Turn"](self.known).take(buffer, at, stop, *how) == at:
                    break
                self.give_up()
                if self.slow.take(buffer, at, stop, *how) == at:
                    break
            elif kept == OTHER:
                break
            self.size += stop - body
            at = stop
        if begun and first == self.request_count:  # or a turn without a send would grow with each read
            self.buffers.pop(), self.peers.pop(), self.hosts.pop()
        return at

    cdef int take_frame(
        self, const uint8_t *data, Py_ssize_t at, Py_ssize_t body, Py_ssize_t end
    ) except -1:
        """Keep one frame, or say what it is."""
        cdef Send send
        cdef SendNumbers numbers
        cdef Request *request
        cdef uint8_t text[MAX_TEXT + 1]
        cdef Py_ssize_t length, key, key_end, first = self.message_count
        cdef int kept
        if (
            body < at + 20
            or (
                memcmp(data + at + 8, b'{"code":310,', 12) != 0
                and memcmp(data + at + 8, b'{"code":320,', 12) != 0
            )
            or end - body > self.max_body_bytes
        ):
            return OTHER
        if not read_header(data + at + 20, data + body, &send) or not read_numbers(&send, &numbers):
            return ODD
        if numbers.sys_flag & _inner_batch:
            return OTHER
        length = unescape(&send.fields[PROPERTIES], text)
        if length < 0:
            return ODD
        if not self.find_topic(&send.fields[TOPIC]) or numbers.queue >= self.queues:
            return OTHER
        if not is_plain(&_odd, text, length, &key, &key_end):
            return OTHER
        # Texts that are written down stay where they are, one behind the other.
        key += self.texts_used
        key_end += self.texts_used
        if numbers.batch:
            kept = self.take_batch(data, body, end)
            if kept == KEPT and key < key_end:
                self.write_down(text, length)
        elif key == key_end:
            kept = OTHER
        elif memchr(text, c"#", length) != NULL:
            kept = ODD  # only the store writes some names that have one
        else:
            kept = KEPT
            self.keep_single(text, length, data + body, end - body, <int32_t>numbers.flag)
        if kept == KEPT and self.message_count == first:
            kept = OTHER
        if kept != KEPT:
            self.message_count = first
            return kept
        if self.request_count == self.request_most:
            self.requests = <Request *>grown(
                self.requests, &self.request_most, self.request_count + 1, sizeof(Request)
            )
        request = &self.requests[self.request_count]
        request.opaque, request.oneway = send.opaque, send.rpc_flag != 0
        request.born, request.queue = numbers.born, <int32_t>numbers.queue
        host = self.hosts[len(self.hosts) - 1]
        request.host, request.host_bytes = raw(host), PyBytes_GET_SIZE(host)
        request.sys_flag = <int32_t>(
            numbers.sys_flag & ~<int64_t>(BORN_V6 | STORE_V6 | HALF_BITS)
        )
        if request.host_bytes > 8:
            request.sys_flag |= BORN_V6
        request.at, request.body, request.end = at, body, end
        request.key, request.key_bytes = key, key_end - key
        request.from_ = <int>len(self.buffers) - 1
        request.first, request.count = <int>first, <int>(self.message_count - first)
        request.topic = self.topic
        self.request_count += 1
        return KEPT

    cdef bint find_topic(self, Text *name) except -1:
        """Find out the number of a topic and how many queues it has; false if it is not known."""
        if (
            self.topic >= 0
            and name.length == self.topic_bytes
            and memcmp(name.start, self.topic_name, name.length) == 0
        ):
            return True
        topic = PyUnicode_DecodeASCII(<const char *>name.start, name.length, NULL)
        queues = (<dict?>self.known.queues).get(topic)
        if queues is None:
            return False
        number = self.numbers.get(topic)
        if number is None:
            number = self.numbers[topic] = len(self.topics)
            self.topics.append(topic)
        self.topic, self.queues = number, queues
        # It stays where it is as long as this does, with the read that brought it.
        self.topic_name, self.topic_bytes = name.start, name.length
        return True

    cdef Message *another_message(self) except NULL:
        if self.message_count == self.message_most:
            self.messages = <Message *>grown(
                self.messages, &self.message_most, self.message_count + 1, sizeof(Message)
            )
        self.message_count += 1
        return &self.messages[self.message_count - 1]

    cdef int keep_single(
        self, const uint8_t *text, Py_ssize_t length, const uint8_t *body, Py_ssize_t body_bytes,
        int32_t flag,
    ) except -1:
        """Keep a message whose properties do not stay where they are."""
        cdef Message *message = self.another_message()
        message.body, message.body_bytes = body, <int32_t>body_bytes
        message.text, message.text_at, message.text_bytes = NULL, self.texts_used, <int32_t>length
        message.flag = flag
        return self.write_down(text, length)

    cdef int write_down(self, const uint8_t *text, Py_ssize_t length) except -1:
        if self.texts_used + length > self.texts_most:
            self.texts = <uint8_t *>grown(
                self.texts, &self.texts_most, self.texts_used + length, 1
            )
        memcpy(self.texts + self.texts_used, text, length)
        self.texts_used += length
        return 0

    cdef int take_batch(self, const uint8_t *data, Py_ssize_t at, Py_ssize_t end) except -1:
        """Keep the messages of a batch; see `record.batch` for its bytes."""
        cdef Message *message
        cdef BatchEntry entry
        while at < end:
            at = next_entry(data, at, end, &entry)
            if at < 0 or not is_plain_entry(&_odd, &entry):
                return OTHER
            if memchr(entry.text, c"#", entry.text_bytes) != NULL:
                return ODD
            message = self.another_message()
            message.body, message.body_bytes = entry.body, entry.body_bytes
            message.text, message.text_bytes = entry.text, entry.text_bytes
            message.flag = entry.flag
        return KEPT

    def keep(self, puts, peer, opaque, queue_id, unique_key, buffer, frame, recall_handle=""):
        self.give_up()
        self.slow.keep(puts, peer, opaque, queue_id, unique_key, buffer, frame, recall_handle)
        self.size += frame[2] - frame[1]

    cdef int give_up(self) except -1:
        """Have everything in Python from now on."""
        cdef Request *request
        cdef Py_ssize_t number
        if self.slow is not None:
            return 0
        slow = pure["Turn"](self.known)
        for number in range(self.request_count):
            request = &self.requests[number]
            slow.keep(
                self.puts_of(request), self.peers[request.from_],
                None if request.oneway else request.opaque, request.queue, self.key_of(request),
                self.buffers[request.from_], (request.at, request.body, request.end),
            )
        self.request_count = self.message_count = self.texts_used = 0
        self.slow = slow
        return 0

    cdef str key_of(self, Request *request):
        if not request.key_bytes:
            return ""
        return PyUnicode_DecodeASCII(
            <const char *>self.texts + request.key, request.key_bytes, NULL
        )

    cdef const uint8_t *text_of(self, int number) noexcept:
        cdef Message *message = &self.messages[number]
        return message.text if message.text != NULL else self.texts + message.text_at

    cdef list puts_of(self, Request *request):
        cdef Message *message
        cdef list puts = []
        cdef int each
        for each in range(request.first, request.first + request.count):
            message = &self.messages[each]
            text = self.text_of(each)[: message.text_bytes]
            if not text.endswith(b"\x02"):
                text += b"\x02"
            puts.append(Put(
                self.topics[request.topic], request.queue, message.body[: message.body_bytes],
                text + self.suffix, message.flag, request.sys_flag, request.born,
                self.hosts[request.from_],
            ))
        return puts

    @property
    def asked(self):
        self.give_up()
        return self.slow.asked

    def encode(self, appender, start, stored_ms):
        cdef int64_t at = 0, stored = 0
        found = None
        if (
            self.slow is None
            and fits_place(start, &at)
            and fits_long(stored_ms, &stored)
            and PyBytes_GET_SIZE(<bytes?>appender.store_host) in (8, 20)
        ):
            found = self.encode_within(appender, at, stored)
        if found is None:
            self.give_up()
            found = self.slow.encode(appender, start, stored_ms)
        return found

    cdef object encode_within(self, appender, int64_t start, int64_t stored):
        """Make records of all messages; None if they go beyond the next segment."""
        cdef int64_t segment = appender.segment_bytes, end, following_segment
        cdef Py_ssize_t cut = -1, used = 0
        cdef uint8_t *behind_cut = NULL
        cdef Draft draft
        cdef Tables tables = Tables(self.request_count, self.topics, appender.head_of)
        cdef list chunks
        store_host = appender.store_host
        draft.store_host, draft.store_bytes = raw(store_host), PyBytes_GET_SIZE(store_host)
        draft.suffix, draft.suffix_bytes = raw(self.suffix), PyBytes_GET_SIZE(self.suffix)
        draft.stored, draft.sealed = stored, appender.seal
        draft.reconsumed = draft.prepared = 0
        end = place_all(
            self.requests, self.request_count, self.messages, self.texts, tables.topics, &draft,
            start, segment, &cut, &used,
        )
        if end < 0:
            return None
        following = count_queues(
            self.requests, self.request_count, self.topics, appender.next_offset, tables.counts,
            tables.places,
        )
        if cut < 0:
            data = PyBytes_FromStringAndSize(NULL, end - start)
            chunks = [(start, data)]
        else:
            # The first segment is closed behind its last record.
            following_segment = start - start % segment + segment
            data = PyBytes_FromStringAndSize(NULL, used + FILLER_BYTES)
            closing = filler(following_segment - start - used)
            memcpy(PyBytes_AS_STRING(data) + used, PyBytes_AS_STRING(closing), FILLER_BYTES)
            rest = PyBytes_FromStringAndSize(NULL, end - following_segment)
            behind_cut = <uint8_t *>PyBytes_AS_STRING(rest)
            chunks = [(start, data), (following_segment, rest)]
        write_all(
            self.requests, self.request_count, self.messages, self.texts, tables.topics, &draft,
            <uint8_t *>PyBytes_AS_STRING(data), cut, behind_cut,
        )
        self.counts = [
            (
                topic, tables.topics[number].count, tables.topics[number].size,
                sizes_of(&tables.topics[number]),
            )
            for number, topic in enumerate(self.topics)
        ]
        last = self.messages[self.message_count - 1].at
        return Encoded(chunks, None, end, last, following)

    def tally(self):
        return self.counts if self.slow is None else self.slow.tally()

    @property
    def batches(self):
        if self.slow is not None:
            return self.slow.batches
        return count_batches(self.requests, self.request_count)

    def answers(self, code, bytes host not None, bytes tail not None):
        cdef Py_ssize_t number = 0, behind, most, used = self.texts_used
        cdef int64_t status = code
        cdef uint8_t *to
        cdef list told = []
        if self.slow is not None:
            return self.slow.answers(code, host, tail)
        while number < self.request_count:
            peer = self.peers[self.requests[number].from_]
            # All that one peer is told leaves together; it is written behind the texts.
            behind, most = number, used
            while (
                behind < self.request_count and self.peers[self.requests[behind].from_] is peer
            ):
                most += answer_bytes(&self.requests[behind], host, tail)
                behind += 1
            if most > self.texts_most:
                self.texts = <uint8_t *>grown(self.texts, &self.texts_most, most, 1)
            to = self.texts + used
            for number in range(number, behind):
                if not self.requests[number].oneway:
                    to = write_answer(
                        &self.requests[number], self.messages, self.texts, status, host, tail,
                        _version, to,
                    )
            most = to - self.texts - used
            if most:
                told.append((peer, (<const char *>self.texts + used)[:most]))
            number = behind
        return told
