"""Holes that RocketMQ had, each tried as it was used there; the names are those of the CVE list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.auth.any_request import any_request
from tests.scenarios.test_access_control import ROOT, Place, exchange, place, send

from rocketpipe.auth.credentials import Credentials
from rocketpipe.errors import RequestRejected
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.brokers import UpdateBrokerConfig
from rocketpipe.protocol.requests.kv import PutKeyValue, UpdateNamesrvConfig
from rocketpipe.protocol.requests.routes import (
    GetBrokerClusterInfo,
    RegisterBroker,
    UnregisterBroker,
    WipeWritePerm,
)
from rocketpipe.protocol.requests.users import (
    GetUser,
    ListUsers,
    UpdateGlobalWhiteAddresses,
    UpdatePlainAccount,
)

__all__ = ["place"]

#: RocketMQ's, in 4.9 and 5.1: it answered with the whole file of accounts.
GET_ACL_CONFIG = 54
GET_BROKER_CONFIG = 26


def files(directory: Path) -> set[Path]:
    return {path for path in directory.rglob("*") if path.is_file()}


async def tried(place: Place, request: Request[Any], by: Credentials | None, at: str = "") -> int:
    with pytest.raises(RequestRejected) as error:
        await place.ask(request, by, at)
    return error.value.code


@pytest.mark.parametrize("topic", ["../../../escaped", "..", "a/../../b", "/etc/x", "a\\b", "a\0b"])
async def test_cve_2019_17572_a_topic_is_no_path(place: Place, tmp_path: Path, topic: str) -> None:
    before = {path.parent for path in files(tmp_path.parent)}
    with pytest.raises(RequestRejected):
        await place.ask(send(topic), ROOT)
    new = {path.parent for path in files(tmp_path.parent)} - before
    assert all(path.is_relative_to(tmp_path) for path in new)
    assert not (tmp_path.parent / "escaped").exists()


@pytest.mark.parametrize(
    "setting",
    [
        "rocketmqHome=/x;sh",
        "filterServerNums=1",
        "storePathRootDir=/x",
        "brokerConfigPath=/x",
    ],
)
async def test_cve_2023_33246_no_setting_runs_a_program_or_names_a_path(
    place: Place, setting: str
) -> None:
    change = UpdateBrokerConfig(properties=f"{setting}\n".encode())
    writer = await place.user("writer", Topic="*:All", Group="*:All")
    assert await tried(place, change, None) == ResponseCode.NO_PERMISSION
    assert await tried(place, change, writer) == ResponseCode.NO_PERMISSION
    # Who may do everything may not do this either.
    assert await tried(place, change, ROOT) != ResponseCode.SUCCESS


@pytest.mark.parametrize(
    "setting",
    [
        "configStorePath=HERE/hole",
        "kvConfigPath=HERE/hole",
        "rocketmqHome=HERE/hole",
    ],
)
async def test_cve_2023_37582_a_name_server_writes_no_file_that_a_peer_names(
    place: Place, setting: str, tmp_path: Path
) -> None:
    body = f"{setting.replace('HERE', str(tmp_path))}\nproductEnvName=* * * * * root id\n".encode()
    change = UpdateNamesrvConfig(properties=body)
    writer = await place.user("writer", Topic="*:All", Group="*:All")
    assert await tried(place, change, None, place.name_server) == ResponseCode.NO_PERMISSION
    assert await tried(place, change, writer, place.name_server) == ResponseCode.NO_PERMISSION
    assert await tried(place, change, ROOT, place.name_server) != ResponseCode.SUCCESS
    assert not [path for path in files(tmp_path) if path.name == "hole"]


async def test_cve_2024_23321_nobody_reads_secrets(place: Place) -> None:
    user = await place.user("user", Topic="*:All", Group="*:All", Cluster="*:All")
    for address in (place.broker, place.name_server):
        for code in (GET_ACL_CONFIG, GET_BROKER_CONFIG):
            for by in (user, ROOT):
                command = by.sign(Command(code=code, opaque=1, fields={}))
                (answer,) = await exchange(address, encode_frame(command))
                assert b"secret-" not in answer.body
                assert answer.code != ResponseCode.SUCCESS or code == GET_BROKER_CONFIG
        told = str(await place.ask(ListUsers(), ROOT, address))
        told += str(await place.ask(GetUser(username="root"), ROOT, address))
        assert "secret-" not in told
        assert "root" in told
    # An address never stands for a login, and nobody has one stand for it.
    assert (
        await tried(place, UpdateGlobalWhiteAddresses(global_white_addrs="*"), ROOT)
        != ResponseCode.SUCCESS
    )
    await place.refused(any_request(ListUsers), None)


async def test_a_user_of_4_9_does_not_make_itself_admin(place: Place) -> None:
    user = await place.user("user", Topic="orders:Pub")
    asked: Any = any_request(UpdatePlainAccount)
    assert "Cluster:" in await place.refused(asked, user)


@pytest.mark.parametrize("kind", [RegisterBroker, UnregisterBroker, WipeWritePerm, PutKeyValue])
async def test_nobody_from_outside_changes_routes(place: Place, kind: type[Request[Any]]) -> None:
    """RocketMQ's NameServers ask for nobody's name, to this day."""
    user = await place.user("user", Topic="*:All", Group="*:All")
    for by in (None, user):
        await place.refused(any_request(kind), by, place.name_server)
    told = (await place.ask(GetBrokerClusterInfo(), ROOT, place.name_server)).cluster_brokers
    assert set(told.brokers) == {"broker-a"}
