"""What clients did and were given, as lines of JSON that a checker reads afterwards.

    {"at_ns":81,"who":"p","what":"send","phase":"invoke","id":"7","topic":"t","crc":93}
    {"at_ns":95,"who":"p","what":"send","phase":"ok","id":"7","queue":"t/broker-a/1","offset":4}
    {"at_ns":99,"who":"c","what":"handle","phase":"invoke","group":"g","id":"7", …}

``invoke`` is written before a thing is begun, and one of these after it: ``ok``, it is done;
``fail``, it is certainly not done; ``info``, nobody knows. Whoever was killed in between wrote
neither, which means ``info`` too. Times are those of a clock that all processes of a machine share,
so that the files of many processes make one history.

    journal = Journal(directory / "one.jsonl")
    record = Recorder(journal, "one")
    with record.sending("7", "orders", body) as sending:
        sending.stored(await producer.send("orders", body, keys=["7"]))

``FateRecorder`` has the rest: transactions, recalls, pops and staged batches.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol, Self

import msgspec

from rocketpipe.client.consumer.group.assignment import Strategy
from rocketpipe.client.consumer.popped import PoppedMessage
from rocketpipe.client.producer.result import SendResult
from rocketpipe.errors import InvalidName, MessageRefused, RocketPipeError
from rocketpipe.model.route import MessageQueue

#: More are not read: a history of that length should have been several.
MAX_EVENTS: Final = 5_000_000

#: Raised before anything went to a broker; every other error may have left a message behind.
_NOT_SENT: Final = (InvalidName, MessageRefused)


class HistoryUnreadable(RocketPipeError):
    """A file of events has something else in it, or too many of them."""


class What(StrEnum):
    """What an event is about."""

    SEND = "send"
    #: A handler has a message: ``invoke`` when it gets it, ``ok`` or ``fail`` when it returns.
    HANDLE = "handle"
    #: A member is in its group, and says what it expects.
    JOIN = "join"
    #: Its queues of one topic were worked out anew.
    SHARE = "share"
    #: ``invoke`` when it is told to close, ``ok`` when it has closed.
    LEAVE = "leave"
    #: A process is no more; it could not say so itself.
    KILL = "kill"
    #: Something else breaks at ``invoke`` and is whole again at ``ok``.
    FAULT = "fault"
    #: A transaction is committed or rolled back.
    DECIDE = "decide"
    #: A message that waits for its moment is taken back.
    RECALL = "recall"
    #: A popped message is acknowledged, or is to be hidden for another time.
    ACK = "ack"
    HIDE = "hide"
    #: A stage is to show: one try at a batch.
    COMMIT = "commit"


class Phase(StrEnum):
    """How far it is with it; see the top of this file."""

    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Event(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One line. Of the fields after the first four, each kind has those it needs."""

    at_ns: int
    who: str
    what: What
    phase: Phase
    #: A message's, unique in the history; its first key on the wire.
    id: str = ""
    topic: str = ""
    #: Messages of one sender and one key are to be handled in the order they were sent in.
    key: str = ""
    tag: str = ""
    crc: int = 0
    #: When it may be handled at the earliest.
    due_ns: int = 0
    #: It shows only once it is committed: as a half message, or with all of its stage.
    half: bool = False
    stage: str = ""
    commit: bool = False
    #: A popped message is hidden from others until then.
    until_ns: int = 0
    queue: str = ""
    offset: int = -1
    group: str = ""
    #: How often it was tried before.
    times: int = 0
    #: A member's share of a topic; the topics, or the tags, that it wants.
    queues: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    ordered: bool = False
    broadcast: bool = False
    #: Nobody owns its queues: what is acknowledged does not come again, whoever asks.
    popped: bool = False
    #: After so many retries a message is a dead letter; None if nobody counts.
    max_retries: int | None = None
    #: A fault's, or a batch's.
    name: str = ""
    #: Whether messages may come twice because of it; and of which broker, or of any.
    repeats: bool = True
    broker: str = ""


class Received(Protocol):
    """What a recorder wants to know of a message; consumers' messages have it."""

    queue: MessageQueue

    @property
    def topic(self) -> str: ...
    @property
    def queue_offset(self) -> int: ...
    @property
    def keys(self) -> Sequence[str]: ...
    @property
    def tags(self) -> str | None: ...
    @property
    def body(self) -> bytes: ...
    @property
    def reconsume_times(self) -> int: ...


def queue_name(queue: MessageQueue) -> str:
    """A queue as histories have it: ``topic/broker/number``."""
    return f"{queue.topic}/{queue.broker_name}/{queue.queue_id}"


def place_of(group: str, message: Received) -> dict[str, Any]:
    """The fields of an event that say which message, and from where."""
    queue = queue_name(message.queue)
    if isinstance(message, PoppedMessage):
        # It is given the topic that was asked for, also when it comes again.
        topic = message.handle.retry.topic(message.queue.topic, group)
        queue = f"{topic}/{message.queue.broker_name}/{message.queue.queue_id}"
    return {
        "group": group,
        "id": message.keys[0] if message.keys else "",
        "queue": queue,
        "offset": int(message.queue_offset),
    }


class Journal:
    """A file of events that outlives its writer: each event is one write, appended."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def append(self, event: Event) -> None:
        """Write one line; it is in the system's hands when this returns."""
        line = msgspec.json.encode(event) + b"\n"
        written = os.write(self._file, line)
        assert written == len(line), "the disk is full"

    def close(self) -> None:
        """Write no more."""
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Sending:
    """A send under way."""

    def __init__(self) -> None:
        self.is_stored = False
        self.result: SendResult | None = None

    def stored(self, result: SendResult | None = None) -> None:
        """Note that a broker has it, and where, if the sender was told."""
        self.is_stored = result is None or result.durable is not None
        self.result = result


