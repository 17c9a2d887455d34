"""A message on its way out: checked, named, perhaps compressed, and written as a frame.

The header of a send is the same for a topic and broker but for a few numbers and the properties, so
it is a template, filled in for each message. ``protocol.requests.sending.SendMessage`` defines
what comes out.

Most messages are plain: a body that stays as it is, perhaps a tag and keys. Of those no ``Message``
is made unless somebody asks for it; ``PlainTexts`` knows them, and what it does not know is left to
``Message``, which defines what may be sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from rocketpipe.client.routes import NEW_TOPIC_QUEUES
from rocketpipe.errors import MessageRefused, PropertiesError
from rocketpipe.model import properties as well_known
from rocketpipe.model.flags import Compression, with_compression
from rocketpipe.model.message import TAG_SEPARATOR, Message
from rocketpipe.model.names import AUTO_CREATE_TOPIC, check_sendable, is_retry_topic
from rocketpipe.protocol.codes import OUR_VERSION, RequestCode
from rocketpipe.protocol.command import ONEWAY
from rocketpipe.protocol.frame import HEAD
from rocketpipe.protocol.json_dialect import quote
from rocketpipe.record.batch import encode_batch
from rocketpipe.record.compression import DEFAULT_LEVEL, WORTHWHILE_BYTES, compress
from rocketpipe.record.layout import MAX_BODY_BYTES

#: How long a batch may be is for the producer to say, and it says so by name.
_ANY_BYTES: Final = 1 << 31
_SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
_SEND_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)
_SAFE_CHARS: Final = well_known.MAX_BYTES // 4
#: Longer bodies are compressed beside the loop: they would hold up everyone else.
_LONG_BODY_BYTES: Final = 64 * 1024
#: What an entry of a batch has beside body and properties.
ENTRY_BYTES: Final = 22
_WAITING: Final = f"{well_known.WAIT}\x01true\x02"
_NOT_WAITING: Final = f"{well_known.WAIT}\x01false\x02"

_NO_PARTS: Final[Mapping[str, Any]] = {}
_PLAIN_TEXT: Final = f"{_WAITING}{well_known.UNIQ_KEY}\x01"
_NOT_WAITING_TEXT: Final = f"{_NOT_WAITING}{well_known.UNIQ_KEY}\x01"
#: Longer tags and keys are for the general way, so that what is remembered stays small.
_SHORT_CHARS: Final = 64
_MAX_KNOWN: Final = 1024

_OPAQUE: Final = (b'"opaque":-3,', b'"opaque":%d,')
_new: Final = object.__new__
_quoted: Final = msgspec.json.encode
_pack: Final = HEAD.pack


def template(group: str, topic: str, broker_name: str, new_queues: int = NEW_TOPIC_QUEUES) -> bytes:
    """The header of every send of ``group`` to one topic on one broker; see ``Outgoing.frame``.

    ``new_queues`` is how many a topic is to have that the send creates.
    """
    names = [quote(name).replace("%", "%%") for name in (group, topic, broker_name)]
    return (
        f'{{"code":%d,"extFields":{{"a":{names[0]},"b":{names[1]},'
        f'"c":"{AUTO_CREATE_TOPIC}","d":"{new_queues}","e":"%d","f":"%d","g":"%d","h":"%d",'
        f'"i":%b,"j":"0","k":"false","m":"%b","n":{names[2]}}},"flag":%d,"language":"PYTHON",'
        f'"opaque":%d,"serializeTypeCurrentRPC":"JSON","version":{OUR_VERSION}}}'
    ).encode()


def plain_header(header: bytes, queue_id: int) -> bytes:
    """A template of ``template`` for the plain messages to one queue; see ``plain_frame``."""
    filled = header % (_SEND, queue_id, 0, -1, 0, b"-2", b"false", 0, -3)
    found = filled.replace(b"%", b"%%")
    for number, place in ((b'"g":"-1"', b'"g":"%d"'), (b'"i":-2', b'"i":%b'), _OPAQUE):
        # A quotation mark inside of a name is escaped, so these are fields and nothing else.
        assert found.count(number) == 1
        found = found.replace(number, place)
    return found


class Outgoing:
    """One send: of a message, or of a batch of them."""

    __slots__ = (
        "_message",
        "_parts",
        "batch",
        "body",
        "born_ms",
        "flag",
        "message_id",
        "plain",
        "properties",
        "size",
        "sys_flag",
        "topic",
        "wait_stored",
    )

    def __init__(self, message: Message, message_id: str, born_ms: int, max_bytes: int) -> None:
        """Take a message that may be sent, with the id it is to have.

        Raises:
            MessageRefused: If it is empty or too long.
            PropertiesError: If its properties are too long.
        """
        body = message.body
        if not 0 < len(body) <= max_bytes:
            raise _wrong_size(message.topic, len(body), max_bytes)
        self._message: Message | None = message
        self._parts: Mapping[str, Any] = _NO_PARTS
        self.message_id = message_id
        self.born_ms = born_ms
        self.topic = message.topic
        self.plain = False
        self.body = body
        self.flag = message.flag
        self.sys_flag = 0
        self.batch = False
        self.wait_stored = message.wait_stored
        self.properties = _text(message, message_id)
        self.size = len(body) + len(self.properties)

    @classmethod
    def of_plain(
        cls,
        topic: str,
        body: bytes,
        parts: Mapping[str, Any],
        text: str,
        message_id: str,
        born_ms: int,
    ) -> Outgoing:
        """The same for a plain message, with the text that ``PlainTexts`` gave."""
        self = _new(_Plain)
        self._message = None
        self._parts = parts
        self.message_id = message_id
        self.born_ms = born_ms
        self.topic = topic
        self.body = body
        self.properties = properties = f"{text}{message_id}\x02"
        self.size = len(body) + len(properties)
        return self

    @property
    def message(self) -> Message:
        """What is sent, unless it is a batch."""
        assert not self.batch, "a batch has no message of its own"
        message = self._message
        if message is None:
            message = self._message = Message(self.topic, self.body, **self._parts)
        return message

    @classmethod
    def batch_of(cls, parts: Sequence[Outgoing], batch_id: str, born_ms: int) -> Outgoing:
        """Many messages as one send; they agree in topic and in whether they wait."""
        body = encode_batch(
            [(part.flag, part.body, part.properties.encode()) for part in parts],
            max_bytes=_ANY_BYTES,
        )
        first = parts[0]
        return cls.of_entries(first.topic, body, batch_id, born_ms, wait_stored=first.wait_stored)

    @classmethod
    def of_entries(
        cls, topic: str, body: bytes, batch_id: str, born_ms: int, *, wait_stored: bool
    ) -> Outgoing:
        """A batch that is written already, with an id of its own, as Java's batches have."""
        text = _PLAIN_TEXT if wait_stored else _NOT_WAITING_TEXT
        self = _new(cls)
        self._message = None
        self._parts = _NO_PARTS
        self.message_id = batch_id
        self.born_ms = born_ms
        self.topic = topic
        self.plain = False
        self.body = body
        self.flag = 0
        self.sys_flag = 0
        self.batch = True
        self.wait_stored = wait_stored
        self.properties = f"{text}{batch_id}\x02"
        self.size = len(body)
        return self

    async def compress(self, level: int) -> None:
        """Make the body shorter, if that makes it shorter."""
        if len(self.body) < _LONG_BODY_BYTES:
            packed = compress(self.body, Compression.ZLIB, level)
        else:
            packed = await asyncio.to_thread(compress, self.body, Compression.ZLIB, level)
        if len(packed) < len(self.body):
            self.body = packed
            self.sys_flag = with_compression(self.sys_flag, Compression.ZLIB)

    def frame(self, header: bytes, queue_id: int, opaque: int, *, oneway: bool = False) -> bytes:
        """The bytes that send it to a queue, with the header of ``template`` filled in."""
        body, head = self.body, self.head(header, queue_id, opaque, oneway=oneway)
        size = len(head)
        return b"".join((_pack(size + 4 + len(body), size), head, body))

    def head(self, header: bytes, queue_id: int, opaque: int, *, oneway: bool = False) -> bytes:
        """The header of that."""
        return header % (
            _SEND_BATCH if self.batch else _SEND,
            queue_id,
            self.sys_flag,
            self.born_ms,
            self.flag,
            _quoted(self.properties),
            b"true" if self.batch else b"false",
            ONEWAY if oneway else 0,
            opaque,
        )

    def plain_frame(self, header: bytes, opaque: int) -> bytes:
        """The same of a plain message, with a header of ``plain_header``."""
        body = self.body
        head = header % (self.born_ms, _quoted(self.properties), opaque)
        size = len(head)
        return b"".join((_pack(size + 4 + len(body), size), head, body))


