"""One replica's session with ZooKeeper, told to one loop.

kazoo runs threads of its own: what they tell is handed to the loop, in order, and nothing of ours
runs on them but that. One client is one session: when it is over, whatever the reason, the client
is put away and the next `reached` begins with a new one, so nothing of an old session can be taken
for the new one's.

    CONNECTED ⇄ SUSPENDED ── session time has passed, by our clock ──▶ over
        ├── LOST: ZooKeeper says so ─────────────────────────────────▶ over
        └── the loop stood still for half a session: the watchdog ───▶ over

The only module that imports kazoo.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from rocketpipe.clock import Clock, in_time, within
from rocketpipe.coordination.coordinator import CoordinatorAway, Fenced

try:
    from kazoo.client import KazooClient, KazooState
    from kazoo.exceptions import BadVersionError, KazooException
    from kazoo.exceptions import NodeExistsError as NodeExistsError
    from kazoo.exceptions import NoNodeError as NoNodeError
    from kazoo.retry import KazooRetry
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "zookeeperAddr needs the package kazoo: pip install kazoo", name="kazoo"
    ) from error

log = logging.getLogger(__name__)
# What kazoo says of each try to connect is said here once, by what it means.
_kazoo_log = logging.getLogger(f"{__name__}.kazoo")
_kazoo_log.setLevel(logging.CRITICAL)

T = TypeVar("T")

#: Tries to reach an ensemble that is away come at least so often.
RECONNECT_S: Final = 0.5


class ZkSession:
    """Sessions, one after the other; ``over`` is called when one ends that was `used`."""

    def __init__(
        self,
        hosts: Sequence[str],
        session_ms: int,
        clock: Clock,
        *,
        back: Callable[[], None],
        over: Callable[[], None],
    ) -> None:
        """``back``: connected, and watches that were set before are gone."""
        self.session_ms = session_ms
        #: Whether anything was made in this session that goes with it.
        self.used = False
        self._hosts = ",".join(hosts)
        self._clock = clock
        self._back = back
        self._over = over
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Any = None
        self._connected = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._giving_up: asyncio.Task[None] | None = None
        self._ended = threading.Event()
        self._ticked_ms = 0

    def start(self) -> None:
        """Begin to look for the ensemble; does not wait until it is found."""
        self._loop = asyncio.get_running_loop()
        self._ticked_ms = self._clock.monotonic_ms()
        self.spawn(self._tick())
        threading.Thread(target=self._watch_loop, name="zookeeper-watchdog", daemon=True).start()
        self._open()

    async def close(self) -> None:
        """End it: what was made in this session goes at once."""
        self._ended.set()
        for task in self._tasks:
            task.cancel()
        client, self._client = self._client, None
        if client is not None:
            # A silent ensemble is not waited for: it will notice by itself.
            await within(self._clock, self.session_ms, _in_thread(client))

    def live(self) -> Any:
        """The client, if it is connected.

        Raises:
            CoordinatorAway: It is not.
        """
        if self._client is None or not self._connected.is_set():
            raise CoordinatorAway(f"no connection to ZooKeeper at {self._hosts}")
        return self._client

    async def reached(self) -> Any:
        """A client that is connected, by a new session if need be; waits a session's time."""
        if self._client is None:
            self._open()
        await in_time(self._clock, self.session_ms, _of(self._connected.wait()), self._away)
        return self.live()

    def id_of(self, client: Any) -> int:
        """What owns the ephemeral nodes that this client makes."""
        if client is not self._client or client.client_id is None:
            raise CoordinatorAway("the session is over")
        return int(client.client_id[0])

    async def timed(self, work: Awaitable[T]) -> T:
        """Have work done within a session's time; what is wrong with ZooKeeper is `Away`."""
        try:
            return await in_time(self._clock, self.session_ms, _of(work), self._away)
        except KazooException as error:
            raise CoordinatorAway(
                f"ZooKeeper at {self._hosts}: {type(error).__name__} {error}"
            ) from error

    async def ask(self, asked: Any) -> Any:
        """What a request of kazoo's comes to, on the loop."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        asked.rawlink(lambda result: self.hand_over(_settle, answer, result))
        return await answer

    async def commit(self, change: Any) -> list[Any]:
        """All of a multi-op, or nothing.

        Raises:
            Fenced: A version is not the one that was seen, or a node is there, or is not.
        """
        results: list[Any] = await self.ask(change.commit_async())
        for result, asked in zip(results, change.operations, strict=True):
            if isinstance(result, BadVersionError | NodeExistsError | NoNodeError):
                raise Fenced(f"{asked.path} has changed: {type(result).__name__}")
        for result in results:
            if isinstance(result, Exception):
                raise CoordinatorAway(f"ZooKeeper refused: {result!r}")
        return results

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work that ends with `close`."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def hand_over(self, do: Callable[..., None], *args: object) -> None:
        """From any thread: have it done on the loop."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody is there to be told
                self._loop.call_soon_threadsafe(do, *args)

    def _away(self) -> Exception:
        return CoordinatorAway(f"ZooKeeper at {self._hosts} does not answer")

    # --- sessions --------------------------------------------------------------------------------

    def _open(self) -> Any:
        retry = KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=RECONNECT_S)
        client = KazooClient(
            hosts=self._hosts,
            timeout=self.session_ms / 1000,
            connection_retry=retry,
            logger=_kazoo_log,
        )
        client.add_listener(lambda state: self.hand_over(self._state_changed, client, state))
        self._client = client
        client.start_async()
        return client

    def _state_changed(self, client: Any, state: str) -> None:
        if client is not self._client:
            return
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None
        if state == KazooState.CONNECTED:
            self._connected.set()
            self._back()
            return
        self._connected.clear()
        if state == KazooState.SUSPENDED:
            self._giving_up = self.spawn(self._give_up(client))
        else:
            self._session_over(client, "ZooKeeper says so")

    async def _give_up(self, client: Any) -> None:
        await self._clock.sleep(self.session_ms)
        self._giving_up = None
        self._session_over(client, f"no answer for {self.session_ms} ms")

    def _session_over(self, client: Any, why: str) -> None:
        if client is not self._client:
            return
        self._client = None
        self._connected.clear()
        threading.Thread(target=_put_away, args=(client,), daemon=True).start()
        if self.used:
            log.warning("zookeeper session over: %s", why)
            self.used = False
            self._over()

    async def _tick(self) -> None:
        while True:
            self._ticked_ms = self._clock.monotonic_ms()
            await self._clock.sleep(self.session_ms // 10)

    def _watch_loop(self) -> None:
        """On a thread: end the session of a loop that stands still, so that others may lead."""
        looked_ms, put_away = self._clock.monotonic_ms(), None
        while not self._ended.wait(self.session_ms / 10_000):
            now_ms = self._clock.monotonic_ms()
            # Who was late itself was stopped with the loop, which is given time to go on.
            on_time = now_ms - looked_ms < self.session_ms // 4
            looked_ms = now_ms
            client, still_ms = self._client, now_ms - self._ticked_ms
            if on_time and client not in (None, put_away) and still_ms > self.session_ms // 2:
                log.error("event loop stood still for_ms=%d, ending the session", still_ms)
                put_away = client
                _put_away(client)
                self.hand_over(self._session_over, client, "the event loop stood still")


def _settle(answer: asyncio.Future[Any], result: Any) -> None:
    if answer.done():
        return
    if result.exception is not None:
        answer.set_exception(result.exception)
    else:
        answer.set_result(result.value)


async def _of(work: Awaitable[T]) -> T:
    return await work


def _put_away(client: Any) -> None:
    """End a client's session and its threads; blocks."""
    with suppress(KazooException, OSError, AttributeError):
        client.stop()
        client.close()


def _finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


async def _in_thread(client: Any) -> None:
    """End it without standing in the loop's way."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        _put_away(client)
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_finish, done)

    threading.Thread(target=end, name="zookeeper-end", daemon=True).start()
    await done
