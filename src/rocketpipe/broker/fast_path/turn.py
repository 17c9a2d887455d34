"""The plain sends of one turn of the loop: picked apart as they come, stored and answered together.

    take     the frames of one read, as long as each is a plain send of the usual form
    keep     a send that somebody else picked apart
    encode   all of them become records
    answers  what each peer is told

What is right is defined by ``sending`` and, behind it, by ``handlers.sending``. ``_turn.pyx`` is
the compiled twin, which has no object for a message; see ``rocketpipe.compiled``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from rocketpipe import compiled
from rocketpipe.broker.counts import sizes_of
from rocketpipe.broker.intake.sent_properties import usual_key
from rocketpipe.errors import FrameError
from rocketpipe.model.flags import BORN_HOST_V6, INNER_BATCH, TRANSACTION_BITS
from rocketpipe.protocol.connection import Frame
from rocketpipe.protocol.hot import message_ids, read_send, scan, send_reply
from rocketpipe.record.hot import split_batch
from rocketpipe.record.layout import HOST_BITS
from rocketpipe.store.log.appender import Appender
from rocketpipe.store.log.puts import Appended, Encoded, Put

if TYPE_CHECKING:
    from rocketpipe.remoting.connection import PeerConnection

#: With so much to store, a turn is long enough.
TURN_BYTES: Final = 4 << 20
#: Of what a sender says: neither how wide hosts are, nor whether it is a half message.
KEPT_BITS: Final = ~(HOST_BITS | TRANSACTION_BITS)
_STARTS: Final = frozenset({b'{"code":310,', b'{"code":320,'})
_new_tuple: Final = tuple.__new__


class Asked(NamedTuple):
    """One send that waits for the end of the turn, with what it takes to begin anew."""

    peer: PeerConnection
    #: None if nobody waits for an answer.
    opaque: int | None
    queue_id: int
    #: Empty if it is a batch that has none: its messages have theirs.
    unique_key: str
    buffer: bytes
    frame: Frame
    #: What takes it back while it waits; empty if nothing does.
    recall_handle: str = ""


class PlainSends:
    """What plain sends have to fit, from one turn to the next."""

    def __init__(self, suffix: bytes, max_body_bytes: int) -> None:
        """``suffix`` goes behind the properties of each message."""
        self.suffix: Final = suffix
        self.max_body_bytes = max_body_bytes
        #: The queues of each topic that plain sends may name.
        self.queues: dict[str, int] = {}


def read_plain(
    buffer: bytes, frame: Frame, known: PlainSends, born_host: bytes
) -> tuple[int | None, int, str, list[Put]] | None:
    """Read a frame, if it is a plain send of the usual form.

    Gives its opaque, queue id and unique key as `Asked` has them, and what to append. Of any other
    frame the result is None: it may still be a plain send, and the caller has to look for itself.
    """
    at, body, end = frame
    if buffer[at + 8 : at + 20] not in _STARTS or end - body > known.max_body_bytes:
        return None
    header = read_send(buffer, at, body)
    if header is None:
        return None
    fields = header.fields
    # Before it is encoded: half a surrogate pair cannot be.
    if (
        not fields.properties.isascii()
        or fields.reconsume_times
        or fields.sys_flag & INNER_BATCH
        or not 0 <= fields.queue_id < known.queues.get(fields.topic, 0)
    ):
        return None
    raw = fields.properties.encode()
    unique_key = usual_key(raw)
    if unique_key is None:
        return None
    messages: Sequence[tuple[int, bytes, bytes]] = ((fields.flag, buffer[body:end], raw),)
    if fields.batch:
        messages = split_batch(buffer[body:end], end - body) or ()
        if not messages:
            return None
    sys_flag = fields.sys_flag & KEPT_BITS | (BORN_HOST_V6 if len(born_host) > 8 else 0)
    puts = []
    for flag, data, raw in messages:
        if not usual_key(raw):
            return None
        put = (
            fields.topic,
            fields.queue_id,
            data,
            raw + known.suffix if raw[-1] == 2 else b"%b\x02%b" % (raw, known.suffix),
            flag,
            sys_flag,
            fields.born_ms,
            born_host,
            0,
            0,
        )
        puts.append(_new_tuple(Put, put))
    return None if header.flag else header.opaque, fields.queue_id, unique_key, puts


class Turn:
    """Sends that are stored together."""

    def __init__(self, known: PlainSends) -> None:
        self._known = known
        self._asked: list[Asked] = []
        self._groups: list[list[Put]] = []
        self._placed: list[list[Appended]] = []
        #: About how much there is to store.
        self.size = 0

    def another(self) -> Self:
        """An empty one, to go on with."""
        return type(self)(self._known)

    def __len__(self) -> int:
        """How many sends there are, of one message or of a batch."""
        return len(self._asked)

    def take(
        self,
        buffer: bytes,
        at: int,
        end: int,
        max_frame_bytes: int,
        peer: PeerConnection,
        born_host: bytes,
    ) -> int:
        """Keep the sends that lie in ``buffer`` from ``at`` on, and are plain.

        Gives where the first frame starts that is not one, or not whole; or, once there is
        `TURN_BYTES` to store, the next.
        """
        try:
            frames = scan(buffer, at, end, max_frame_bytes)
        except FrameError:
            return at
        for frame in frames:
            if self.size > TURN_BYTES:
                break
            found = read_plain(buffer, frame, self._known, born_host)
            if found is None:
                break
            opaque, queue_id, key, puts = found
            self.keep(puts, peer, opaque, queue_id, key, buffer, frame)
            at = frame[2]
        return at

    def keep(
        self,
        puts: list[Put],
        peer: PeerConnection,
        opaque: int | None,
        queue_id: int,
        unique_key: str,
        buffer: bytes,
        frame: Frame,
        recall_handle: str = "",
    ) -> None:
        """Keep a send, as `Asked` has it, with the messages that are in it."""
        self._groups.append(puts)
        asked = (peer, opaque, queue_id, unique_key, buffer, frame, recall_handle)
        self._asked.append(_new_tuple(Asked, asked))
        self.size += frame[2] - frame[1]

    @property
    def asked(self) -> list[Asked]:
        """The sends, in the order of their coming."""
        return self._asked

    def encode(self, appender: Appender, start: int, stored_ms: int) -> Encoded:
        """Make records of all messages, as `Appender.encode` does.

        Raises:
            RocketPipeError: As there.
        """
        encoded = appender.encode(self._groups, start, stored_ms)
        assert encoded.placed is not None
        self._placed = encoded.placed
        return encoded

    def tally(self) -> Iterable[tuple[str, int, int, list[int] | None]]:
        """Topics, how many messages of each were stored, and the bytes of their records.

        The last says how many are how large, as `counts.sizes_of` does.
        """
        sizes: dict[str, list[int]] = {}
        for stored in self._placed:
            sizes.setdefault(stored[0].topic, []).extend([each.size for each in stored])
        return [(topic, len(each), sum(each), sizes_of(each)) for topic, each in sizes.items()]

    @property
    def batches(self) -> int:
        """How many sends have several messages."""
        return sum(len(group) > 1 for group in self._groups)

    def answers(self, code: int, host: bytes, tail: bytes) -> list[tuple[PeerConnection, bytes]]:
        """What to tell those who wait for an answer, of sends that were stored with this code.

        ``host`` and ``tail`` are those of `protocol.hot.send_reply`.
        """
        told = []
        for (peer, opaque, queue_id, key, _, _, recall_handle), stored in zip(
            self._asked, self._placed, strict=True
        ):
            if opaque is None:
                continue
            own = (
                b'"recallHandle":"%b",%b' % (recall_handle.encode(), tail)
                if recall_handle
                else tail
            )
            if key:
                own = b'"transactionId":"%b",%b' % (key.encode(), own)
            ids, (last, *_) = host, stored[-1]
            if len(stored) > 1:
                ids = message_ids(host, [each[0] for each in stored[:-1]])
            told.append((peer, send_reply(opaque, code, ids, last, queue_id, stored[0][2], own)))
        return told


compiled.take_over(globals(), "rocketpipe.broker.fast_path._turn")
