"""Plain sends: checked as they come, stored together at the end of the turn.

A send is plain when its properties ask for nothing but to be stored, and its topic is one about
which there is nothing more to say. Those that wait before they show are stored together too, by
themselves: they are made in Python, and plain ones of their turn need not be. Any other is left to
``handlers.sending``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from rocketpipe.broker.counts import Answered
from rocketpipe.broker.delivery.single_sends import SingleSends
from rocketpipe.broker.fast_path.outbox import Outbox
from rocketpipe.broker.fast_path.turn import KEPT_BITS, TURN_BYTES, PlainSends, Turn
from rocketpipe.broker.fast_path.waiting_sends import WaitingSends
from rocketpipe.broker.intake.admission import Admission
from rocketpipe.broker.intake.intake import unavailable
from rocketpipe.broker.intake.message_type import waiting_type
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
from rocketpipe.protocol.hot import LongSendHeader, SendHeader, read_send, send_reply_tail
from rocketpipe.record.batch import split_batch
from rocketpipe.record.layout import MAX_PROPERTIES_BYTES
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.store.config import FlushMode
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore

_KEY: Final = f"{UNIQ_KEY}\x01"
_SENT: Final = Answered(RequestCode.SEND_MESSAGE_V2, ResponseCode.SUCCESS, waited=False)
_BATCH: Final = _SENT._replace(code=RequestCode.SEND_BATCH_MESSAGE)


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
        singles: SingleSends,
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
        #: The version of the topics that is known of.
        self._queues_of: object = None
        self._sync = store.config.flush is FlushMode.SYNC
        self._suffix = stamp.suffix
        self._max_properties = MAX_PROPERTIES_BYTES - PLAIN_ROOM - len(stamp.suffix) - 1
        #: What is longer may be too long for the log's files, with all that belongs to it.
        room = Room(store.commit_log.segment_bytes)
        self._any_body = room.any_body_bytes
        #: What a turn goes by where it takes sends by itself.
        self._known = PlainSends(stamp.suffix, min(max_body_bytes, self._any_body))
        self._turn = Turn(self._known)
        self._waiting = WaitingSends(singles, topics, room)
        #: Sends of this turn that wait before they show.
        self._aside = Turn(self._known)
        self._host = store_host.hex().upper().encode()
        self._tail = send_reply_tail(stamp.region, stamp.trace_on)
        #: Called when the first send of a turn was kept; `end_turn` is to follow.
        self.on_begin: Callable[[], None] = lambda: None
        self._begun = False
        #: Whether something was stored in this turn that is to be dispatched.
        self._stored = False
        self._settling: set[asyncio.Task[None]] = set()
        #: Turns whose sends replicas do not have yet, and who waits for the last of those.
        self._unacknowledged = 0
        self._all_acknowledged: asyncio.Future[None] | None = None

    def limit_bodies(self, max_body_bytes: int) -> None:
        """Leave longer bodies than this to the router, which refuses them."""
        self.store()
        self._known.max_body_bytes = min(max_body_bytes, self._any_body)
        self._turn = self._turn.another()

    def take_first(self, data: bytes, peer: PeerConnection) -> int:
        """Keep the sends with which a read begins, as long as they are plain and of the usual form.

        Gives where the first other frame starts.
        """
        if self._topics.version is not self._queues_of:
            self._look_anew()
        end, host = len(data), peer.known_host or peer.packed_host
        used = self._turn.take(data, 0, end, peer.max_frame_bytes, peer, host)
        if used and not self._begun:
            self._begun = True
            self.on_begin()
        if used < end and self._turn.size > TURN_BYTES:
            return self.take_plain(data, used, end, peer)
        return used

    def take_plain(self, buffer: bytes, at: int, end: int, peer: PeerConnection) -> int:
        """The same from ``at`` on, for who has the end of the turn set down."""
        if self._topics.version is not self._queues_of:
            self._look_anew()
        if self._turn.size > TURN_BYTES:
            self._store_early()
        used = self._turn.take(buffer, at, end, peer.max_frame_bytes, peer, peer.packed_host)
        if at < used < end and self._turn.size > TURN_BYTES:
            return self.take_plain(buffer, used, end, peer)
        return used

    def _look_anew(self) -> None:
        # What was kept by the topics as they were is stored as such.
        self.store()
        self._known.queues.clear()
        self._queues_of = self._topics.version

    def take(self, buffer: bytes, frame: Frame, peer: PeerConnection) -> bool:
        """Keep a send for the end of the turn; False if it is for the router."""
        if self._topics.version is not self._queues_of:
            self._look_anew()
        at, body, end = frame
        known, host, suffix = self._known, peer.packed_host, self._suffix
        header = read_send(buffer, at, body)
        if header is None:
            return False
        fields = header.fields
        queue_id, text, size = fields.queue_id, fields.properties, end - body
        unique_key = plain_key(text) or ""
        if not unique_key and not fields.batch:
            return self._take_aside(header, buffer, frame, peer)
        most = known.queues.get(fields.topic)
        if most is None:
            most = plain_queues(self._topics.get(fields.topic))
            if not most:
                return False
            known.queues[fields.topic] = most
        # A batch need not have a key: its messages have theirs.
        if (
            not (unique_key or (fields.batch and asks_nothing(text) and _KEY not in text))
            or not 0 <= queue_id < most
            or fields.reconsume_times
            or fields.sys_flag & INNER_BATCH
            or size > known.max_body_bytes
            or not text.isascii()
            or not _is_clean(unique_key)
            or len(text) > self._max_properties
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
            raw = raw + suffix if raw[-1] == 2 else b"%b\x02%b" % (raw, suffix)
            data, flag = buffer[body:end], fields.flag
            puts = [Put(topic, queue_id, data, raw, flag, sys_flag, born_ms, host)]
        opaque = None if header.flag else header.opaque
        self._turn.keep(puts, peer, opaque, queue_id, unique_key, buffer, frame)
        if self._turn.size > TURN_BYTES:
            self._store_early()
        return True

    def _take_aside(
        self, header: SendHeader | LongSendHeader, buffer: bytes, frame: Frame, peer: PeerConnection
    ) -> bool:
        """Keep a send that waits before it shows; False if it is for the router."""
        _, body, end = frame
        fields, aside = header.fields, self._aside
        if end - body > self._known.max_body_bytes or not fields.properties.isascii():
            return False
        waiting = self._waiting.read(fields, buffer[body:end], peer.packed_host)
        if waiting is None or not _is_clean(waiting.unique_key):
            return False
        opaque = None if header.flag else header.opaque
        put, key, handle = waiting
        aside.keep([put], peer, opaque, fields.queue_id, key, buffer, frame, handle)
        if aside.size > TURN_BYTES:
            self._store_early()
        return True

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
        return [
            Put(topic, queue_id, data, raw + self._suffix, flag, sys_flag, born_ms, born_host)
            for flag, data, raw in self._plain(body)
        ]

    def _plain(self, body: bytes) -> list[tuple[int, bytes, bytes]]:
        """Flag, body and properties of each message of a batch; nothing if one is not plain."""
        try:
            messages = split_batch(body, self._known.max_body_bytes)
        except RecordError:
            return []
        for number, (flag, data, raw) in enumerate(messages):
            if plain_key(raw.decode("latin-1")) is None or len(raw) > self._max_properties:
                return []
            if raw[-1] != 2:
                messages[number] = (flag, data, raw + b"\x02")
        return messages

    def end_turn(self) -> bool:
        """Store what is left of a turn; True if something was stored that is to be dispatched."""
        self._begun = False
        self.store()
        stored, self._stored = self._stored, False
        return stored

    def _store_early(self) -> None:
        """Store before the turn ends, and dispatch it too.

        What piles up beyond what the dispatcher keeps would be read back from the log.
        """
        self.store()
        if self._stored:
            self._stored = False
            self._visibility.dispatch()

    def store(self) -> None:
        """Store what was kept, and post the answers, or have them posted once it is durable."""
        turn, aside = self._turn, self._aside
        if len(turn):
            self._turn = turn.another()
            self._store_turn(turn)
        if len(aside):
            self._aside = aside.another()
            self._store_turn(aside)

    def _store_turn(self, turn: Turn) -> None:
        if self._admission.refusal() is not None:
            self._give_back(turn)
            return
        try:
            began_ms = self._stats.now_ms if self._stats is not None else 0
            end = self._store.append_from(turn)
        except RocketPipeError:
            # One of them is to blame, or the disk: the router finds out which, one by one.
            self._give_back(turn)
            return
        if self._stats is not None:
            self._stats.stored_in(self._stats.now_ms - began_ms)
            for topic, count, size, sizes in turn.tally():
                self._stats.put(topic, count, size, sizes, waiting_type(topic))
        if self._sync:
            self._settle_later(turn, end, began_ms)
        elif self._standing.followers is not None:
            self._acknowledge(self._standing.followers, turn, end, began_ms)
            # What is acknowledged is dispatched by those who find that out.
            self._stored = not self._unacknowledged
        else:
            self._answer(turn, ResponseCode.SUCCESS, began_ms)
            self._stored = True

    def _settle_later(self, turn: Turn, end: LogOffset, began_ms: int) -> None:
        task = asyncio.ensure_future(self._settle(turn, end, began_ms))
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    def _acknowledge(
        self, followers: Acknowledging, turn: Turn, end: LogOffset, began_ms: int
    ) -> None:
        """Have a turn's sends answered together, once replicas have them."""
        self._unacknowledged += 1

        def done(code: int, remark: str) -> None:
            self._unacknowledged -= 1
            if code in STORED:
                self._answer_or_refuse(turn, code, began_ms)
            else:
                self._refuse(turn, RequestRejected(code, remark))
            self._outgoing.flush()
            if not self._unacknowledged and self._all_acknowledged is not None:
                self._all_acknowledged.set_result(None)
                self._all_acknowledged = None

        followers.when_acknowledged(end, done)

    async def finish(self) -> None:
        """Wait until everything that was stored is answered."""
        self.store()
        if self._settling:
            await asyncio.wait(self._settling)
        if self._unacknowledged:
            if self._all_acknowledged is None:
                self._all_acknowledged = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._all_acknowledged)

    async def _settle(self, turn: Turn, end: LogOffset, began_ms: int) -> None:
        try:
            code = await self._visibility.settled(end, wait=True)
        except StoreError as error:
            self._refuse(turn, unavailable(error))
        except RequestRejected as error:
            self._refuse(turn, error)
        else:
            self._answer_or_refuse(turn, code, began_ms)
        self._outgoing.flush()

    def _answer_or_refuse(self, turn: Turn, code: int, began_ms: int) -> None:
        refusal = self._visibility.refused(code)
        if refusal is None:
            self._answer(turn, code, began_ms)
        else:
            self._refuse(turn, RequestRejected(*refusal))

    def _answer(self, turn: Turn, code: int, began_ms: int) -> None:
        if self._stats is not None:
            self._count(turn, code, self._stats.now_ms - began_ms)
        for peer, frames in turn.answers(code, self._host, self._tail):
            # The loop writes once a peer and turn, as long as nothing is to leave before.
            if peer.outbox:
                peer.outbox.append(frames)
            else:
                peer.write(frames)

    def _count(self, turn: Turn, code: int, took_ms: int) -> None:
        """Have metrics know how long the sends of a turn took."""
        assert self._stats is not None
        counts, batches = self._stats.counts, turn.batches
        if batches:
            counts.answered(_BATCH._replace(answer=code), took_ms, batches)
        if single := len(turn) - batches:
            counts.answered(_SENT if not code else _SENT._replace(answer=code), took_ms, single)

    def _refuse(self, turn: Turn, why: RequestRejected) -> None:
        for each in turn.asked:
            if each.opaque is not None:
                question = Command(code=RequestCode.SEND_MESSAGE_V2, opaque=each.opaque)
                answer = encode_frame(refusal(question, why.code, why.remark))
                self._outgoing.post(each.peer, answer)

    def _give_back(self, turn: Turn) -> None:
        for each in turn.asked:
            each.peer.take(each.buffer, [each.frame])


def _is_clean(key: str) -> bool:
    """Whether a key may stand in an answer as it is."""
    return key.isprintable() and '"' not in key and "\\" not in key


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
