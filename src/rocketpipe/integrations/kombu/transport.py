"""Connections of Kombu's, on a client of ours."""

from __future__ import annotations

import logging
from typing import Any, Final

from kombu.exceptions import ChannelError
from kombu.exceptions import ConnectionError as KombuConnectionError
from kombu.transport import virtual

from rocketpipe import NoBroker, PartlyDone, __version__
from rocketpipe.errors import (
    CallTimeout,
    ConnectionLost,
    InvalidName,
    MessageRefused,
    NoRoute,
    ProcessForked,
    ProducerFull,
    RequestRejected,
    SessionClosed,
)
from rocketpipe.integrations.kombu.arrivals import Arrivals
from rocketpipe.integrations.kombu.channel import Arrival, Channel
from rocketpipe.integrations.kombu.link import Address, Link
from rocketpipe.integrations.kombu.options import DEFAULT_PORT, Options

log = logging.getLogger(__name__)

#: How many messages the hub is given at a time, before it looks at others.
AT_ONCE: Final = 100
SECURE: Final = "rocketpipes"


class Transport(virtual.Transport):
    """RocketPipe, or RocketMQ, for Kombu: ``rocketpipe://host:port//``."""

    Channel = Channel
    default_port = DEFAULT_PORT
    polling_interval = None
    driver_type = "rocketpipe"
    driver_name = "rocketpipe"

    #: Celery connects anew upon these.
    connection_errors = (
        KombuConnectionError,
        ConnectionLost,
        CallTimeout,
        NoRoute,
        NoBroker,
        PartlyDone,
        SessionClosed,
        ProcessForked,
        OSError,
    )
    channel_errors = (ChannelError, RequestRejected, InvalidName, MessageRefused, ProducerFull)
    recoverable_connection_errors = connection_errors
    recoverable_channel_errors = (ProducerFull,)

    implements = virtual.Transport.implements.extend(
        asynchronous=True,
        exchange_type=frozenset(["direct", "topic", "fanout"]),
        heartbeats=False,
    )

    def __init__(self, client: Any, **kwargs: Any) -> None:
        """Take a connection of Kombu's.

        Raises:
            ValueError: If its ``transport_options`` say something that is not known.
        """
        self._options = Options.of(client.transport_options)
        super().__init__(client, **kwargs)
        self.link: Link
        self.arrivals: Arrivals[Arrival]
        self._is_open = False

    def driver_version(self) -> str:
        """Ours."""
        return __version__

    def establish_connection(self) -> Transport:
        """Connect.

        Raises:
            ConnectionLost, CallTimeout, NoBroker: If the cluster is not there.
            AccessDenied: If it does not let in who asks.
            ValueError: If the address makes no sense.
        """
        self.link = Link.shared(self._address())
        self.arrivals = Arrivals()
        self._is_open = True
        return super().establish_connection()  # type: ignore[no-any-return]

    def _address(self) -> Address:
        client, options = self.client, self._options
        host = f"[{client.hostname}]" if ":" in (client.hostname or "") else client.hostname
        servers = options.name_servers or f"{host or '127.0.0.1'}:{client.port or DEFAULT_PORT}"
        ssl = client.ssl or client.transport_cls == SECURE
        return Address(
            servers,
            client.virtual_host or "/",
            options,
            client.userid or options.access_key,
            client.password or options.secret_key,
            options.tls_settings(ssl),
        )

    def verify_connection(self, connection: Transport) -> bool:
        """Whether it can be used: a child that was forked has to connect anew."""
        return self._is_open and self.link.is_ours

    def close_connection(self, connection: Transport) -> None:
        """Close all channels; what they had in hand is given back."""
        if not self._is_open:
            return
        self._is_open = False
        if not self.link.is_ours:
            return  # the parent has it, and closes it
        super().close_connection(connection)
        left = [held for _, _, _, held in self.arrivals.close() if held is not None]
        try:
            if left:
                self.link.run(self.link.holding.give_back(left))
        finally:
            self.link.close()

    def _collect(self, connection: Transport) -> None:
        """Let go of everything, as Kombu has it done after a fork."""
        self.close_connection(connection)

    # Events

    def callback_of(self, queue: str) -> Any:
        """Who consumes from a queue, if somebody does."""
        return self._callbacks.get(queue)

    def drain_events(self, connection: Transport, timeout: float | None = None) -> None:
        """Deliver the next message, and wait for it.

        Raises:
            TimeoutError: If none came in time.
        """
        while True:
            if not self.arrivals.wait(timeout):
                raise TimeoutError
            if self._deliver_next():
                return

    def _deliver_next(self) -> bool:
        arrival = self.arrivals.take()
        if arrival is None:
            return False
        channel, queue, message, held = arrival
        return channel.deliver(queue, message, held)

    def register_with_event_loop(self, connection: Transport, loop: Any) -> None:
        """Have Kombu's hub told when there is something: nothing is polled for."""
        loop.add_reader(self.arrivals.fileno(), self.on_readable, self.arrivals.fileno())

    def unregister_from_event_loop(self, connection: Transport, loop: Any) -> None:
        """Have it told no longer."""
        loop.remove_reader(self.arrivals.fileno())

    def on_readable(self, fileno: int, loop: Any = None) -> None:
        """Deliver what there is."""
        for _ in range(AT_ONCE):
            if not self._deliver_next() and not len(self.arrivals):
                return
