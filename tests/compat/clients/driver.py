"""One client program: told by a line of JSON what to do, it tells in lines of JSON what it saw.

    asked      {"id": 7, "do": "send", "topic": "orders", "body": "aGVsbG8=", …}
    answered   {"id": 7, "ok": {"id": "7F0000…", "queue": 3, "offset": 12}}
    or         {"id": 7, "error": "what the client's library said"}
    received   {"received": "consumer-1", "body": "aGVsbG8=", "tag": "a", …}

Bodies are base64. A field that a client's library does not reveal is left out or null, and is not
compared. The requests are the methods of `Driver`; each program answers those that its library has,
several at a time. Asked to ``quit``, it closes its producers and answers; then it is killed, for
some libraries have threads that never end.
"""

from __future__ import annotations

import base64
import itertools
import json
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Clients look for new routes every 30 s by default, and some cannot be told otherwise.
PATIENCE_S = 240
LOOK_AGAIN_S = 0.1
SOON_S = 1
NOTED_S = 0.3
SAID_BYTES = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A message to send."""

    topic: str
    body: bytes
    tag: str | None = None
    keys: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    #: Messages with the same word here go to the same queue.
    order: str | None = None
    delay: int = 0
    #: How much later it shows, to the millisecond.
    after_ms: int = 0
    #: ``sync``, ``async`` or ``oneway``.
    how: str = "sync"

    def line(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "body": base64.b64encode(self.body).decode(),
            "tag": self.tag,
            "keys": self.keys,
            "properties": dict(self.properties),
            "order": self.order,
            "delay": self.delay,
            "after_ms": self.after_ms,
            "how": self.how,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What the client's library said about a message it sent."""

    id: str | None = None
    queue: int | None = None
    offset: int | None = None
    #: The broker's own name for it: an address and a place in the log.
    offset_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """What the client's library said about a message it got."""

    body: bytes
    topic: str | None = None
    tag: str | None = None
    keys: str | None = None
    id: str | None = None
    queue: int | None = None
    offset: int | None = None
    reconsumed: int | None = None
    born_ms: int | None = None
    stored_ms: int | None = None
    properties: Mapping[str, str] | None = None

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Received:
        known = {name: line.get(name) for name in cls.__slots__ if name != "body"}
        return cls(body=base64.b64decode(line["body"]), **known)


class ClientFailed(Exception):
    """The client's program did not do what it was told, or not in time."""


class ClientRefused(ClientFailed):
    """The client's library threw; the message is what it said."""


