"""Where clients are told to connect."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address

import pytest

from rocketpipe.broker.config.advertise import (
    advertised_address,
    check_advertised,
    host_of,
    local_address,
    problem_with,
)
from rocketpipe.broker.tables.clients import SILENT_MS, ClientTable
from rocketpipe.broker.tables.consumer_group import Client
from rocketpipe.protocol.requests.clients import Heartbeat, HeartbeatReply
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.remoting.router import Call, Router, handles
from rocketpipe.remoting.server import Server


class Beaten:
    """A broker that takes heartbeats, into a table of clients."""

    def __init__(self, clients: ClientTable) -> None:
        self._clients = clients

    @handles(Heartbeat)
    async def beat(self, request: Heartbeat, call: Call) -> HeartbeatReply:
        client = Client(connection=call.peer, client_id=request.data.client_id)
        for producer in request.data.producers:
            self._clients.produce(producer.group_name, client, at_ms=1)
        assert not request.data.consumers, "a group of its own would be made"
        return HeartbeatReply()


@pytest.mark.parametrize(
    ("advertise", "bound", "expected"),
    [
        (None, "127.0.0.1:10911", "127.0.0.1:10911"),
        ("10.0.0.5", "0.0.0.0:10911", "10.0.0.5:10911"),
        ("10.0.0.5:80", "0.0.0.0:10911", "10.0.0.5:80"),
        ("broker.example", "0.0.0.0:10911", "broker.example:10911"),
        ("broker.example:80", "0.0.0.0:10911", "broker.example:80"),
        ("fd00::5", "[::]:10911", "[fd00::5]:10911"),
        ("[fd00::5]", "[::]:10911", "[fd00::5]:10911"),
        ("[fd00::5]:80", "[::]:10911", "[fd00::5]:80"),
    ],
)
def test_a_port_is_added_where_none_is_given(
    advertise: str | None, bound: str, expected: str
) -> None:
    assert advertised_address(advertise, bound) == expected


@pytest.mark.parametrize("bound", ["0.0.0.0:10911", "[::]:10911"])
def test_any_address_becomes_one_that_can_be_connected_to(bound: str) -> None:
    host, _, port = advertised_address(None, bound).rpartition(":")
    assert not ip_address(host.strip("[]")).is_unspecified
    assert port == "10911"


@pytest.mark.parametrize("advertise", ["", "a b", "10.0.0.5:x", "host:70000", "a/b:1"])
def test_what_is_no_host_is_refused(advertise: str) -> None:
    with pytest.raises(ValueError):
        advertised_address(advertise, "127.0.0.1:1")


async def found(server: Beaten | None, ours: ClientTable) -> str | None:
    """What is said of an address where ``server`` answers, or a NameServer of sorts."""
    router = Router(server) if server else Router()
    async with Server.bound("127.0.0.1", 0) as listening, Caller() as caller:
        async with listening.serving(router.answer):
            return await problem_with(listening.address, caller, lambda: ours)


def test_this_machine_comes_by_an_address_that_certificates_have() -> None:
    assert local_address("0.0.0.0:9876") == "127.0.0.1:9876"
    assert local_address("[::]:9876") == "[::1]:9876"
    assert local_address("10.0.0.5:9876") == "10.0.0.5:9876"


async def test_an_address_that_leads_to_us_is_fine() -> None:
    ours = ClientTable()
    assert await found(Beaten(ours), ours) is None


async def test_another_broker_is_noticed() -> None:
    assert await found(Beaten(ClientTable()), ClientTable()) == "another broker answers there"


async def test_a_server_that_is_no_broker_is_noticed() -> None:
    assert await found(None, ClientTable()) == "another server answers there"


async def test_an_address_where_nobody_listens_is_noticed() -> None:
    async with Server.bound("127.0.0.1", 0) as gone:
        address = gone.address
    async with Caller() as caller:
        problem = await problem_with(address, caller, ClientTable)
    assert problem is not None
    assert problem.startswith("it cannot be reached from here")


async def test_what_speaks_another_protocol_is_noticed() -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    other = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with other, Caller() as caller:
        host, port = other.sockets[0].getsockname()
        assert await problem_with(f"{host}:{port}", caller, ClientTable) is not None


@pytest.mark.parametrize(
    ("address", "packed"),
    [
        ("10.0.0.5:80", "0a00000500000050"),
        ("localhost:80", "7f00000100000050"),
        ("[fd00::5]:80", "fd00000000000000000000000000000500000050"),
    ],
)
async def test_records_have_the_advertised_address_as_an_ip(address: str, packed: str) -> None:
    assert (await host_of(address)).pack().hex() == packed


async def test_a_host_name_that_nobody_knows_is_an_os_error() -> None:
    with pytest.raises(OSError):
        await host_of("no-such-host.invalid:80")


async def test_a_broker_that_clients_would_not_find_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Server.bound("127.0.0.1", 0) as server:
        async with server.serving(Router(Beaten(ClientTable())).answer):
            await check_advertised(server.address, ClientTable)
    assert "clients will not find this broker" in caplog.text


async def test_what_is_in_a_brokers_table_while_it_looks_is_a_client_like_any_other() -> None:
    """One that is found silent, or listed, while an address is slow to answer."""
    ours = ClientTable()
    async with Server.bound("127.0.0.1", 0) as listening, Caller() as caller:
        async with listening.serving(Router(Beaten(ours)).answer):
            assert await problem_with(listening.address, caller, lambda: ours) is None
            groups, silent = ours.expire(SILENT_MS + 2)
    assert groups == []
    assert [type(client.connection) for client in silent] == [PeerConnection]
