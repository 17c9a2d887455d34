"""What every request has: codes, header fields, perhaps a body, and the shape of its answer.

A request is a frozen dataclass marked with its code::

    @request(RequestCode.GET_MIN_OFFSET)
    @dataclass(frozen=True, slots=True, kw_only=True)
    class GetMinOffset(Request[OffsetReply]): ...

``Request[Reply]`` ties the answer's type to the question, so that callers need no casts.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from rocketpipe.errors import rejection
from rocketpipe.protocol import fastjson
from rocketpipe.protocol.codes import OUR_VERSION, RequestCode, ResponseCode
from rocketpipe.protocol.command import ONEWAY, RESPONSE, Command
from rocketpipe.protocol.fields import Codec, codec_for, place_of
from rocketpipe.protocol.json_dialect import MAX_VALUES

#: Values in the body of a request that is not plain JSON: a server's loop waits while it is read.
MAX_ODD_VALUES: Final = 20_000

ReplyT = TypeVar("ReplyT")


class Request(Generic[ReplyT]):
    """One kind of request. Subclasses are frozen dataclasses of its header and body."""

    #: All codes under which it travels; the first is the usual one.
    codes: ClassVar[tuple[RequestCode, ...]]
    #: Those of ``codes`` that are written in one-letter names.
    short_codes: ClassVar[frozenset[RequestCode]] = frozenset()
    #: The dataclass of the answer; NoneType when it says nothing but success.
    reply: ClassVar[type]

    @property
    def code(self) -> RequestCode:
        """The code this very request is sent under."""
        return self.codes[0]


RequestT = TypeVar("RequestT", bound=Request[Any])


def request(
    *codes: RequestCode, short: tuple[RequestCode, ...] = ()
) -> Callable[[type[RequestT]], type[RequestT]]:
    """Give a request dataclass its codes, and its reply from ``Request[Reply]``."""

    def mark(kind: type[RequestT]) -> type[RequestT]:
        (base,) = kind.__orig_bases__  # type: ignore[attr-defined]
        (kind.reply,) = typing.get_args(base)
        kind.codes = codes
        kind.short_codes = frozenset(short)
        return kind

    return mark


def to_command(asked: Request[Any], opaque: int, *, oneway: bool = False) -> Command:
    """Write a request as the command that asks for it."""
    shape = _shape(type(asked))
    code = asked.code
    return Command(
        code=code,
        opaque=opaque,
        flag=ONEWAY if oneway else 0,
        fields=shape.header.encode(asked, short=code in asked.short_codes),
        body=shape.body_of(asked),
    )


def from_command(kind: type[RequestT], command: Command) -> RequestT:
    """Read a request of a known kind.

    Raises:
        HeaderError: If a header field is missing or not of its type.
        BodyError: If the body is not what this request carries.
    """
    asked: RequestT = _shape(kind).read(command)
    return asked


def to_reply(asked: Command, answer: Any, *, version: int = OUR_VERSION) -> Command:
    """Write the answer to a command, in the header form its sender spoke."""
    if answer is None:
        return Command(
            code=ResponseCode.SUCCESS,
            opaque=asked.opaque,
            flag=RESPONSE,
            header=asked.header,
            version=version,
        )
    shape = _shape(type(answer))
    return Command(
        code=getattr(answer, shape.code_field) if shape.code_field else ResponseCode.SUCCESS,
        opaque=asked.opaque,
        flag=RESPONSE,
        fields=shape.header.encode(answer),
        remark=getattr(answer, "remark", None),
        body=shape.body_of(answer),
        header=asked.header,
        version=version,
    )


def read_reply(asked: Request[ReplyT], command: Command) -> ReplyT:
    """Read the answer to a request.

    Raises:
        RequestRejected: If the peer refused.
        RemoteProtocolError: If the answer lacks what this request's answers have.
    """
    kind = asked.reply
    shape = _shape(kind) if kind is not type(None) else None
    accepted = shape.accepted if shape else _SUCCESS
    if command.code not in accepted:
        raise rejection(command.code, command.remark or "refused without a remark")
    answer: ReplyT = shape.read(command) if shape else None  # type: ignore[assignment]
    return answer


_SUCCESS = frozenset([int(ResponseCode.SUCCESS)])


class _JsonBody(NamedTuple):
    name: str
    hint: Any
    optional: bool
    strict: bool


class _Shape:
    """Which parts of a frame the fields of one dataclass travel in."""

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self.header: Codec[Any] = codec_for(kind)
        self.code_field: str | None = None
        self.accepted = _SUCCESS
        self._short_codes: frozenset[int] = getattr(kind, "short_codes", frozenset())
        self._raw: str | None = None
        self._json: _JsonBody | None = None
        self._has_remark = False
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            place = place_of(field)
            if place == "code":
                self.code_field = field.name
                self.accepted = field.metadata["accepted"]
            elif place == "remark":
                self._has_remark = True
            elif place == "raw":
                self._raw = field.name
            elif place == "json":
                optional = field.default is not dataclasses.MISSING
                strict = field.metadata["strict"]
                self._json = _JsonBody(field.name, hints[field.name], optional, strict)

    def body_of(self, value: Any) -> bytes:
        if self._raw:
            raw: bytes = getattr(value, self._raw)
            return raw
        if self._json:
            item = getattr(value, self._json.name)
            return b"" if item is None else fastjson.write(item, strict=self._json.strict)
        return b""

    def read(self, command: Command) -> Any:
        values = self.header.decode(command.fields, short=command.code in self._short_codes)
        if self.code_field:
            values[self.code_field] = command.code
        if self._has_remark:
            values["remark"] = command.remark
        if self._raw:
            values[self._raw] = command.body
        elif self._json and (command.body or not self._json.optional):
            most = MAX_VALUES if command.is_response else MAX_ODD_VALUES
            values[self._json.name] = fastjson.read(
                command.body, self._json.hint, max_odd_values=most
            )
        return self._kind(**values)


_SHAPES: dict[type, _Shape] = {}


def _shape(kind: type) -> _Shape:
    shape = _SHAPES.get(kind)
    if shape is None:
        shape = _SHAPES[kind] = _Shape(kind)
    return shape
