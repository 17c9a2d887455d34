"""What a page sees as it happens: one stream a tab, of whatever the tab looks at.

``GET live?see=overview,group:billing,tail:orders`` answers with server-sent events of these names.
A tail's events have ids, by which a browser goes on where it was cut off. Streams are counted, end
with the console, and end when whoever opened one has logged out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from rocketpipe.clock import within
from rocketpipe.console.answers import Problem
from rocketpipe.console.api import overview
from rocketpipe.console.asking import Ask, get, pack, unpack
from rocketpipe.console.group_figures import figures as group_figures
from rocketpipe.console.message_rows import picker
from rocketpipe.console.tailing import EVERY_MS as TAIL_MS
from rocketpipe.console.tailing import Tail
from rocketpipe.errors import RocketPipeError

#: One stream sees so many things.
MAX_SEEN: Final = 4
FIGURES_MS: Final = 5000
#: A stream in which nothing happens says so, that nobody between takes it for dead.
COMMENT_MS: Final = 15_000


@dataclass(slots=True)
class _Seen:
    """One thing that is seen: what tells the news of it, and when next."""

    every_ms: int
    tell: Callable[[], Awaitable[bytes | None]]
    next_ms: int = 0


async def live(ask: Ask) -> StreamingResponse:
    """Open a stream."""
    wanted = ask.needed("see").split(",")
    if len(wanted) > MAX_SEEN:
        raise Problem(400, f"{len(wanted)} things are to be seen", f"name {MAX_SEEN} at most")
    seen = [_seen(ask, name) for name in wanted]
    return _Stream(ask, seen)


class _Stream(StreamingResponse):
    """A stream that is counted."""

    def __init__(self, ask: Ask, seen: list[_Seen]) -> None:
        self._console = ask.console
        super().__init__(
            _events(ask, seen),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        console = self._console
        if console.streams >= console.config.max_streams:
            cause = f"{console.config.max_streams} streams are open"
            full = Problem(503, cause, "close another tab", {"Retry-After": "15"})
            await full.response()(scope, receive, send)
            return
        # Nobody has a turn between the two: many may come at once.
        console.streams += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            console.streams -= 1


async def _events(ask: Ask, seen: list[_Seen]) -> AsyncIterator[bytes]:
    console, clock = ask.console, ask.console.clock
    yield b"retry: 3000\n: open\n\n"
    told_ms = clock.monotonic_ms()
    while not console.closing.is_set() and _may_go_on(ask):
        for one in seen:
            now_ms = clock.monotonic_ms()
            if now_ms < one.next_ms:
                continue
            one.next_ms = now_ms + one.every_ms
            event = await one.tell()
            if event is not None:
                told_ms = now_ms
                yield event
        if clock.monotonic_ms() - told_ms >= COMMENT_MS:
            told_ms = clock.monotonic_ms()
            yield b": still here\n\n"
        wait_ms = min(one.next_ms for one in seen) - clock.monotonic_ms()
        await within(clock, max(wait_ms, 1), console.closing.wait())


def _may_go_on(ask: Ask) -> bool:
    return ask.person.name is None or ask.console.people.is_here(ask.person)


def _seen(ask: Ask, name: str) -> _Seen:
    kind, _, what = name.partition(":")
    if kind == "overview":
        return _Seen(FIGURES_MS, lambda: _overview(ask))
    if kind == "group" and what:
        ask.cluster.rings.watch(f"lag:{what}")
        return _Seen(FIGURES_MS, lambda: _group(ask, what))
    if kind == "tail" and what:
        return _tail(ask, what)
    raise Problem(400, f"{name[:80]!r} cannot be seen", "see overview, group:NAME or tail:TOPIC")


async def _overview(ask: Ask) -> bytes:
    ask.cluster.look()
    return _event("overview", await overview.figures(ask.cluster) | {"as_of_ms": ask.as_of_ms()})


async def _group(ask: Ask, group: str) -> bytes:
    found = await group_figures(ask.admin, group)
    return _event("group", {"name": group, **found, "as_of_ms": ask.as_of_ms()})


def _tail(ask: Ask, topic: str) -> _Seen:
    last = ask.request.headers.get("last-event-id", "")
    given = unpack(last, list[tuple[str, int, int]]) if last else []
    places = {(broker, queue): offset for broker, queue, offset in given}
    tail = Tail(ask.cluster.session, topic, picker(ask), places, ask.cluster.tail_ends)
    has_begun = False

    async def tell() -> bytes | None:
        nonlocal has_begun
        try:
            news = await tail.news()
        except RocketPipeError as error:
            return _event("problem", {"cause": str(error)})
        finally:
            seen.every_ms = tail.every_ms
        if has_begun and not news.rows and not news.skipped:
            return None
        has_begun = True
        body = {"topic": topic, "rows": news.rows, "skipped": news.skipped}
        return _event("tail", body, pack(tail.places))

    seen = _Seen(TAIL_MS, tell)
    return seen


def _event(name: str, value: Any, event_id: str = "") -> bytes:
    head = f"id: {event_id}\n" if event_id else ""
    return f"{head}event: {name}\ndata: ".encode() + msgspec.json.encode(value) + b"\n\n"


ENDPOINTS = (get("/live", live),)