class _Plain(Outgoing):
    """A plain message: what nobody said of it is the same for all."""

    __slots__ = ()

    plain = True
    flag = 0
    sys_flag = 0
    batch = False
    wait_stored = True


class PlainTexts:
    """Knows plain messages, and their properties up to the value of the unique key."""

    def __init__(self, max_bytes: int) -> None:
        """Take the longest body that is neither refused nor compressed."""
        self._max_bytes = max_bytes
        self._topics: set[str] = set()
        self._by_tag: dict[str, str] = {}

    def learn(self, topic: str) -> None:
        """Take a topic that may be sent to: its messages can be plain from now on."""
        if not is_retry_topic(topic):
            if len(self._topics) >= _MAX_KNOWN:
                self._topics.clear()
            self._topics.add(topic)

    def find(self, topic: object, body: object, parts: Mapping[str, Any]) -> str | None:
        """The text for ``Outgoing.of_plain``; None unless topic, body and parts are plain."""
        if type(topic) is not str or topic not in self._topics or type(body) is not bytes:
            return None
        if not 0 < len(body) <= self._max_bytes:
            return None
        return self._text(parts) if parts else _PLAIN_TEXT

    def _text(self, parts: Mapping[str, Any]) -> str | None:
        if len(parts) != ("tags" in parts) + ("keys" in parts):
            return None
        text: str | None = _PLAIN_TEXT
        tag = parts.get("tags")
        if tag is not None:
            text = self._by_tag.get(tag) if type(tag) is str else None
            if text is None and (text := self._with_tag(tag)) is None:
                return None
        keys = parts.get("keys", ())
        if type(keys) is str:
            keys = (keys,)
        elif type(keys) is not tuple and type(keys) is not list:
            return None
        if not keys:
            return text
        for key in keys:
            if type(key) is not str or not _is_word(key):
                return None
        return f"KEYS\x01{' '.join(keys)}\x02{text}"

    def _with_tag(self, tag: object) -> str | None:
        if type(tag) is not str or not _is_word(tag) or TAG_SEPARATOR in tag:
            return None
        if len(self._by_tag) >= _MAX_KNOWN:
            self._by_tag.clear()
        text = self._by_tag[tag] = f"TAGS\x01{tag}\x02{_PLAIN_TEXT}"
        return text