class Driver:
    """A running client program; its methods may be called by several threads at once."""

    def __init__(self, name: str, child: subprocess.Popen[str], log: Path) -> None:
        self._name = name
        self._child = child
        self._log = log
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[Any]] = {}
        self._received: defaultdict[str, list[Received]] = defaultdict(list)
        self._changed = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, name=f"reads {name}", daemon=True)
        self._reader.start()

    # What it is asked

    def send(self, message: Outgoing) -> Sent:
        return Sent(**self._ask("send", **message.line()))

    def send_batch(self, messages: Sequence[Outgoing]) -> Sent:
        """Send several in one request; the ids come as one text, with commas between."""
        lines = [message.line() for message in messages]
        return Sent(**self._ask("batch", topic=messages[0].topic, messages=lines))

    def transaction(self, message: Outgoing, *, commit: bool) -> Sent:
        return Sent(**self._ask("transaction", **message.line(), commit=commit))

    def request(self, message: Outgoing) -> Received:
        """Ask a question; the reply. Consumers reply to what they get, if it is a question."""
        return Received.of(self._ask("request", **message.line()))

    def consume(
        self,
        consumer: str,
        group: str,
        topic: str,
        *,
        expression: str = "*",
        sql: bool = False,
        orderly: bool = False,
        broadcast: bool = False,
        fail: Mapping[bytes, int] | None = None,
        max_retries: int | None = None,
        simple: bool = False,
    ) -> None:
        """Start a consumer; it lets as many deliveries of a body fail as ``fail`` says.

        A ``simple`` one, which only clients that speak gRPC have, asks for messages by itself.
        """
        failing = {base64.b64encode(body).decode(): times for body, times in (fail or {}).items()}
        self._ask(
            "consume",
            consumer=consumer,
            group=group,
            topic=topic,
            expression=expression,
            sql=sql,
            orderly=orderly,
            broadcast=broadcast,
            fail=failing,
            maxRetries=max_retries,
            simple=simple,
        )

    def stop(self, consumer: str) -> None:
        """Shut a consumer down in the way its library has for that."""
        # It told of the last message before its library was told that the message is done with;
        # nothing shows when that has been noted.
        time.sleep(NOTED_S)
        self._ask("stop", consumer=consumer)

    def by_key(self, topic: str, key: str) -> list[Received]:
        return [Received.of(line) for line in self._ask("by_key", topic=topic, key=key)]

    def by_id(self, topic: str, message_id: str) -> Received:
        return Received.of(self._ask("by_id", topic=topic, messageId=message_id))

    def queues(self, topic: str) -> int:
        """How many queues the client finds for a topic.

        Raises:
            ClientRefused: If its library says that there is no such topic.
        """
        return int(self._ask("queues", topic=topic))

    def received(self, consumer: str) -> list[Received]:
        with self._changed:
            return list(self._received[consumer])

    def until(
        self, consumer: str, wanted: Callable[[list[Received]], bool], what: str
    ) -> list[Received]:
        """Wait until the messages of a consumer are as wanted.

        Raises:
            ClientFailed: If they do not become so; the message tells what is there.
        """
        deadline = time.monotonic() + PATIENCE_S
        with self._changed:
            while not (came := wanted(self._received[consumer])):
                if self._ended or time.monotonic() > deadline:
                    break
                self._changed.wait(LOOK_AGAIN_S)  # what is wanted may not be up to this one alone
            got = list(self._received[consumer])
        if came:
            return got
        bodies = [message.body[:40] for message in got]
        raise ClientFailed(
            f"{self._name}: {consumer} got {len(got)}, which is not {what}: {bodies}{self._said()}"
        )

    def until_bodies(self, consumer: str, wanted: Sequence[bytes]) -> list[Received]:
        """Wait until every body came, however often."""
        missing = set(wanted)

        def complete(got: list[Received]) -> bool:
            missing.difference_update(message.body for message in got)
            return not missing

        return self.until(consumer, complete, f"all of {len(wanted)}")

    def comes(self, wanted: Callable[[], bool]) -> bool:
        """Whether something becomes true soon."""
        with self._changed:
            deadline = time.monotonic() + SOON_S
            while not (came := wanted()) and time.monotonic() < deadline:
                self._changed.wait(LOOK_AGAIN_S)
            return came

    # Its lines

    def _ask(self, what: str, **values: Any) -> Any:
        number = next(self._numbers)
        answer: Future[Any] = Future()
        line = json.dumps({"id": number, "do": what, **values}) + "\n"
        with self._changed:
            self._waiting[number] = answer
            if self._ended or self._child.stdin is None:
                raise ClientFailed(f"{self._name} has ended{self._said()}")
            self._child.stdin.write(line)
            self._child.stdin.flush()
        try:
            return answer.result(PATIENCE_S)
        except TimeoutError:
            raise ClientFailed(f"{self._name} does not answer {line[:300]}{self._said()}") from None

    def _read(self) -> None:
        assert self._child.stdout is not None
        for text in self._child.stdout:
            try:
                line = json.loads(text)
            except ValueError:
                continue  # libraries print what they like
            with self._changed:
                if "received" in line:
                    self._received[line["received"]].append(Received.of(line))
                    self._changed.notify_all()
                elif (answer := self._waiting.pop(line["id"], None)) is not None:
                    if "error" in line:
                        answer.set_exception(ClientRefused(line["error"]))
                    else:
                        answer.set_result(line["ok"])
        with self._changed:
            self._ended = True
            for answer in self._waiting.values():
                answer.set_exception(ClientFailed(f"{self._name} ended{self._said()}"))
            self._changed.notify_all()

    def quit(self) -> None:
        """Let it close what its library has open."""
        self._ask("quit")

    def join(self) -> None:
        """Read to the end of what it wrote, which is when it has ended."""
        self._reader.join()

    def _said(self) -> str:
        said = self._log.read_bytes()[-SAID_BYTES:].decode(errors="replace").strip()
        return f"; it printed: {said}" if said else ""


@contextmanager
def driving(
    name: str, command: Sequence[str], scratch: Path, environ: Mapping[str, str]
) -> Iterator[Driver]:
    """Run a client program for the length of the block; what it prints beside goes to a log."""
    log = scratch / f"{name}.log"
    with log.open("ab") as errors:
        child = subprocess.Popen(
            list(command),
            cwd=scratch,
            env=dict(environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    with child:
        driver = Driver(name, child, log)
        try:
            yield driver
            driver.quit()
        finally:
            child.kill()
            child.wait()
            driver.join()
