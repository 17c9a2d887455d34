"""One client id, its connections and routes, shared by blocking producers and consumers."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from rocketpipe.auth.secret import Secret
from rocketpipe.blocking.background import Life
from rocketpipe.blocking.wrapper import Client, blocking, passed_on
from rocketpipe.client.observers import Observer
from rocketpipe.client.session import Session as AsyncSession
from rocketpipe.clock import Clock
from rocketpipe.remoting.caller import CALL_TIMEOUT_MS
from rocketpipe.remoting.tls_settings import TlsSettings


class Session(Client[AsyncSession]):
    """What clients of one client id share: ``with Session("a:9876") as session``."""

    def __init__(
        self,
        name_servers: str,
        *,
        clock: Clock | None = None,
        chance: random.Random | None = None,
        instance: str | None = None,
        unit: str | None = None,
        timeout_ms: int = CALL_TIMEOUT_MS,
        tls: bool | TlsSettings | None = None,
        access_key: str | None = None,
        secret_key: str | Secret | None = None,
        secret_key_file: str | Path | None = None,
        anonymous: bool = False,
        said: tuple[tuple[str, str], ...] = (),
        observers: Iterable[Observer] = (),
    ) -> None:
        """Prepare a client of these NameServers; nothing is asked yet.

        ``instance`` takes the place of process and time in the client id, ``unit`` follows them.
        ``timeout_ms`` is for routes, heartbeats and questions about queues. ``tls`` says whether
        all connections are encrypted, and whom to trust; without it the environment says so
        (``ROCKETPIPE_TLS``, ``ROCKETPIPE_CA_FILE`` …).

        ``access_key`` and a secret, given or in the first line of a file, sign all requests; what
        is left out is asked of ``ROCKETPIPE_ACCESS_KEY``, ``ROCKETPIPE_SECRET_KEY`` and
        ``ROCKETPIPE_SECRET_KEY_FILE``. One that is ``anonymous`` signs nothing, whatever the
        environment says. ``said`` are header fields that go with all that is signed: a console's,
        of where its person is. ``observers`` are told of all that its clients send and handle.

        Raises:
            ValueError: If ``name_servers`` is no list such as ``a:9876;b:9876``, or there is no
                time to wait.
            InvalidName: If ``instance`` or ``unit`` cannot be part of a client id.
            ConfigError: If the environment says of TLS what has no sense, or a name has no secret.
        """
        inner = AsyncSession(
            name_servers,
            clock=clock,
            chance=chance,
            instance=instance,
            unit=unit,
            timeout_ms=timeout_ms,
            tls=tls,
            access_key=access_key,
            secret_key=secret_key,
            secret_key_file=secret_key_file,
            anonymous=anonymous,
            said=said,
            observers=observers,
        )
        super().__init__(inner, Life("the session"))

    @classmethod
    def around(cls, inner: AsyncSession, life: Life) -> Session:
        """The face of a session that a client has made for itself, and that lives with it."""
        made = cls.__new__(cls)
        super(Session, made).__init__(inner, life)
        return made

    @property
    def client_id(self) -> str:
        """What brokers call this client."""
        return self._inner.client_id

    @property
    def instance(self) -> str | None:
        """The name that was given to this client among those of its machine, if one was."""
        return self._inner.instance

    @property
    def observers(self) -> tuple[Observer, ...]:
        """Those who are told of what its clients do."""
        return self._inner.observers

    @property
    def is_open(self) -> bool:
        """Whether it is inside its ``with``, or inside that of a client that uses it."""
        return self._inner.is_open

    def check_open(self) -> None:
        """Say clearly that the session cannot be used here and now, if so.

        Raises:
            SessionClosed: If it was not entered yet, or left already.
            ProcessForked: If it was entered in another process.
            LoopBlocked: If the caller runs on the clients' loop.
        """
        self._life.here().check()

    addresses_of = passed_on(AsyncSession.addresses_of)
    beat = blocking(AsyncSession.beat)
    ends_of = blocking(AsyncSession.ends_of)
    leader_of = passed_on(AsyncSession.leader_of)
    reader_of = passed_on(AsyncSession.reader_of)


def inner_of(name_servers: object) -> str | AsyncSession:
    """What the asynchronous clients take for the same.

    Raises:
        TypeError: If it is a session for asyncio, which belongs to another loop, or nothing of use.
    """
    if isinstance(name_servers, Session):
        return name_servers._inner  # noqa: SLF001 - a face's own module may look behind it
    if isinstance(name_servers, str):
        return name_servers
    raise TypeError(
        f"blocking clients take NameServers as text or a rocketpipe.blocking.Session, "
        f"not {type(name_servers).__module__}.{type(name_servers).__qualname__}"
    )
