"""A handler whose effect happens once, however often its message is delivered.

Queues deliver at least once: a consumer may die between its work and the note that it was done.
Here the note and the work are one. A handler does not act, it returns its effect; a ledger writes
effect and key in one transaction, and refuses a key that it has:

    once = Idempotent(SqliteLedger("bills.db"), name="billing")

    @consumer.on("orders")
    @once
    async def bill(message):
        return Sql("insert into bills (id, cents) values (?, ?)", (message.keys[0], 100))

A handler that acts elsewhere and returns nothing, or text to remember, is run once too, unless the
process dies after it acted and before the ledger has the key: only what the ledger writes itself
cannot be done twice.

    table rocketpipe_done
      handler  text     the name that was given to Idempotent
      key      text     the message's own id, or what the key function makes of it
      effect   blob     text or bytes that the handler returned, else null
      done_ms  integer  when, in milliseconds since 1970
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, Self, TypeVar

from rocketpipe.client.consumer.handling.handlers import in_thread
from rocketpipe.client.consumer.outcome import Retry
from rocketpipe.clock import Clock, SystemClock
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.message import Readable

#: How long keys are kept: longer than brokers keep messages, so that none can come again.
KEEP_MS: Final = 7 * 24 * 3600 * 1000

#: How many keys that are too old go whenever one is added: more than one, so that a ledger never
#: grows beyond what comes within the time that keys are kept, however much that is.
PRUNE_ROWS: Final = 64

BUSY_MS: Final = 30_000
MAX_KEY_CHARS: Final = 1024
MAX_STATEMENTS: Final = 1000


#: SQLite's connections of a parent process: a forked child may neither use nor close them.
_of_parents: Final[list[sqlite3.Connection]] = []


class LedgerFailed(RocketPipeError):
    """The ledger could not write; neither the effect nor the key is there, so try again."""

    retryable = True


@dataclass(frozen=True, slots=True)
class Sql:
    """A statement that a ``SqliteLedger`` runs in the transaction that records the key."""

    statement: str
    values: Sequence[Any] = ()


ResultT = TypeVar("ResultT")

#: What a handler may return: nothing, something to remember, or what the ledger is to do.
Effect = None | str | bytes | Sql | Sequence[Sql]


class Ledger(Protocol):
    """Where keys and effects are written; any store will do that can write both or neither."""

    async def has(self, handler: str, key: str) -> bool:
        """Whether a key was recorded for a handler.

        Raises:
            LedgerFailed: If it cannot be told.
        """
        ...

    async def record(self, handler: str, key: str, effect: Any) -> bool:
        """Do what the effect says and record the key, both or neither; False if it was there.

        Raises:
            LedgerFailed: If it cannot be written.
        """
        ...


class SqliteLedger:
    """A ledger in a SQLite file, which several processes of one machine may share.

    A thread of its own does the work, so that a disk that takes its time stops nobody else.
    """

    def __init__(
        self, path: str | Path, *, keep_ms: int = KEEP_MS, clock: Clock | None = None
    ) -> None:
        """Prepare; the file is opened, and made if need be, at the first use.

        Raises:
            ValueError: If keys would not be kept at all.
        """
        if keep_ms <= 0:
            raise ValueError(
                f"keep_ms {keep_ms}: keys must be kept for as long as messages may come"
            )
        self._path = path
        self._keep_ms = keep_ms
        self._clock = clock or SystemClock()
        self._thread: ThreadPoolExecutor | None = None
        self._database: sqlite3.Connection | None = None
        self._process_id = os.getpid()
        #: How far the wall clock is ahead of the monotonic one, by which keys grow old; and since
        #: when it is further ahead than that.
        self._apart_ms: int | None = None
        self._ahead_since_ms: int | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the file; it is opened again when it is needed again."""
        self._let_go_of_parents()
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._close)
            thread.shutdown(wait=False)

    async def has(self, handler: str, key: str) -> bool:
        """Whether a key was recorded for a handler.

        Raises:
            LedgerFailed: If the file cannot be read.
        """
        return await self._do(lambda: self._find(handler, key)) is not None

    async def effect(self, handler: str, key: str) -> bytes | None:
        """The text or bytes that the handler returned for a key, if it returned any.

        Raises:
            LedgerFailed: If the file cannot be read.
        """
        row = await self._do(lambda: self._find(handler, key))
        return None if row is None else row[0]

    async def record(self, handler: str, key: str, effect: Effect) -> bool:
        """Run the effect's statements and record the key, in one transaction.

        Raises:
            LedgerFailed: If a statement fails, or the file cannot be written.
            TypeError: If the effect is none.
        """
        statements, kept = _read_effect(effect)
        now_ms = self._clock.now_ms()
        old_ms = self._by_time_itself(now_ms) - self._keep_ms
        return await self._do(lambda: self._record(handler, key, statements, kept, now_ms, old_ms))

    def _by_time_itself(self, now_ms: int) -> int:
        """The time by which keys grow old.

        A wall clock that is set forward makes none older: it counts once keys of before are so old.
        """
        monotonic_ms = self._clock.monotonic_ms()
        apart_ms = now_ms - monotonic_ms
        if self._apart_ms is None or apart_ms <= self._apart_ms:
            self._apart_ms, self._ahead_since_ms = apart_ms, None
        elif self._ahead_since_ms is None:
            self._ahead_since_ms = monotonic_ms
        elif monotonic_ms - self._ahead_since_ms >= self._keep_ms:
            self._apart_ms, self._ahead_since_ms = apart_ms, None
        return monotonic_ms + self._apart_ms

    # On the ledger's own thread

    async def _do(self, work: Callable[[], ResultT]) -> ResultT:
        self._let_go_of_parents()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="rocketpipe-ledger")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except sqlite3.Error as error:
            raise LedgerFailed(f"{self._path}: {error}") from error

    def _let_go_of_parents(self) -> None:
        """In a forked child, work with a thread and a connection of its own."""
        if self._process_id != os.getpid():
            self._process_id = os.getpid()
            if self._database is not None:
                _of_parents.append(self._database)
            self._thread = self._database = None

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            # The thread is this object's own; that it is always the same one is ours to know.
            database = sqlite3.connect(
                self._path, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False
            )
            try:
                database.execute("pragma journal_mode = wal")
                # A key that a power cut takes back would let its effect happen again elsewhere.
                database.execute("pragma synchronous = full")
                database.execute(
                    "create table if not exists rocketpipe_done (handler text not null,"
                    " key text not null, effect blob, done_ms integer not null,"
                    " primary key (handler, key)) without rowid"
                )
                database.execute(
                    "create index if not exists rocketpipe_done_ms on rocketpipe_done (done_ms)"
                )
            except BaseException:
                database.close()
                raise
            self._database = database
        return self._database

    def _find(self, handler: str, key: str) -> tuple[bytes | None] | None:
        found: tuple[bytes | None] | None = (
            self._open()
            .execute(
                "select effect from rocketpipe_done where handler = ? and key = ?", (handler, key)
            )
            .fetchone()
        )
        return found

    def _record(
        self,
        handler: str,
        key: str,
        statements: Sequence[Sql],
        kept: bytes | None,
        now_ms: int,
        old_ms: int,
    ) -> bool:
        database = self._open()
        database.execute("begin immediate")
        try:
            added = database.execute(
                "insert or ignore into rocketpipe_done values (?, ?, ?, ?)",
                (handler, key, kept, now_ms),
            ).rowcount
            if not added:
                database.execute("rollback")
                return False
            for one in statements:
                database.execute(one.statement, tuple(one.values))
            self._prune(database, old_ms)
            database.execute("commit")
        except BaseException:
            if database.in_transaction:
                database.execute("rollback")
            raise
        return True

    def _prune(self, database: sqlite3.Connection, old_ms: int) -> None:
        database.execute(
            "delete from rocketpipe_done where (handler, key) in"
            " (select handler, key from rocketpipe_done where done_ms < ? limit ?)",
            (old_ms, PRUNE_ROWS),
        )

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


