"""Producers and consumers for programs whose servers fork: Django, Flask and others, by gunicorn.

    messaging = Messaging("127.0.0.1:9876")
    billing = messaging.consumer(group="billing")

    @billing.on("orders")
    def bill(message): ...

    def create(request):                    a view
        messaging.producer.send("orders", request.body)

Nothing is opened at import, so that it does not matter whether a server imports the program before
or after it forks. The producer is opened where it is first used, by each process for itself;
consumers by ``start``, which a server's hook calls in each of its workers:

    def post_worker_init(worker):           gunicorn.conf.py
        messaging.start()

    def worker_exit(server, worker):
        messaging.close()
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from rocketpipe.blocking import Admin, Producer, PushConsumer, RocketPipeError, Session
from rocketpipe.errors import ProcessForked
from rocketpipe.integrations.asgi import Application, with_lifespan
from rocketpipe.integrations.readiness import Readiness


class Messaging:
    """A producer a process and any number of consumers; see the top of this file."""

    def __init__(
        self,
        name_servers: str | Callable[[], Session],
        *,
        producer: Callable[[Session], Producer] = Producer,
    ) -> None:
        """Prepare clients of these NameServers; nothing is opened yet.

        In place of NameServers there may be what makes a session, with TLS or a user, and
        ``producer`` what makes a producer of it: each process has its own.

        Raises:
            ValueError: If ``name_servers`` is no list such as ``a:9876;b:9876``.
        """
        if isinstance(name_servers, str):
            servers = name_servers
            self._new_session: Callable[[], Session] = lambda: Session(servers)
        else:
            self._new_session = name_servers
        self._new_session()  # what cannot be is told now
        self._new_producer = producer
        self._consumers: list[PushConsumer] = []
        #: In which process consumers were started; 0 for none.
        self._started_in = 0
        self._here = _Here()
        if hasattr(os, "register_at_fork"):
            mine = weakref.WeakMethod(self._in_child)
            os.register_at_fork(after_in_child=lambda: (forked := mine()) and forked())

    def consumer(self, *, group: str, **options: Any) -> PushConsumer:
        """Make a consumer that ``start`` starts.

        The options are those of ``PushConsumer``.

        Raises:
            InvalidName, ValueError, TypeError: As by ``PushConsumer``.
            ValueError: If consumers were started already.
        """
        if self._started_in:
            raise ValueError(f"group {group!r}: make consumers before they are started")
        made = PushConsumer(self._new_session(), group=group, **options)
        self._consumers.append(made)
        return made

    @property
    def producer(self) -> Producer:
        """The producer of this process, opened now if it was not; threads share it."""
        here = self._here
        if here.producer is None:
            with here.gate:
                if here.producer is None:
                    if here.session is None:  # or of a producer that could not be opened
                        here.session = self._new_session().open()
                    here.producer = self._new_producer(here.session).open()
                    self._close_at_exit(here)
        return here.producer

    # Consumers

    def start(self) -> None:
        """Start the consumers of this process; brokers may be away, and are looked for.

        Raises:
            ProcessForked: If they were started before a fork, in the process above.
            ValueError, GroupTaken, RequestRejected: If one cannot be: it has no handler, say.
        """
        here = self._here
        with here.gate:
            if self._started_in not in (0, os.getpid()):
                raise ProcessForked(self._started_in, os.getpid())
            if self._started_in:
                return
            self._started_in = os.getpid()
            try:
                for consumer in self._consumers:
                    consumer.open()
            except BaseException:
                self.close()
                raise
            self._close_at_exit(here)

    def close(self) -> None:
        """Stop consumers, which finish what they have, and the producer of this process."""
        here = self._here
        if self._started_in == os.getpid():
            # Without the gate: a handler that ends may use the producer for the first time.
            for consumer in self._consumers:
                consumer.stop()  # all at once
            for consumer in self._consumers:
                consumer.close()
            self._started_in = 0
        with here.gate:
            if here.producer is not None:
                here.producer.close()
            if here.session is not None:
                here.session.close()
            if self._here is here:
                self._here = _Here()

    def _close_at_exit(self, here: _Here) -> None:
        """Close what nobody else closes; called after clients opened, to run before their hook."""
        if not here.is_hooked:
            here.is_hooked = True
            closing = weakref.WeakMethod(self.close)
            pid = os.getpid()
            atexit.register(
                lambda: (close := closing()) and os.getpid() == pid and close()  # not in children
            )

    def _in_child(self) -> None:
        # Clients of the parent are the parent's to close. Its gate may be held by a thread of its.
        self._here = _Here()

    # Under ASGI

    def around(self, app: Application) -> Application:
        """An ASGI application around which consumers start and stop, as Django's with uvicorn."""

        @asynccontextmanager
        async def started() -> AsyncIterator[None]:
            await asyncio.to_thread(self.start)
            try:
                yield
            finally:
                await asyncio.to_thread(self.close)

        return with_lifespan(app, started)

    # For probes

    def readiness(self) -> Readiness:
        """Whether a broker answers.

        It takes as long as the session waits for an answer, at most.
        """
        here = self._here
        try:
            _ = self.producer  # and its session
            assert here.session is not None
            with Admin(here.session) as admin:
                answering = admin.brokers.answering()
        except RocketPipeError as error:
            return Readiness(False, str(error))
        return Readiness.of(answering)


class _Here:
    """What one process has."""

    def __init__(self) -> None:
        self.gate = threading.RLock()
        self.session: Session | None = None
        self.producer: Producer | None = None
        self.is_hooked = False
