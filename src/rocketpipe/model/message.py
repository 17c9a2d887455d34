"""A message, as it is sent and as it is read back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import Final

from rocketpipe.errors import PropertiesError
from rocketpipe.model import flags, ids, names
from rocketpipe.model import properties as well_known
from rocketpipe.model.group import DELAYS_MS
from rocketpipe.model.host import Host
from rocketpipe.model.offsets import LogOffset, QueueOffset

#: Between the tags of a consumer's expression.
TAG_SEPARATOR: Final = "||"

_NOWHERE: Final = LogOffset(0)
_NO_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Message:
    """What a producer sends: ``Message("orders", b"…", tags="paid", keys=["A1"])``.

    At most one of the three delays may be given: a level, a time from now, or a moment.

    Raises:
        InvalidName: If no topic may have such a name.
        PropertiesError: If a property, tag or key is one that could not be read back, or that is
            RocketMQ's own.
        TypeError: If something is not of its type: a body is bytes, the rest is text.
    """

    topic: str
    body: bytes
    _: KW_ONLY
    #: One tag, by which consumers choose.
    tags: str | None = None
    #: By these a message can be looked up. A plain text is one key.
    keys: Sequence[str] = ()
    #: The user's own.
    properties: Mapping[str, str] = field(default_factory=dict)
    #: The user's own too: 32 bits that RocketMQ carries and never reads.
    flag: int = 0
    #: Whether the send waits until the broker has the message as safe as it is set to.
    wait_stored: bool = True
    #: Later by one of RocketMQ's 18 levels, which count from 1; 0 for none.
    delay_level: int = 0
    #: Later by so many milliseconds.
    delay_ms: int | None = None
    #: Not before this moment, in milliseconds since 1970.
    deliver_at_ms: int | None = None

    def __post_init__(self) -> None:
        _check_text("topic", self.topic)
        names.check_topic(self.topic)
        if self.tags is not None:
            _check_text("tags", self.tags, "a message has one tag")
            if well_known.is_blank(self.tags):
                raise PropertiesError("property 'TAGS': a tag may not be blank")
            if TAG_SEPARATOR in self.tags:
                raise PropertiesError(
                    f"property 'TAGS': {self.tags!r:.80} is several tags, and a message has one; "
                    f"{TAG_SEPARATOR} is for consumers, who choose by several"
                )
            well_known.check_text(well_known.TAGS, self.tags)
        keys = (self.keys,) if isinstance(self.keys, str) else tuple(self.keys)
        if keys:
            for key in keys:
                _check_text("keys", key)
            well_known.join_keys(keys)
        for name, value in self.properties.items():
            _check_text("properties", name)
            _check_text("properties", value)
            well_known.check_user_property(name, value)
        if not -(1 << 31) <= self.flag < 1 << 31:
            raise PropertiesError(f"flag {self.flag} does not fit 32 bits")
        if self.delay_level or self.delay_ms is not None or self.deliver_at_ms is not None:
            delays = (self.delay_level or None, self.delay_ms, self.deliver_at_ms)
            if sum(delay is not None for delay in delays) > 1:
                raise PropertiesError("property 'DELAY': a message has one delay, not several")
            if any(delay is not None and delay < 0 for delay in delays):
                raise PropertiesError("property 'DELAY': a delay is not negative")
            if self.delay_level > len(DELAYS_MS):
                raise PropertiesError(
                    f"property 'DELAY': level {self.delay_level}: levels go from 1 (a second) to "
                    f"{len(DELAYS_MS)} (two hours); give another time as delay or deliver_at"
                )
        if type(self.body) is not bytes:
            object.__setattr__(self, "body", _as_bytes(self.body))
        object.__setattr__(self, "keys", keys)
        properties = MappingProxyType(dict(self.properties)) if self.properties else _NO_PROPERTIES
        object.__setattr__(self, "properties", properties)

    def all_properties(self) -> dict[str, str]:
        """Give what goes into the record: the user's properties and those of tag, keys and delay.

        The dictionary is new: a producer adds the unique key and what else it knows.
        """
        found = dict(self.properties)
        if self.keys:
            found[well_known.KEYS] = well_known.KEY_SEPARATOR.join(self.keys)  # checked before
        if self.tags:
            found[well_known.TAGS] = self.tags
        found[well_known.WAIT] = "true" if self.wait_stored else "false"
        if self.delay_level:
            found[well_known.DELAY] = str(self.delay_level)
        if self.delay_ms is not None:
            found[well_known.TIMER_DELAY_MS] = str(self.delay_ms)
        if self.deliver_at_ms is not None:
            found[well_known.TIMER_DELIVER_MS] = str(self.deliver_at_ms)
        return found


def _check_text(name: str, value: object, rule: str = "") -> None:
    if not isinstance(value, str):
        kind = type(value).__name__
        raise TypeError(f"{name}: {value!r:.40} is {kind}, not str{rule and '; '}{rule}")


def _as_bytes(body: object) -> bytes:
    try:
        return memoryview(body).tobytes()  # type: ignore[arg-type]
    except TypeError:
        kind = type(body).__name__
        how = "text.encode()" if isinstance(body, str) else "json.dumps(it).encode(), for instance"
        raise TypeError(f"a body is bytes, not {kind}: give {how}") from None


class Readable(ABC):
    """What can be asked of a message that was stored, however it is held in memory."""

    __slots__ = ()

    @property
    @abstractmethod
    def properties(self) -> Mapping[str, str]:
        """All properties, the user's and RocketMQ's."""

    @property
    @abstractmethod
    def offset_id(self) -> str:
        """Where the message is stored, as text: broker and place in its log."""

    @property
    def message_id(self) -> str:
        """The id its producer gave it, or else where it is stored."""
        return self.properties.get(well_known.UNIQ_KEY) or self.offset_id

    @property
    def tags(self) -> str | None:
        """Its tag."""
        return self.properties.get(well_known.TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys by which it can be looked up."""
        return well_known.split_keys(self.properties.get(well_known.KEYS, ""))

    @property
    def user_properties(self) -> dict[str, str]:
        """The properties that are not RocketMQ's own."""
        return {
            name: value
            for name, value in self.properties.items()
            if name not in well_known.RESERVED
        }

    @property
    def wait_stored(self) -> bool:
        """Whether its producer waited until it was stored as safely as the broker is set to."""
        return self.properties.get(well_known.WAIT, "true").lower() == "true"

    @property
    def delay_level(self) -> int:
        """The delay level it was sent with, 0 for none or for one that is not a number."""
        text = self.properties.get(well_known.DELAY, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage(Readable):
    """A message as a broker keeps it: nothing is lost between its record and this.

    The body is as stored, compressed if ``sys_flag`` says so, and the properties stay bytes until
    somebody asks. ``record.codec`` reads and writes these.
    """

    topic: str
    body: bytes
    #: The properties in their text form, as ``model.properties`` describes it.
    raw_properties: bytes = b""
    queue_id: int
    queue_offset: QueueOffset
    log_offset: LogOffset
    flag: int = 0
    sys_flag: int = 0
    born_ms: int
    born_host: Host
    stored_ms: int
    store_host: Host
    reconsume_times: int = 0
    #: Of a committed message: where its half message is.
    prepared_offset: LogOffset = _NOWHERE
    #: Whether the topic's length takes two bytes. Left alone, the topic's length decides.
    long_topic: bool | None = None
    _parsed: Mapping[str, str] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def properties(self) -> Mapping[str, str]:
        """All properties, the user's and RocketMQ's."""
        parsed = self._parsed
        if parsed is None:
            parsed = MappingProxyType(well_known.decode_bytes(self.raw_properties))
            object.__setattr__(self, "_parsed", parsed)
        return parsed

    @property
    def offset_id(self) -> str:
        """Where the message is stored, as text: broker and place in its log."""
        return ids.offset_id(self.store_host.pack(), self.log_offset)

    @property
    def transaction(self) -> flags.Transaction:
        """What part it plays in a transaction."""
        return flags.transaction_of(self.sys_flag)