KeyOf = Callable[[Any], str]
Once = Callable[[Any], Awaitable[Retry | bool | None]]


class Idempotent:
    """Wraps handlers so that each message's effect is recorded once, under the message's key."""

    def __init__(self, ledger: Ledger, *, name: str, key: KeyOf | None = None) -> None:
        """Wrap for a ledger; ``name`` keeps handlers apart that share one.

        ``key`` makes a message's key, which is else its own id: two messages with one key are taken
        for the same.

        Raises:
            ValueError: If the name is empty.
        """
        if not name:
            raise ValueError("a name is needed: it keeps handlers apart that share a ledger")
        self._ledger = ledger
        self._name = name
        self._key = key or _message_id
        self._under_way: dict[str, _Turn] = {}

    def __call__(self, handler: Callable[[Any], Any]) -> Once:
        """A handler of one message for ``PushConsumer.on``; it may wait or block."""
        waits = inspect.iscoroutinefunction(handler)

        @functools.wraps(handler)
        async def once(message: Any) -> Retry | bool | None:
            key = self._key_of(message)
            async with self._alone(key):
                if await self._ledger.has(self._name, key):
                    return None
                effect = await (handler(message) if waits else in_thread(None, handler, message))
                if effect is False or isinstance(effect, Retry):
                    return effect
                # Another process may have been quicker: then its effect stands, and this one is
                # not written.
                await self._ledger.record(self._name, key, None if effect is True else effect)
                return None

        return once

    def _key_of(self, message: object) -> str:
        if not isinstance(message, Readable):
            raise TypeError("an idempotent handler takes one message: leave `batch` out")
        key = self._key(message)
        if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_CHARS:
            raise ValueError(f"a key is a text of 1 to {MAX_KEY_CHARS} characters, not {key!r:.80}")
        return key

    @asynccontextmanager
    async def _alone(self, key: str) -> AsyncIterator[None]:
        turn = self._under_way.setdefault(key, _Turn())
        turn.wanted += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.wanted -= 1
            if not turn.wanted:
                del self._under_way[key]


@dataclass(slots=True)
class _Turn:
    """Who handles a message with one key, and how many want to."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    wanted: int = 0


def _message_id(message: Readable) -> str:
    return message.message_id


def _read_effect(effect: Effect) -> tuple[Sequence[Sql], bytes | None]:
    if effect is None:
        return (), None
    if isinstance(effect, str):
        return (), effect.encode()
    if isinstance(effect, bytes):
        return (), effect
    given: object = effect
    statements = (given,) if isinstance(given, Sql) else given
    if (
        not isinstance(statements, Sequence)
        or len(statements) > MAX_STATEMENTS
        or not all(isinstance(one, Sql) for one in statements)
    ):
        raise TypeError(
            f"an effect is None, text, bytes, or up to {MAX_STATEMENTS} Sql, not {effect!r:.80}"
        )
    return tuple(statements), None
