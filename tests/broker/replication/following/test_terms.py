"""On which terms a leader is followed, by what it says of itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rocketpipe.broker.replication.following.terms import (
    OtherFiles,
    Terms,
    TermsDiffer,
    check_terms,
    master_behind,
    terms_of,
)
from rocketpipe.broker.replication.frames import Dialect
from rocketpipe.coordination.coordinator import Leader
from rocketpipe.errors import RequestRejected, RocketPipeError
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.brokers import BrokerConfigReply, GetBrokerConfig
from rocketpipe.protocol.requests.replication import EpochCache, EpochCacheReply, GetEpochCache
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.router import Call, Router, handles
from rocketpipe.remoting.server import Server

OURS = b"mappedFileSizeCommitLog=4096\nhaRetainForFollowers=1\n"


class Broker:
    """Answers what a follower asks first."""

    def __init__(self, settings: bytes | bytearray, refusal: int | None) -> None:
        self._settings = settings
        self._refusal = refusal

    @handles(GetBrokerConfig)
    async def config(self, request: GetBrokerConfig, call: Call) -> BrokerConfigReply:
        return BrokerConfigReply(version="{}", properties=bytes(self._settings))

    @handles(GetEpochCache)
    async def cache(self, request: GetEpochCache, call: Call) -> EpochCacheReply:
        if self._refusal is not None:
            raise RequestRejected(self._refusal, "no epochs here, or not now")
        return EpochCacheReply(cache=EpochCache())


@asynccontextmanager
async def leader(settings: bytes | bytearray, refusal: int | None = None) -> AsyncIterator[Leader]:
    async with Server.bound("127.0.0.1", 0) as server:
        async with server.serving(Router(Broker(settings, refusal)).answer):
            yield Leader(id=0, epoch=0, address=server.address, ha_address="127.0.0.1:1")


#: As RocketMQ 4.9 refuses, and 5.x without a controller.
NO_EPOCHS = (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ResponseCode.SYSTEM_ERROR)


@pytest.mark.parametrize("refusal", [None, *NO_EPOCHS])
async def test_a_master_is_spoken_to_as_it_speaks(refusal: int | None) -> None:
    async with leader(OURS, refusal) as master, Caller() as caller:
        terms = await terms_of(caller, master, elected=False)
    assert terms == Terms(Dialect.EPOCHS if refusal is None else Dialect.PLAIN, 4096, ours=True)


async def test_a_master_that_cannot_say_now_is_asked_again() -> None:
    starting = leader(OURS, ResponseCode.SERVICE_NOT_AVAILABLE)
    async with starting as master, Caller() as caller:
        with pytest.raises(RequestRejected):
            await terms_of(caller, master, elected=False)


async def test_an_elected_leader_speaks_of_epochs_and_is_not_asked() -> None:
    async with leader(OURS, NO_EPOCHS[0]) as elected, Caller() as caller:
        terms = await terms_of(caller, elected, elected=True)
    assert terms == Terms(Dialect.EPOCHS, 4096, ours=True)


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        (b"mappedFileSizeCommitLog=1073741824\n", 1 << 30),
        (b"mappedFileSizeCommitLog=much\n", None),
        (b"", None),
        (b"\xff\xfe=1\n", None),
    ],
)
async def test_a_master_of_apache_s_is_known_by_its_settings(
    settings: bytes, size: int | None
) -> None:
    async with leader(settings, NO_EPOCHS[1]) as master, Caller() as caller:
        assert await terms_of(caller, master, elected=False) == Terms(
            Dialect.PLAIN, size, ours=False
        )


async def test_a_master_of_which_only_the_log_s_port_is_known_is_plain() -> None:
    unnamed = Leader(id=0, epoch=0, address="", ha_address="127.0.0.1:1")
    async with Caller() as caller:
        assert await terms_of(caller, unnamed, elected=False) == Terms(
            Dialect.PLAIN, None, ours=False
        )


async def test_a_master_that_does_not_answer_is_not_taken_for_a_plain_one() -> None:
    async with leader(OURS) as gone:
        pass
    async with Caller() as caller:
        with pytest.raises(RocketPipeError):
            await terms_of(caller, gone, elected=False)


def test_files_of_another_length_are_taken_over_only_by_an_empty_log() -> None:
    terms = Terms(Dialect.EPOCHS, 4096, ours=True)
    check_terms(terms, 4096, empty=False)
    check_terms(Terms(Dialect.PLAIN, None, ours=False), 8192, empty=False)
    with pytest.raises(OtherFiles) as taken:
        check_terms(terms, 8192, empty=True)
    assert taken.value.segment_bytes == 4096
    with pytest.raises(TermsDiffer, match="8192 bytes, the master's have 4096"):
        check_terms(terms, 8192, empty=False)


async def test_whether_it_waits_for_its_slaves_is_known() -> None:
    async with leader(OURS + b"brokerRole=SYNC_MASTER\n") as master, Caller() as caller:
        assert (await terms_of(caller, master, elected=False)).waits


NAMED = b"brokerClusterName=c\nbrokerName=a\nbrokerId=%d\nhaListenPort=%d\n"


@pytest.mark.parametrize(
    ("name", "number", "apart", "found"),
    [("a", 0, 0, True), ("b", 0, 0, False), ("a", 1, 0, False), ("a", 0, 5, False)],
    ids=["it", "another", "a slave", "elsewhere"],
)
async def test_the_port_below_is_asked_whose_slaves_connect_there(
    name: str, number: int, apart: int, found: bool
) -> None:
    settings = bytearray()
    async with leader(settings) as master, Caller() as caller:
        ha_port = int(master.address.rpartition(":")[2]) + 1
        settings[:] = NAMED % (number, ha_port + apart)
        told = await master_behind(caller, f"127.0.0.1:{ha_port}", "c", name)
        assert told == (master.address if found else None)
    async with Caller() as caller:
        assert await master_behind(caller, f"127.0.0.1:{ha_port}", "c", name) is None
