"""What one request of the API asks for: its parameters and its body, checked and bounded."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from starlette.requests import Request

from rocketpipe.console.answers import Problem
from rocketpipe.console.sight import Sight

if TYPE_CHECKING:
    from rocketpipe.client.admin.admin import Admin
    from rocketpipe.console.cluster import Cluster
    from rocketpipe.console.console import Console
    from rocketpipe.console.people import Person

#: The longest message has 4 MiB, and base64 makes a third more of it.
MAX_BODY_BYTES: Final = 6 << 20
#: A list gives so many rows, or at most so many.
ROWS: Final = 50
MAX_ROWS: Final = 200
#: A place to go on from has so many bytes at most.
MAX_UNPACKED: Final = 1 << 18
_MAX_TEXT: Final = 7000

BodyT = TypeVar("BodyT")


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: who asks, which cluster, and what for."""

    request: Request
    console: Console
    person: Person

    @property
    def cluster(self) -> Cluster:
        """The cluster as this person may see it."""
        return self.person.cluster

    @property
    def admin(self) -> Admin:
        """What answers, by noun."""
        return self.person.cluster.admin

    @property
    def sight(self) -> Sight:
        """What this person sees of messages."""
        return Sight(self.person.may_see_bodies, self.console.config.masks)

    def part(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    def text(self, name: str, otherwise: str | None = None) -> str | None:
        """A parameter; an empty one is none.

        Raises:
            Problem: If it is too long.
        """
        found = self.request.query_params.get(name) or None
        if found is not None and len(found) > _MAX_TEXT:
            raise Problem(400, f"{name} has {len(found)} characters", f"give {_MAX_TEXT} at most")
        return otherwise if found is None else found

    def needed(self, name: str) -> str:
        """A parameter that must be there.

        Raises:
            Problem: If it is not.
        """
        found = self.text(name)
        if found is None:
            raise Problem(400, f"{name} is missing", f"add {name}=…")
        return found

    def number(self, name: str, otherwise: int, least: int = 0, most: int = (1 << 63) - 1) -> int:
        """A whole number within bounds.

        Raises:
            Problem: If it is none.
        """
        text = self.text(name)
        if text is None:
            return otherwise
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
            raise Problem(400, f"{name}={text[:40]!r} is no whole number", "give digits only")
        if not least <= int(text) <= most:
            raise Problem(400, f"{name}={text} is out of bounds", f"give {least} to {most}")
        return int(text)

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """One of some words; the first if none is given.

        Raises:
            Problem: If it is another.
        """
        found = self.text(name, choices[0])
        if found not in choices:
            raise Problem(400, f"{name}={found!r} is unknown", f"give one of {', '.join(choices)}")
        return str(found)

    def limit(self, otherwise: int = ROWS, most: int = MAX_ROWS) -> int:
        """How many rows are wanted.

        Raises:
            Problem: If that is none, or too many.
        """
        return self.number("limit", otherwise, 1, most)

    async def body(self, kind: type[BodyT], most: int = MAX_BODY_BYTES) -> BodyT:
        """The JSON that came with it, of so many bytes at most.

        Raises:
            Problem: If it is too long.
            msgspec.ValidationError: If it is something else.
        """
        parts, size = [], 0
        async for part in self.request.stream():
            size += len(part)
            if size > most:
                raise Problem(413, "the body is too long", f"send {most} bytes at most")
            parts.append(part)
        return msgspec.json.decode(b"".join(parts), type=kind)

    def as_of_ms(self) -> int:
        """What the time is, for the answer."""
        return self.console.clock.now_ms()


#: Answers a request with a value for JSON, or with a whole response.
Work = Callable[[Ask], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path of the API below ``/api/1``, and what answers it; only a POST changes anything."""

    method: str
    path: str
    work: Work
    #: Whether it is for people that have not said who they are, on a cluster that asks for it.
    is_public: bool = False
    #: Whether it takes the right to change; a POST that does not is a question or a login.
    is_change: bool = False


def get(path: str, work: Work, *, public: bool = False) -> Endpoint:
    """An endpoint that only looks."""
    return Endpoint("GET", path, work, is_public=public)


def change(path: str, work: Work) -> Endpoint:
    """An endpoint that changes something."""
    return Endpoint("POST", path, work, is_change=True)


def paged(ask: Ask, names: Sequence[str], limit: int) -> tuple[list[str], str | None]:
    """The next names of a sorted list behind ``after``, and where the page behind them begins."""
    after = ask.text("after")
    left = [name for name in names if after is None or name > after]
    rows = left[:limit]
    return rows, rows[-1] if len(left) > limit else None


def pack(value: Any) -> str:
    """A place to go on from, as a parameter can carry it."""
    packed = zlib.compress(msgspec.msgpack.encode(value), 9)
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def unpack(text: str, kind: type[BodyT]) -> BodyT:
    """What `pack` made.

    Raises:
        Problem: If it is nothing of that kind.
    """
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        unpacker = zlib.decompressobj()
        packed = unpacker.decompress(raw, MAX_UNPACKED)
        return msgspec.msgpack.decode(packed, type=kind)
    except (binascii.Error, ValueError, zlib.error, msgspec.DecodeError) as error:
        raise Problem(
            400, "after is no place that this console gave", "begin without it"
        ) from error
