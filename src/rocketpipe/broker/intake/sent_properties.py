"""What a sender's properties ask of the broker, and what the broker makes of them.

UNIQ_KEY                       given one if it has none
WAIT                           whether the answer waits for the disk
DELAY                          how long consumers wait
TIMER_…                        the moment at which it shows
TRAN_MSG                       it waits for its producer's decision
POP_CK, __RMQ.TRANSIENT.…      a client's own notes, which are not kept
TIMER_DEQUEUE_MS, _ROLL_TIMES, only a broker says of a message that it has waited: not kept either
TIMER_ORIGIN
TIMER_DEL_UNIQKEY              nor that another one is taken back: see RecallMessage
MSG_REGION, TRACE_ON, CLUSTER  the broker's own, which replace what was there
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.clock import Clock
from rocketpipe.errors import RequestRejected
from rocketpipe.model import properties
from rocketpipe.model.ids import UniqueKeys
from rocketpipe.protocol.codes import ResponseCode

TIMERS: Final = (
    properties.TIMER_DELAY_SEC,
    properties.TIMER_DELAY_MS,
    properties.TIMER_DELIVER_MS,
    properties.START_DELIVER_TIME,
)
_TRANSIENT: Final = (
    properties.POP_CK,
    properties.TRANSIENT_TOPIC_SYS_FLAG,
    properties.TRANSIENT_GROUP_SYS_FLAG,
    properties.TIMER_DEQUEUE_MS,
    properties.TIMER_ROLL_TIMES,
    properties.TIMER_ORIGIN,
    properties.TIMER_DEL_UNIQ_KEY,
)
_OURS: Final = (properties.MSG_REGION, properties.TRACE_ON, properties.CLUSTER)
#: Names that ask for something, or are not kept as they are.
SPECIAL: Final = (
    *_TRANSIENT,
    *_OURS,
    *TIMERS,
    properties.DELAY,
    properties.TRANSACTION_PREPARED,
    properties.INNER_NUM,
)
_KEY: Final = "\x02UNIQ_KEY\x01"
#: A text of the usual form has so many bytes at most, and the key in it.
MAX_TEXT_BYTES: Final = 640
_MAX_KEY_BYTES: Final = 64


def _one_of(names: Iterable[str]) -> str:
    """An expression for names that is quick to say no: it looks at the first letter first."""
    by_letter: dict[str, list[str]] = {}
    for name in names:
        by_letter.setdefault(re.escape(name[0]), []).append(re.escape(name[1:]))
    return "|".join(f"{letter}(?:{'|'.join(rest)})" for letter, rest in by_letter.items())


# With a separator in front each name follows one, so that a search hops from one to the next.
_odd: Final = re.compile(f"\x02(?:(?:{_one_of(SPECIAL)})\x01|WAIT\x01(?!true(?:\x02|\\Z)))").search
_LEVEL: Final = re.compile(r"[+-]?[0-9]{1,10}")


def is_plain(text: str | bytes) -> bool:
    """Return whether a property text asks for no more than to be stored.

    `BrokerProperties.suffix` is put behind it.
    It has a unique key and neither delay, timer nor transaction, its sender waits as usual, and
    nothing in it has to be taken out.
    """
    if isinstance(text, bytes):
        text = text.decode("latin-1")  # only ASCII matters here
    return plain_key(text) is not None


def asks_nothing(text: str) -> bool:
    """Whether a property text has nothing in it that a broker would have to look at."""
    return _odd("\x02" + text) is None


def plain_key(text: str) -> str | None:
    """The unique key of a property text, if `is_plain` holds of it."""
    text = "\x02" + text
    at = text.find(_KEY)
    # Of two keys the later would count.
    if at < 0 or text.find(_KEY, at + 1) >= 0 or _odd(text) is not None:
        return None
    return text[at + len(_KEY) :].partition("\x02")[0] or None


def usual_key(raw: bytes) -> str | None:
    """The unique key of properties that ask for nothing, empty if there is none in them.

    None if they do, or if they are at all unusual: long, not ASCII, with an odd key or a second.
    """
    if len(raw) > MAX_TEXT_BYTES or not raw.isascii():
        return None
    text = raw.decode()
    _, *behind = f"\x02{text}".split(_KEY)
    if len(behind) > 1 or not asks_nothing(text):
        return None
    if not behind:
        return ""
    key = behind[0].partition("\x02")[0]
    return key if key.isalnum() and len(key) <= _MAX_KEY_BYTES else None


@dataclass(frozen=True, slots=True)
class SendOptions:
    """What one message asks for."""

    unique_key: str | None
    keys: str | None
    delay_level: int
    is_half: bool
    #: The property that sets a timer, if one does.
    timer: str | None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> SendOptions:
        """Read them from decoded properties.

        Raises:
            RequestRejected: The delay level is no number, or it says that it is an inner batch.
        """
        if properties.INNER_NUM in given:
            raise RequestRejected(
                ResponseCode.MESSAGE_ILLEGAL, "INNER_NUM is for inner batches, which are not served"
            )
        level = given.get(properties.DELAY, "0")
        if not _LEVEL.fullmatch(level):
            raise RequestRejected(
                ResponseCode.MESSAGE_ILLEGAL,
                f"DELAY is {level[:20]!r}: a delay level is a whole number",
            )
        return cls(
            unique_key=given.get(properties.UNIQ_KEY),
            keys=given.get(properties.KEYS),
            delay_level=int(level),
            is_half=given.get(properties.TRANSACTION_PREPARED, "").lower() == "true",
            timer=next((name for name in TIMERS if name in given), None),
        )

    @property
    def waits(self) -> bool:
        """Whether it is not to show at once."""
        return self.delay_level > 0 or self.timer is not None


def waits(given: Mapping[str, str]) -> bool:
    """Whether the sender wants to hear of the sync, where the broker syncs before it answers."""
    # As Java reads it: whatever is there and not "true" is false.
    return given.get(properties.WAIT, "true").lower() == "true"


class BrokerProperties:
    """Adds what the broker says about every message it stores."""

    def __init__(self, config: BrokerConfig, unique_keys: UniqueKeys, clock: Clock) -> None:
        self.region = config.region
        self.trace_on = config.trace_on
        self._unique_keys = unique_keys
        self._clock = clock
        self._added = {
            properties.MSG_REGION: config.region,
            properties.TRACE_ON: "true" if config.trace_on else "false",
            properties.CLUSTER: config.cluster,
        }
        #: What goes behind a plain text that ends in 0x02.
        self.suffix: Final = properties.encode(self._added).encode()

    def new_key(self) -> str:
        """A unique key for a message whose sender gave it none."""
        return self._unique_keys.next(self._clock.now_ms())

    def stamped(self, raw: bytes, new_key: str | None = None) -> bytes:
        """The text as it is stored; ``new_key`` is set where it has no unique key."""
        if new_key is None and is_plain(raw):
            return raw + self.suffix if raw.endswith(b"\x02") else b"%b\x02%b" % (raw, self.suffix)
        changes: dict[str, str | None] = dict.fromkeys(_TRANSIENT)
        if new_key is not None:
            changes[properties.UNIQ_KEY] = new_key
        return properties.edited(raw, {**changes, **self._added})
