from __future__ import annotations

from rocketpipe.protocol.command import RESPONSE, Command
from rocketpipe.protocol.request import from_command, read_reply
from rocketpipe.protocol.requests.replication import (
    ElectMaster,
    ExchangeHaInfo,
    GetEpochCache,
    GetHaStatus,
    GetSyncState,
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
