"""One HTTP port for those who watch: is it alive, is it ready, what does it measure.

    /healthz    200 as long as the process answers
    /readyz     200 when every part can do its work, else 503 with the reasons
    /metrics    Prometheus text
    /version    what runs here, as JSON

Where there is a token, the last two want it (``Authorization: Bearer …``): they name topics and
groups.

It answers GET and HEAD without a body, one request a connection: enough for probes and scrapers,
and too little for anything else. Whoever comes is answered: when the connections are too many, the
one goes that has been there longest without a request, or else without taking its answer. Whoever
asks for another page is handed on, connection and all, where somebody serves more.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from rocketpipe import compiled
from rocketpipe._version import __version__
from rocketpipe.clock import Clock, SystemClock, within
from rocketpipe.errors import PortUnavailable
from rocketpipe.health.bearer import BearerToken
from rocketpipe.metrics import CONTENT_TYPE, Family, pieces
from rocketpipe.remoting.door import Door
from rocketpipe.remoting.tls import ServerTls

#: A request, its line and headers, may be so long, take so long, and be one of so many.
MAX_REQUEST_BYTES: Final = 8192
PATIENCE_MS: Final = 5000
MAX_CONNECTIONS: Final = 64
#: Measurements that were collected so lately are told again.
REMEMBERED_MS: Final = 2000

_PLAIN: Final = "text/plain; charset=utf-8"
_END: Final = b"\r\n\r\n"
_GUARDED: Final = ("/metrics", "/version")
_NO_TOKEN: Final = b"this page wants the token of --http-token-file: Authorization: Bearer ...\n"
#: The pages that are answered here.
PAGES: Final = ("/healthz", "/readyz", "/metrics", "/version")
#: Gives whoever serves the other pages: one for a connection, which sees it from its first byte.
#: None while there is nobody.
More = Callable[[], asyncio.Protocol | None]

log = logging.getLogger(__name__)


class Told(Protocol):
    """What the port tells."""

    async def problems(self) -> list[str]:
        """What keeps it from its work now."""
        ...

    async def metrics(self, clock: Clock) -> str:
        """All measurements, as Prometheus reads them."""
        ...

    async def finish(self) -> None:
        """Collect nothing any more."""
        ...


class Watched:
    """The parts of a process, as far as they have started."""

    def __init__(self) -> None:
        self._checks: list[Callable[[], str | None]] = []
        self._families: list[Callable[[], Iterable[Family]]] = []
        self._collecting: asyncio.Task[str] | None = None
        self._collected: tuple[int, str] | None = None
        self.started = False

    def add(
        self, check: Callable[[], str | None], families: Callable[[], Iterable[Family]]
    ) -> None:
        """Watch a part: ``check`` gives what keeps it from its work, or None."""
        self._checks.append(check)
        self._families.append(families)

    async def problems(self) -> list[str]:
        """What keeps the process from its work now."""
        if not self.started:
            return ["it is still starting"]
        return [problem for check in self._checks if (problem := check()) is not None]

    async def metrics(self, clock: Clock) -> str:
        """All measurements, as Prometheus reads them, and not older than `REMEMBERED_MS`.

        Whoever asks while they are collected gets the same; the loop does other work meanwhile.
        """
        if self._collecting is None:
            if self._collected is not None:
                collected_ms, text = self._collected
                if clock.monotonic_ms() - collected_ms < REMEMBERED_MS:
                    return text
            self._collecting = asyncio.create_task(self._collect(clock))
        # One that asks and leaves does not take it away from the others.
        return await asyncio.shield(self._collecting)

    async def _collect(self, clock: Clock) -> str:
        collected_ms = clock.monotonic_ms()
        try:
            families = (family for collect in self._families for family in collect())
            parts: list[str] = []
            for piece in pieces(families):
                parts.append(piece)
                await asyncio.sleep(0)
            text = "".join(parts)
            self._collected = (collected_ms, text)
            return text
        finally:
            self._collecting = None

    async def finish(self) -> None:
        """Collect nothing any more."""
        if self._collecting is not None:
            collecting = self._collecting
            collecting.cancel()
            await asyncio.wait([collecting])


@asynccontextmanager
async def health_port(
    host: str,
    port: int,
    watched: Told,
    *,
    clock: Clock | None = None,
    tls: ServerTls | None = None,
    token: BearerToken | None = None,
    more: More | None = None,
    hint: str = "",
) -> AsyncIterator[str]:
    """Answer on a port inside the block, which is given the address; by HTTPS with ``tls``.

    Measurements and the version are for those who show the ``token``, if there is one. Who asks
    for none of the pages is handed on to ``more``; without it ``hint`` is added to what such a one
    is told.

    Raises:
        PortUnavailable: If the port is taken, or the address is not this machine's.
    """
    answering = _Answering(watched, clock or SystemClock(), token, more, hint)
    loop = asyncio.get_running_loop()

    #: Of whom it is not known yet whether they speak TLS; who came first stands first.
    doors: dict[Door, None] = {}

    def gone(door: Door) -> None:
        doors.pop(door, None)

    def arrived() -> asyncio.Protocol:
        reader = asyncio.StreamReader(limit=MAX_REQUEST_BYTES, loop=loop)
        peer = asyncio.StreamReaderProtocol(reader, answering.connected, loop=loop)
        if tls is None:
            return peer
        if len(doors) >= MAX_CONNECTIONS:
            next(iter(doors)).abort()
        door = Door(tls, peer, entered=gone, left=gone)
        doors[door] = None
        return door

    try:
        server = await loop.create_server(arrived, host, port, backlog=MAX_CONNECTIONS)
    except OSError as error:
        raise PortUnavailable(error, f"{host}:{port}", "for HTTP ") from error
    try:
        bound = server.sockets[0].getsockname()
        name = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        yield f"{name}:{bound[1]}"
    finally:
        server.close()
        for door in list(doors):
            door.abort()
        await answering.finish()
        await watched.finish()


class _Answering:
    def __init__(
        self,
        watched: Told,
        clock: Clock,
        token: BearerToken | None,
        more: More | None,
        hint: str,
    ) -> None:
        self._watched = watched
        self._token = token
        self._clock = clock
        self._more = more
        self._hint = hint
        self._peers: set[asyncio.Task[object]] = set()
        #: Who has not asked yet, and whose answer is under way; who came first stands first.
        self._silent: dict[asyncio.StreamWriter, None] = {}
        self._asked: dict[asyncio.StreamWriter, None] = {}
        #: A writer that nobody keeps closes its connection, also one that is another's.
        self._handed_on: WeakKeyDictionary[asyncio.Protocol, asyncio.StreamWriter]
        self._handed_on = WeakKeyDictionary()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handed_on = False

        async def answer() -> None:
            nonlocal handed_on
            handed_on = await self._answer(reader, writer)

        try:
            if len(self._silent) + len(self._asked) >= MAX_CONNECTIONS:
                self._send_one_away()
            self._silent[writer] = None
            self._peers.add(task)
            await within(self._clock, PATIENCE_MS, answer())
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # it left before it had asked
        except asyncio.CancelledError:
            pass  # the port closes; Python 3.11 logs a traceback of a cancelled connection
        finally:
            self._peers.discard(task)
            self._let_go(writer)
            if not handed_on:
                writer.close()

    def _send_one_away(self) -> None:
        oldest = next(iter(self._silent or self._asked))
        self._let_go(oldest)
        oldest.transport.abort()  # its task ends by itself, as of one that left

    def _let_go(self, writer: asyncio.StreamWriter) -> None:
        self._silent.pop(writer, None)
        self._asked.pop(writer, None)

    async def finish(self) -> None:
        for task in self._peers:
            task.cancel()
        if self._peers:
            await asyncio.wait(self._peers)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer the one request; True if the connection is another's now."""
        try:
            head = await reader.readuntil(_END)
        except asyncio.LimitOverrunError:
            status, kind, body, method = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, _PLAIN, b"", ""
        else:
            if writer in self._silent:
                del self._silent[writer]
                self._asked[writer] = None
            method, path = _asked(head)
            if self._more is not None and method and path not in PAGES:
                protocol = self._more()
                if protocol is not None:
                    self._handed_on[protocol] = writer
                    await _hand_on(protocol, head, reader, writer)
                    return True
            status, kind, body = await self._page(method, path, head)
        headers = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n"
        )
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers += "Allow: GET, HEAD\r\n"
        if status is HTTPStatus.UNAUTHORIZED:
            headers += "WWW-Authenticate: Bearer\r\n"
        writer.write(headers.encode() + b"\r\n" + (b"" if method == "HEAD" else body))
        await writer.drain()
        return False

    async def _page(self, method: str, path: str, head: bytes) -> tuple[HTTPStatus, str, bytes]:
        if not method:
            return HTTPStatus.BAD_REQUEST, _PLAIN, b"this is no HTTP request\n"
        if method not in ("GET", "HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, _PLAIN, b"only GET and HEAD are answered here\n"
        token = self._token
        shown = token is None or token.is_shown_in(head.decode("latin-1"))
        found = await page(path, self._watched, self._clock, shown=shown)
        if found is not None:
            return found
        pages = f"there are /healthz, /readyz, /metrics and /version\n{self._hint}"
        return HTTPStatus.NOT_FOUND, _PLAIN, pages.encode()


async def page(
    path: str, watched: Told, clock: Clock, *, shown: bool
) -> tuple[HTTPStatus, str, bytes] | None:
    """One of the `PAGES`: its status, the type of its text, and the text; None for another.

    ``shown`` says whether who asks has the token, or there is none: some pages want it.
    """
    if path in _GUARDED and not shown:
        return HTTPStatus.UNAUTHORIZED, _PLAIN, _NO_TOKEN
    if path == "/healthz":
        return HTTPStatus.OK, _PLAIN, b"ok\n"
    if path == "/readyz":
        return _readiness(await watched.problems())
    if path == "/metrics":
        return HTTPStatus.OK, CONTENT_TYPE, (await watched.metrics(clock)).encode()
    if path == "/version":
        engine = compiled.describe()
        text = json.dumps({"name": "rocketpipe", "version": __version__, "engine": engine})
        return HTTPStatus.OK, "application/json", f"{text}\n".encode()
    return None


async def _hand_on(
    protocol: asyncio.Protocol,
    head: bytes,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Let another have the connection, with all that has come of it."""
    transport = writer.transport
    transport.set_protocol(protocol)
    reader.feed_eof()  # nothing more comes to it: what it has is read without waiting
    rest = await reader.read()
    protocol.connection_made(transport)
    protocol.data_received(head + rest)


def _readiness(problems: Sequence[str]) -> tuple[HTTPStatus, str, bytes]:
    if not problems:
        return HTTPStatus.OK, _PLAIN, b"ready\n"
    text = "".join(f"{problem}\n" for problem in problems)
    return HTTPStatus.SERVICE_UNAVAILABLE, _PLAIN, text.encode()


def _asked(head: bytes) -> tuple[str, str]:
    """Method and path of a request, both empty if it is none."""
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return "", ""
    return words[0], words[1].partition("?")[0]
