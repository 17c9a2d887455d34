"""The address that clients are told to connect to, which need not be where a broker listens."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
import socket
from collections.abc import Callable
from contextlib import closing
from typing import Final

from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.errors import CallTimeout, ConnectionLost, RequestRejected, RocketPipeError
from rocketpipe.model.host import Host
from rocketpipe.protocol.command import Sign
from rocketpipe.protocol.requests.clients import Heartbeat, HeartbeatData, ProducerData
from rocketpipe.remoting.caller import Caller, split_address
from rocketpipe.remoting.tls_settings import TlsSettings

CHECK_TIMEOUT_MS: Final = 3000

log = logging.getLogger(__name__)

#: Routers need not exist for the kernel to say which of our addresses it would use.
_ELSEWHERE: Final = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}


def advertised_address(advertise: str | None, bound: str) -> str:
    """Give what the NameServers are told, of a broker that is bound to ``bound``.

    A port that ``advertise`` lacks is the bound one. Without ``advertise`` it is ``bound`` itself,
    or this machine's address in its network when that is "any".

    Raises:
        ValueError: If ``advertise`` is neither ``host`` nor ``host:port``.
    """
    host, port = split_address(bound)
    if advertise is None:
        if not _is_any(host):
            return bound
        return _joined(_own_address(":" in host), port)
    try:
        return _joined(str(ipaddress.ip_address(advertise.strip("[]"))), port)
    except ValueError:
        pass
    if ":" not in advertise:
        _check_host(advertise)
        return _joined(advertise, port)
    host, port = split_address(advertise)
    _check_host(host)
    return _joined(host, port)


def local_address(bound: str) -> str:
    """Where this machine itself reaches a server that is bound to ``bound``.

    "Any" is an address to listen on, and in no certificate.
    """
    host, port = split_address(bound)
    return _joined("::1" if ":" in host else "127.0.0.1", port) if _is_any(host) else bound


async def host_of(address: str) -> Host:
    """The advertised address as records and message ids have it: clients connect to it too.

    Raises:
        OSError: If its host name is unknown here.
    """
    host, port = split_address(address)
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # Node.js clients cannot read records with IPv6 hosts.
    *_, place = min(found, key=lambda each: each[0] is not socket.AF_INET)
    return Host.parse(_joined(str(place[0]), port))


async def check_advertised(
    address: str,
    clients: Callable[[], ClientTable],
    tls: TlsSettings | None = None,
    sign: Sign | None = None,
) -> None:
    """Connect to ourselves the way clients will, and warn if that is not possible."""
    # On a connection of its own: it is not needed again, and takes what it said along.
    async with Caller(tls=tls, sign=sign) as caller:
        problem = await problem_with(address, caller, clients)
    if problem is not None:
        log.warning("clients will not find this broker address=%s reason=%s", address, problem)


async def problem_with(
    address: str, caller: Caller, clients: Callable[[], ClientTable]
) -> str | None:
    """Say why clients would not find us at ``address``, or ``None`` when they would.

    A producer of a name that is used nowhere else says there that it is alive: if ``clients``, our
    own, has it then, it is us who answered, whatever stands in between.
    """
    name = f"self-check-{secrets.token_hex(8)}"
    data = HeartbeatData(client_id=name, producers=(ProducerData(group_name=name),))
    try:
        await caller.call(address, Heartbeat(data=data), CHECK_TIMEOUT_MS)
    except ConnectionLost as error:
        return f"it cannot be reached from here: {error.reason}"
    except CallTimeout:
        return f"what listens there did not answer within {CHECK_TIMEOUT_MS} ms"
    except RequestRejected:
        return "another server answers there"
    except RocketPipeError as error:
        return f"what listens there is no broker: {error}"
    return None if clients().producers(name) else "another broker answers there"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens on ``host``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_any(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _own_address(v6: bool) -> str:
    family = socket.AF_INET6 if v6 else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_DGRAM)) as probe:
        try:
            probe.connect((_ELSEWHERE[family], 9))  # datagram: nothing is sent
        except OSError:
            return "::1" if v6 else "127.0.0.1"  # no network but ourselves
        address: str = probe.getsockname()[0]
        return address


def _check_host(host: str) -> None:
    if not host or len(host) > 255 or any(letter.isspace() or letter in "/;,@" for letter in host):
        raise ValueError(f"{host!r} is no host")


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