class Recorder:
    """Writes what one producer or one member of a group does, under its name."""

    def __init__(
        self, journal: Journal, who: str, *, now_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        """Take a journal, which others may write to as well, and a name that is nobody else's."""
        self._journal = journal
        self._now_ns = now_ns
        self.who = who

    def note(self, what: What, phase: Phase, **facts: Any) -> None:
        """Write an event; ``facts`` are fields of ``Event``."""
        facts.setdefault("who", self.who)
        self._journal.append(Event(at_ns=self._now_ns(), what=what, phase=phase, **facts))

    @contextmanager
    def sending(
        self,
        message_id: str,
        topic: str,
        body: bytes,
        *,
        key: str = "",
        tag: str = "",
        due_ns: int = 0,
        half: bool = False,
    ) -> Iterator[Sending]:
        """Record a send, whose result the block notes by ``stored``; an error goes on its way.

        What waits for its moment, or for a decision, lies elsewhere until then: its place is what
        deliveries say.
        """
        self.note(
            What.SEND,
            Phase.INVOKE,
            id=message_id,
            topic=topic,
            crc=zlib.crc32(body),
            key=key,
            tag=tag,
            due_ns=due_ns,
            half=half,
        )
        sending = Sending()
        phase = Phase.INFO
        try:
            yield sending
            phase = Phase.OK if sending.is_stored else Phase.INFO
        except _NOT_SENT:
            phase = Phase.FAIL
            raise
        finally:
            place: dict[str, Any] = {}
            result = sending.result
            if phase is Phase.OK and result is not None and not (half or due_ns):
                place = {"queue": queue_name(result.queue), "offset": int(result.queue_offset)}
            self.note(What.SEND, phase, id=message_id, topic=topic, **place)

    @contextmanager
    def handling(self, group: str, message: Received) -> Iterator[None]:
        """Record what a handler does with a message; it fails if the block raises."""
        seen = place_of(group, message)
        self.got(group, message)
        try:
            yield
        except Exception:
            self.note(What.HANDLE, Phase.FAIL, **seen)
            raise
        # Whoever is cancelled in a handler has neither done nor failed it.
        self.note(What.HANDLE, Phase.OK, **seen)

    def got(self, group: str, message: Received, *, until_ns: int = 0) -> None:
        """Record that a message came, and until when it is hidden from others, if it is."""
        self.note(
            What.HANDLE,
            Phase.INVOKE,
            topic=message.topic,
            tag=message.tags or "",
            crc=zlib.crc32(message.body),
            times=message.reconsume_times,
            until_ns=until_ns,
            **place_of(group, message),
        )

    def joined(
        self,
        group: str,
        *topics: str,
        ordered: bool = False,
        broadcast: bool = False,
        popped: bool = False,
        tags: Sequence[str] = (),
        max_retries: int | None = None,
    ) -> None:
        """Record that it is a member, and of what kind; once it certainly is one."""
        self.note(
            What.JOIN,
            Phase.OK,
            group=group,
            topics=topics,
            ordered=ordered,
            broadcast=broadcast,
            popped=popped,
            tags=tuple(tags),
            max_retries=max_retries,
        )

    @contextmanager
    def leaving(self, group: str) -> Iterator[None]:
        """Record that it closes, in the block, and gives its queues up in good order."""
        self.note(What.LEAVE, Phase.INVOKE, group=group)
        yield
        self.note(What.LEAVE, Phase.OK, group=group)

    def killed(self, who: str) -> None:
        """Record that another is dead by now, and did not close."""
        self.note(What.KILL, Phase.OK, who=who)

    @contextmanager
    def fault(self, name: str, *, repeats: bool = True, broker: str = "") -> Iterator[None]:
        """Record that something is broken while the block lasts.

        ``repeats`` is whether messages may be stored or delivered twice because of it; ``broker``
        says of which broker those are that may be delivered so.
        """
        facts: dict[str, Any] = {"name": name, "repeats": repeats, "broker": broker}
        self.note(What.FAULT, Phase.INVOKE, **facts)
        yield
        self.note(What.FAULT, Phase.OK, **facts)

    def sharing(self, group: str, strategy: Strategy) -> Strategy:
        """The same strategy, which records each share that it gives this member."""

        def share(
            member: str, queues: Sequence[MessageQueue], members: Sequence[str]
        ) -> list[MessageQueue]:
            mine = strategy(member, queues, members)
            names = tuple(queue_name(queue) for queue in mine)
            topic = queues[0].topic if queues else ""
            self.note(What.SHARE, Phase.OK, group=group, topic=topic, queues=names)
            return mine

        return Strategy(strategy.name, share)


def read_history(*paths: Path, limit: int = MAX_EVENTS) -> list[Event]:
    """Read files of events, and put all of them in the order of time.

    The last line of a file may be torn, if its writer was killed; that event has not happened.

    Raises:
        HistoryUnreadable: If a line is no event, or there are more than ``limit``.
    """
    events: list[Event] = []
    decoder = msgspec.json.Decoder(Event)
    for path in paths:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    events.append(decoder.decode(line))
                except msgspec.MsgspecError as error:
                    raise HistoryUnreadable(f"{path.name} line {number}: {error}") from error
                if len(events) > limit:
                    raise HistoryUnreadable(f"more than {limit} events: record less, or in parts")
    # Files are in order already, and sorting keeps that where times are equal.
    events.sort(key=lambda event: event.at_ns)
    return events
