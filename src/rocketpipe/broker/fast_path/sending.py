"""Plain sends: checked as they come, stored together at the end of the turn.

A send is plain when its properties ask for nothing but to be stored, and its topic is one about
which there is nothing more to say. Any other is left to ``handlers.sending``.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from rocketpipe.broker.fast_path.frames import KEPT_BITS, MAX_REST_BYTES, cut_key, read_plain
from rocketpipe.broker.fast_path.outbox import Outbox
from rocketpipe.broker.intake.admission import Admission
from rocketpipe.broker.intake.intake import unavailable
from rocketpipe.broker.intake.room import PLAIN_ROOM, Room
from rocketpipe.broker.intake.sent_properties import BrokerProperties, asks_nothing, plain_key
from rocketpipe.broker.intake.visibility import Visibility
from rocketpipe.broker.replication.standing import STORED, Acknowledging
from rocketpipe.broker.stats import Stats
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.errors import RecordError, RequestRejected, RocketPipeError, StoreError
from rocketpipe.model.flags import BORN_HOST_V6, INNER_BATCH
from rocketpipe.model.names import NOT_SENDABLE, is_retry_topic
from rocketpipe.model.offsets import LogOffset
from rocketpipe.model.properties import UNIQ_KEY
from rocketpipe.model.topic import (
    CLEANUP_POLICY,
    MESSAGE_TYPE,
    MessageType,
    TopicFilterType,
    TopicSettings,
)
from rocketpipe.protocol.codes import RequestCode, ResponseCode
from rocketpipe.protocol.command import Command, refusal
from rocketpipe.protocol.connection import Frame
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.protocol.hot import message_ids, read_send, send_reply, send_reply_tail
from rocketpipe.record.batch import split_batch
from rocketpipe.record.layout import MAX_PROPERTIES_BYTES
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.store.config import FlushMode
from rocketpipe.store.log.batch_puts import puts_of_batch
from rocketpipe.store.log.puts import Appended, Put
from rocketpipe.store.message_store import MessageStore

#: With so much to store, a turn is long enough.
TURN_BYTES: Final = 4 << 20
_KEY: Final = f"{UNIQ_KEY}\x01"
_RAW_KEY: Final = _KEY.encode()
_KEY_BYTES: Final = 32
#: Messages of a batch mostly differ in their keys alone: what stands before a key and was found
#: plain once need not be looked at again. So many such texts are kept, no longer than this.
_MAX_HEADS: Final = 1024
_HEAD_BYTES: Final = 128
_new_tuple: Final = tuple.__new__


class _Asked(NamedTuple):
    """One send that waits for the end of the turn, with what it takes to begin anew."""

    peer: PeerConnection
    #: None if nobody waits for an answer.
    opaque: int | None
    queue_id: int
    unique_key: str
    buffer: bytes
    frame: Frame


class SendFastPath:
    """Stores plain sends, those of a whole turn with one write."""

    def __init__(
        self,
        store: MessageStore,
        visibility: Visibility,
        admission: Admission,
        stamp: BrokerProperties,
        outgoing: Outbox,
        topics: TopicTable,
        *,
        store_host: bytes,
        max_body_bytes: int,
        stats: Stats | None = None,
    ) -> None:
        self._stats = stats
        self._store = store
        self._visibility = visibility
        self._standing = visibility.standing
        self._admission = admission
        self._outgoing = outgoing
        self._topics = topics
        #: The queues of each topic that plain sends may name, as of a version of the topics.
        self._queues: dict[str, int] = {}
        self._queues_of: object = None
        self._sync = store.config.flush is FlushMode.SYNC
        self._suffix = stamp.suffix
        self._max_properties = MAX_PROPERTIES_BYTES - PLAIN_ROOM - len(stamp.suffix) - 1
        #: What is longer may be too long for the log's files, with all that belongs to it.
        self._any_body = Room(store.commit_log.segment_bytes).any_body_bytes
        self._max_body = min(max_body_bytes, self._any_body)
        self._host = store_host.hex().upper().encode()
        self._tail = send_reply_tail(stamp.region, stamp.trace_on)
        self._heads: set[bytes] = set()
        self._rests: set[bytes] = set()
        self._asked: list[_Asked] = []
        self._groups: list[list[Put]] = []
        self._bytes = 0
        self._settling: set[asyncio.Task[None]] = set()
        #: Turns whose sends replicas do not have yet, and who waits for the last of those.
        self._unacknowledged = 0
        self._all_acknowledged: asyncio.Future[None] | None = None

    def limit_bodies(self, max_body_bytes: int) -> None:
        """Leave longer bodies than this to the router, which refuses them."""
        self._max_body = min(max_body_bytes, self._any_body)

    def take(self, buffer: bytes, frame: Frame, peer: PeerConnection) -> bool:
        """Keep a send for the end of the turn; False if it is for the router."""
        at, body, end = frame
        queues, host, suffix = self._queues, peer.packed_host, self._suffix
        if self._topics.version is not self._queues_of:
            queues.clear()
            self._queues_of = self._topics.version
        known = read_plain(buffer, at, body, end, queues, self._rests, suffix, self._max_body, host)
        if known is not None:
            opaque, queue_id, unique_key, put = known
            self._keep([put], (peer, opaque, queue_id, unique_key, buffer, frame), end - body)
            return True
        header = read_send(buffer, at, body)
        if header is None:
            return False
        fields = header.fields
        queue_id, text, size = fields.queue_id, fields.properties, end - body
        most = queues.get(fields.topic)
        if most is None:
            most = plain_queues(self._topics.get(fields.topic))
            if not most:
                return False
            queues[fields.topic] = most
        unique_key = plain_key(text) or ""
        # A batch need not have a key: its messages have theirs.
        if (
            not (unique_key or (fields.batch and asks_nothing(text) and _KEY not in text))
            or not 0 <= queue_id < most
            or fields.reconsume_times
            or fields.sys_flag & INNER_BATCH
            or size > self._max_body
            or not (text.isascii() and unique_key.isprintable())
            or len(text) > self._max_properties
            or '"' in unique_key
            or "\\" in unique_key
        ):
            return False
        sys_flag = fields.sys_flag & KEPT_BITS | (BORN_HOST_V6 if len(host) > 8 else 0)
        topic, born_ms = fields.topic, fields.born_ms
        if fields.batch:
            puts = self._batch(buffer[body:end], topic, queue_id, sys_flag, born_ms, host)
            if not puts:
                return False
        else:
            raw = text.encode()
            self._learn(raw)
            raw = raw + suffix if raw[-1] == 2 else b"%b\x02%b" % (raw, suffix)
            data, flag = buffer[body:end], fields.flag
            puts = [Put(topic, queue_id, data, raw, flag, sys_flag, born_ms, host)]
        opaque = None if header.flag else header.opaque
        self._keep(puts, (peer, opaque, queue_id, unique_key, buffer, frame), size)
        return True

    def _keep(self, puts: list[Put], asked: tuple[object, ...], size: int) -> None:
        self._groups.append(puts)
        self._asked.append(_new_tuple(_Asked, asked))
        self._bytes += size
        if self._bytes > TURN_BYTES:
            self.store()

    def _learn(self, raw: bytes) -> None:
        """Remember plain properties but for their key, by which the next ones are known."""
        rest, _ = cut_key(raw)
        if len(rest) <= MAX_REST_BYTES:
            if len(self._rests) >= _MAX_HEADS:
                self._rests.clear()
            self._rests.add(rest)

    def _batch(
        self,
        body: bytes,
        topic: str,
        queue_id: int,
        sys_flag: int,
        born_ms: int,
        born_host: bytes,
    ) -> list[Put]:
        """The messages of a batch; nothing if one is not plain."""
        to = (topic, queue_id, sys_flag, born_ms, born_host)
        puts = puts_of_batch(body, self._max_body, self._heads, *to, self._suffix)
        if puts is not None:
            return puts
        return [
            Put(topic, queue_id, data, raw + self._suffix, flag, sys_flag, born_ms, born_host)
            for flag, data, raw in self._plain(body)
        ]

    def _plain(self, body: bytes) -> list[tuple[int, bytes, bytes]]:
        """Flag, body and properties of each message of a batch; nothing if one is not plain."""
        try:
            messages = split_batch(body, self._max_body)
        except RecordError:
            return []
        heads = self._heads
        for number, (flag, data, raw) in enumerate(messages):
            if plain_key(raw.decode("latin-1")) is None or len(raw) > self._max_properties:
                return []
            head, _, key = raw.rpartition(_RAW_KEY)
            if raw[-1] != 2:
                messages[number] = (flag, data, raw + b"\x02")
            elif len(key) == _KEY_BYTES + 1 and key[:-1].isalnum() and len(head) <= _HEAD_BYTES:
                if len(heads) >= _MAX_HEADS:
                    heads.clear()
                heads.add(head)
        return messages

    def store(self) -> bool:
        """Store what was kept, and post the answers, or have them posted once it is durable.

        True when something was stored that is to be dispatched now.
        """
        asked, self._asked = self._asked, []
        if not asked:
            return False
        groups, self._groups = self._groups, []
        self._bytes = 0
        if self._admission.refusal() is not None:
            self._give_back(asked)
            return False
        try:
            began_ms = self._stats.now_ms if self._stats is not None else 0
            placed = self._store.append(groups)
        except RocketPipeError:
            # One of them is to blame, or the disk: the router finds out which, one by one.
            self._give_back(asked)
            return False
        if self._stats is not None:
            self._stats.stored_in(self._stats.now_ms - began_ms)
            _count(self._stats, groups, placed)
        if self._sync:
            self._settle_later(asked, placed)
            return False
        if self._standing.followers is not None:
            self._acknowledge(self._standing.followers, asked, placed)
            # What is acknowledged is dispatched by those who find that out.
            return not self._unacknowledged
        self._answer(asked, placed, ResponseCode.SUCCESS)
        return True

    def _settle_later(self, asked: list[_Asked], placed: list[list[Appended]]) -> None:
        task = asyncio.ensure_future(self._settle(asked, placed))
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    def _acknowledge(
        self, followers: Acknowledging, asked: list[_Asked], placed: list[list[Appended]]
    ) -> None:
        """Have a turn's sends answered together, once replicas have them."""
        self._unacknowledged += 1

        def done(code: int, remark: str) -> None:
            self._unacknowledged -= 1
            if code in STORED:
                self._answer_or_refuse(asked, placed, code)
            else:
                self._refuse(asked, RequestRejected(code, remark))
            self._outgoing.flush()
            if not self._unacknowledged and self._all_acknowledged is not None:
                self._all_acknowledged.set_result(None)
                self._all_acknowledged = None

        followers.when_acknowledged(_end(placed), done)

    async def finish(self) -> None:
        """Wait until everything that was stored is answered."""
        self.store()
        if self._settling:
            await asyncio.wait(self._settling)
        if self._unacknowledged:
            if self._all_acknowledged is None:
                self._all_acknowledged = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._all_acknowledged)

    async def _settle(self, asked: list[_Asked], placed: list[list[Appended]]) -> None:
        try:
            code = await self._visibility.settled(_end(placed), wait=True)
        except StoreError as error:
            self._refuse(asked, unavailable(error))
        except RequestRejected as error:
            self._refuse(asked, error)
        else:
            self._answer_or_refuse(asked, placed, code)
        self._outgoing.flush()

    def _answer_or_refuse(
        self, asked: list[_Asked], placed: list[list[Appended]], code: int
    ) -> None:
        refusal = self._visibility.refused(code)
        if refusal is None:
            self._answer(asked, placed, code)
        else:
            self._refuse(asked, RequestRejected(*refusal))

    def _answer(self, asked: list[_Asked], placed: list[list[Appended]], code: int) -> None:
        host, tail, post = self._host, self._tail, self._outgoing.post
        for (peer, opaque, queue_id, key, _, _), stored in zip(asked, placed, strict=True):
            if opaque is None:
                continue
            own = b'"transactionId":"%b",%b' % (key.encode(), tail) if key else tail
            ids, (last, *_) = host, stored[-1]
            if len(stored) > 1:
                ids = message_ids(host, [each[0] for each in stored[:-1]])
            post(peer, send_reply(opaque, code, ids, last, queue_id, stored[0][2], own))

    def _refuse(self, asked: list[_Asked], why: RequestRejected) -> None:
        for each in asked:
            if each.opaque is not None:
                question = Command(code=RequestCode.SEND_MESSAGE_V2, opaque=each.opaque)
                answer = encode_frame(refusal(question, why.code, why.remark))
                self._outgoing.post(each.peer, answer)

    def _give_back(self, asked: list[_Asked]) -> None:
        for each in asked:
            each.peer.take(each.buffer, [each.frame])


