"""Frames that Apache's own classes wrote, sent byte for byte to our servers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE_S

from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.command import Command, HeaderKind
from rocketpipe.protocol.connection import Connection
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.remoting.caller import split_address
from rocketpipe.testing import Cluster, cluster

pytestmark = pytest.mark.scenario

GOLDEN = Path(__file__).parent.parent / "protocol"


def java_requests() -> list[Any]:
    rows = []
    for version in ("5.3.3", "4.9.8"):
        data = json.loads((GOLDEN / "golden" / f"frames-{version}.json").read_text())
        rows += [
            pytest.param(row, id=f"{version}: {row['name']}")
            for row in data["frames"]
            if not row["flag"] & 1
        ]
    return rows


async def exchange(address: str, sent: bytes) -> Command:
    """Send bytes on a socket of our own and read the first answer."""
    reader, writer = await asyncio.open_connection(*split_address(address))
    try:
        writer.write(sent)
        wire = Connection()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                data = await reader.read(65536)
                assert data, "the server closed the connection"
                answers = wire.receive(data)
                if answers:
                    return answers[0]
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("row", java_requests())
async def test_every_java_request_is_answered_in_its_own_form(
    tmp_path: Path, row: dict[str, Any]
) -> None:
    async with cluster(tmp_path) as servers:
        for address in (servers.name_server, servers.broker):
            frame = bytes.fromhex(row["hex"])
            if row["flag"] & 2:
                # It wants no answer: the one that comes is that of the next request.
                probe = Command(code=9999, opaque=row["opaque"] + 1)
                answer = await exchange(address, frame + encode_frame(probe))
                assert answer.opaque == row["opaque"] + 1
            else:
                answer = await exchange(address, frame)
                assert answer.opaque == row["opaque"]
                assert answer.header is HeaderKind["JSON" if row["header"] == "JSON" else "BINARY"]
            assert answer.is_response


def java_header(code: int) -> dict[str, str]:
    rows = json.loads((GOLDEN / "requests" / "golden" / "headers.json").read_text())["headers"]
    (fields,) = [row["fields"] for row in rows if row["code"] == code and row["side"] == "request"]
    return dict(fields)


@pytest.mark.parametrize("code", [10, 310])
async def test_a_send_as_java_spells_it_is_stored_and_answered_as_java_needs_it(
    tmp_path: Path, code: int
) -> None:
    letters = code == 310
    fields = java_header(code)
    fields |= (
        {"b": "orders", "c": "TBW102", "e": "0", "f": "0", "j": "0", "m": "false", "i": ""}
        if letters
        else {
            "topic": "orders",
            "defaultTopic": "TBW102",
            "queueId": "0",
            "sysFlag": "0",
            "reconsumeTimes": "0",
            "batch": "false",
            "properties": "",
        }
    )
    async with cluster(tmp_path) as servers:
        frame = encode_frame(Command(code=code, opaque=5, fields=fields, body=b"from Java"))
        answer = await exchange(servers.broker, frame)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    assert answer.fields["queueId"] == "0"
    assert answer.fields["queueOffset"] == "0"
    assert len(answer.fields["msgId"]) == 32
    # Java's client fails with a null pointer without these two.
    assert answer.fields["MSG_REGION"] == "DefaultRegion"
    assert answer.fields["TRACE_ON"] == "true"


async def test_a_route_has_no_blanks_which_go_clients_cannot_read(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers:
        body = await _route_body(servers)
    assert b" " not in body
    assert b'"brokerAddrs":{"0":"127.0.0.1:' in body


async def _route_body(servers: Cluster) -> bytes:
    frame = encode_frame(Command(code=105, opaque=1, fields={"topic": "TBW102"}))
    return (await exchange(servers.name_server, frame)).body
