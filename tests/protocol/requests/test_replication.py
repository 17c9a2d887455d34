"""Requests of replication: what their fields mean, and whole frames of Apache's 5.5.0."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.protocol.codes import RequestCode, ResponseCode
from rocketpipe.protocol.command import RESPONSE, Command
from rocketpipe.protocol.frame import bounds_at, decode_frame
from rocketpipe.protocol.request import from_command, read_reply, to_command, to_reply
from rocketpipe.protocol.requests.catalog import typed_requests
from rocketpipe.protocol.requests.replication import (
    ElectMaster,
    ExchangeHaInfo,
    GetEpochCache,
    GetHaStatus,
    GetSyncState,
    GetTimerCheckPoint,
    GetTimerMetrics,
)


def answer(**parts: object) -> Command:
    return Command(code=0, opaque=1, flag=RESPONSE, **parts)  # type: ignore[arg-type]


def test_where_a_master_takes_slaves_is_among_the_header_fields() -> None:
    fields = {"masterHaAddress": "h:10912", "masterFlushOffset": "5", "masterAddress": "h:10911"}
    reply = read_reply(ExchangeHaInfo(), answer(fields=fields))
    assert (reply.master_ha_address, reply.master_flush_offset) == ("h:10912", 5)
    assert from_command(ExchangeHaInfo, Command(code=906, opaque=1)) == ExchangeHaInfo()


def test_a_slave_that_follows_nobody_has_no_address() -> None:
    body = (
        b'{"master":false,"masterCommitLogMaxOffset":0,"inSyncSlaveNums":0,"haConnectionInfo":[],'
        b'"haClientRuntimeInfo":{"transferredByteInSecond":0,"maxOffset":7,"lastReadTimestamp":0,'
        b'"lastWriteTimestamp":0,"masterFlushOffset":0}}'
    )
    status = read_reply(GetHaStatus(), answer(body=body)).status
    assert (status.leads, status.following.master, status.following.log_end) == (False, None, 7)


def test_the_last_epoch_has_no_end() -> None:
    body = (
        b'{"clusterName":"c","brokerName":"b","brokerId":1,"maxOffset":9,'
        b'"epochList":[{"epoch":1,"startOffset":0,"endOffset":9223372036854775807}]}'
    )
    cache = read_reply(GetEpochCache(), answer(body=body)).cache
    assert cache.epochs[0].end == (1 << 63) - 1


def test_tools_name_the_groups_they_ask_for() -> None:
    asked = from_command(GetSyncState, Command(code=1006, opaque=1, body=b'["broker-a"]'))
    assert asked.names == b'["broker-a"]'


def test_an_election_names_the_replica_or_none() -> None:
    fields = {
        "clusterName": "c",
        "brokerName": "b",
        "brokerId": "-1",
        "designateElect": "false",
        "invokeTime": "1",
    }
    asked = from_command(ElectMaster, Command(code=1002, opaque=1, fields=fields))
    assert (asked.broker_id, asked.designate_elect) == (-1, False)


EXCHANGES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "golden" / "replication.json").read_text()
)["exchanges"]
KINDS = {code: kind for kind in typed_requests() for code in kind.codes}


def frame(text: str) -> Command:
    data = bytes.fromhex(text)
    bounds = bounds_at(data, 0, len(data))
    assert bounds is not None
    return decode_frame(data, bounds)


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda each: f"{each['code']} {each['name']}")
def test_what_apaches_brokers_and_tools_said_is_read_and_said_alike(
    exchange: dict[str, Any],
) -> None:
    asked, answered = frame(exchange["request"]), frame(exchange["response"])
    kind = KINDS[RequestCode(exchange["code"])]
    request = from_command(kind, asked)
    again = to_command(request, asked.opaque)
    assert (again.code, again.fields, again.body) == (asked.code, asked.fields, asked.body)
    assert answered.code == ResponseCode.SUCCESS
    if kind.reply is type(None):
        assert (answered.fields, answered.body) == ({}, b"")
        return
    ours = to_reply(asked, read_reply(request, answered))
    assert ours.fields == answered.fields
    # Of 1002 theirs has bare numbers as keys, which its own tools cannot read.
    assert ours.body == re.sub(rb"([{,])(\d+):", rb'\1"\2":', answered.body)


def test_what_they_said_means_what_it_should() -> None:
    said = {each["name"]: frame(each["response"]) for each in EXCHANGES}
    master = read_reply(GetHaStatus(), said["a master and its slave"]).status
    assert (master.leads, master.in_sync, master.followers[0].lag) == (True, 1, 0)
    assert master.followers[0].acknowledged == master.log_end == 3026
    slave = read_reply(GetHaStatus(), said["a slave"]).status
    assert (slave.leads, slave.following.log_end) == (False, 3026)
    epochs = read_reply(GetEpochCache(), said["two epochs"]).cache.epochs
    assert [(each.epoch, each.start) for each in epochs] == [(1, 0), (2, 3026)]
    group = read_reply(GetSyncState(), said["a group of two"]).replicas.groups["broker-a"]
    assert (group.leader_id, [each.id for each in group.in_sync]) == (1, [1, 2])
    elected = from_command(ElectMaster, frame(EXCHANGES[_at("an operator names")]["request"]))
    assert (elected.broker_id, elected.designate_elect) == (2, True)
    numbers = read_reply(GetTimerCheckPoint(), said["up to when timed messages were delivered"])
    assert len(numbers.numbers) == 7 * 8
    waiting = read_reply(GetTimerMetrics(), said["how many timed messages wait"]).metrics
    assert [each.count for each in waiting.counts.values()] == [3]


def _at(name: str) -> int:
    return next(at for at, each in enumerate(EXCHANGES) if each["name"].startswith(name))