def _end(placed: list[list[Appended]]) -> LogOffset:
    last = placed[-1][-1]
    return LogOffset(last.log_offset + last.size)


def _count(stats: Stats, groups: list[list[Put]], placed: list[list[Appended]]) -> None:
    """Tell what a turn stored: in one go where all of it is of one topic, as it mostly is."""
    topics = {group[0][0] for group in groups}
    first, last = placed[0][0], placed[-1][-1]
    if len(topics) == 1:
        size = last.log_offset + last.size - first.log_offset
        stats.put(topics.pop(), sum(map(len, groups)), size)
        return
    for group, stored in zip(groups, placed, strict=True):
        stats.put(group[0][0], len(stored), sum(each.size for each in stored))


def plain_queues(topic: TopicSettings | None) -> int:
    """How many queues a plain send to a topic may name; 0 if there is more to say about it."""
    if (
        topic is None
        or topic.name in NOT_SENDABLE
        or is_retry_topic(topic.name)
        or topic.ordered
        or topic.filter_type is not TopicFilterType.SINGLE_TAG
        or CLEANUP_POLICY in topic.attributes
        or topic.attributes.get(MESSAGE_TYPE) in (MessageType.DELAY, MessageType.TRANSACTION)
    ):
        return 0
    return max(topic.write_queues, topic.read_queues)