def _is_word(text: str) -> bool:
    return (
        0 < len(text) <= _SHORT_CHARS and text.isascii() and text.isprintable() and " " not in text
    )


class Checks:
    """What one producer demands of its messages, and does to them."""

    def __init__(
        self,
        *,
        max_bytes: int = MAX_BODY_BYTES,
        compress_over: int | None = WORTHWHILE_BYTES,
        compress_level: int = DEFAULT_LEVEL,
    ) -> None:
        """Take the longest body, and from which length on bodies are compressed, if at all.

        Raises:
            ValueError: If a number makes no sense.
        """
        if max_bytes < 1:
            raise ValueError(f"max_message_bytes {max_bytes}: at least 1")
        if not 0 <= compress_level <= 9:
            raise ValueError(f"compress_level {compress_level}: 0 to 9")
        self.max_bytes = max_bytes
        self._compress_over = compress_over
        self._compress_level = compress_level
        self._sendable: set[str] = set()
        uncompressed = max_bytes if compress_over is None else compress_over - 1
        self.plain = PlainTexts(min(max_bytes, uncompressed))

    def check_topic(self, topic: str) -> None:
        """Refuse a topic that clients may not send to.

        Raises:
            InvalidName: If it is one.
        """
        if topic not in self._sendable:
            check_sendable(topic)
            if len(self._sendable) >= _MAX_KNOWN:
                self._sendable.clear()
            self._sendable.add(topic)
            self.plain.learn(topic)

    def compresses(self, body: bytes) -> bool:
        """Whether a body is long enough for it."""
        return self._compress_over is not None and len(body) >= self._compress_over

    async def compress(self, out: Outgoing) -> None:
        """Compress a body that is long enough."""
        if self.compresses(out.body):
            await out.compress(self._compress_level)

    def may_wait(self, message: Message) -> bool:
        """Whether a message that is not plain may be held back for a batch, and go with others."""
        return not (is_delayed(message) or is_retry_topic(message.topic)) and not self.compresses(
            message.body
        )

    def check_batch(self, messages: Sequence[Message]) -> None:
        """Refuse messages that cannot go as one batch.

        Raises:
            MessageRefused: If there are none, they go to different topics or wait differently,
                one is delayed, or the topic is one of retries.
            TypeError: If something else than messages is among them.
        """
        if not messages:
            raise MessageRefused("", "a batch without messages", "give at least one")
        first = messages[0]
        for message in messages:
            if not isinstance(message, Message):
                raise TypeError(f"{message!r:.40} is no Message: give Message(topic, body)")
            if message.topic != first.topic:
                reason = f"a batch with a message to {message.topic!r}"
                raise MessageRefused(first.topic, reason, "make a batch of each topic")
            if message.wait_stored != first.wait_stored:
                reason = "a batch in which some wait until they are stored and some do not"
                raise MessageRefused(first.topic, reason, "make two batches")
            if is_delayed(message):
                raise MessageRefused(first.topic, "a delayed one in a batch", "send it by itself")
        if is_retry_topic(first.topic):
            raise MessageRefused(first.topic, "a batch to a retry topic", "send them one by one")


def is_delayed(message: Message) -> bool:
    """Whether it is to be shown later."""
    return bool(
        message.delay_level or message.delay_ms is not None or message.deliver_at_ms is not None
    )


def _text(message: Message, message_id: str) -> str:
    # What `properties.encode` writes; the message has checked every name and value already.
    if not (message.properties or message.keys or message.tags or is_delayed(message)):
        return f"{_WAITING if message.wait_stored else _NOT_WAITING}UNIQ_KEY\x01{message_id}\x02"
    named = message.all_properties()
    named[well_known.UNIQ_KEY] = message_id
    text = "".join([f"{name}\x01{value}\x02" for name, value in named.items()])
    if len(text) > _SAFE_CHARS and len(text.encode()) > well_known.MAX_BYTES:
        size = len(text.encode())
        raise PropertiesError(
            f"properties of {size} bytes, more than {well_known.MAX_BYTES}", well_known.MAX_BYTES
        )
    return text


def _wrong_size(topic: str, size: int, max_bytes: int) -> MessageRefused:
    if not size:
        return MessageRefused(topic, "an empty body", "send at least one byte")
    reason = f"a body of {size} bytes, {max_bytes} are the most"
    hint = "raise max_message_bytes here and maxMessageSize at the brokers, or send less"
    return MessageRefused(topic, reason, hint)
