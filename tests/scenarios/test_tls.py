"""Replicas and Spark over TLS, and what strangers cannot do to ports that enforce it."""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.broker.support.replica_group import ReplicaGroup, log_bytes
from tests.guarded import proving
from tests.waiting import until

from rocketpipe import Message, Producer, Session, TlsSettings
from rocketpipe.broker.config.replication import BrokerRole
from rocketpipe.broker.replication.following.log_reader import LeaderLog, LeaderUnread
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.protocol.request import to_command
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.remoting.authority import Authority
from rocketpipe.remoting.caller import split_address
from rocketpipe.remoting.tls_settings import TlsConfig
from rocketpipe.testing.servers import serving

pytestmark = pytest.mark.scenario


def mutual(authority: Authority) -> TlsConfig:
    pair = authority.server(["a.example"])
    return TlsConfig(
        tls_cert=pair.cert,
        tls_key=pair.key,
        tls_client_auth="require",
        tls_client_ca=authority.ca_file,
    )


async def test_replicas_meet_over_tls_and_nobody_else_reads_the_log(
    tmp_path: Path, authority: Authority
) -> None:
    tls = mutual(authority)
    client = authority.client("app")
    shown = TlsSettings(ca_file=authority.ca_file, cert_file=client.cert, key_file=client.key)
    async with AsyncExitStack() as stack:
        names = await stack.enter_async_context(name_server(NamesrvConfig(port=0, tls=tls)))
        group = ReplicaGroup(tmp_path, names, stack)
        master, slave = (
            dataclasses.replace(group.config(role.name, role, broker_id=number), tls=tls)
            for number, role in enumerate((BrokerRole.SYNC_MASTER, BrokerRole.SLAVE))
        )
        leading = await group.start(master)
        following = await group.start(slave)
        await until(lambda: len(leading.core.group.status().followers) == 1)
        async with Session(names, tls=shown) as session, Producer(session) as producer:
            for number in range(20):
                await producer.send(Message("orders", b"%d" % number))
        await until(lambda: following.log_end == leading.log_end)
        assert log_bytes(following.core) == log_bytes(leading.core)

        place = leading.core.group.status().ha_address
        read = await asyncio.to_thread(LeaderLog, place, None, 0, shown, proving)
        data = await asyncio.to_thread(read.read, 0, 1 << 20)
        assert log_bytes(leading.core).startswith(data)
        read.close()
        for other in (None, TlsSettings(ca_file=authority.ca_file)):
            with pytest.raises(LeaderUnread):
                await asyncio.to_thread(LeaderLog, place, None, 0, other, proving)


async def test_a_plain_send_is_not_stored_where_tls_is_enforced(
    tmp_path: Path, authority: Authority
) -> None:
    pair = authority.server(["a.example"])
    tls = TlsConfig(tls_cert=pair.cert, tls_key=pair.key)
    async with AsyncExitStack() as stack:
        names = await stack.enter_async_context(name_server(NamesrvConfig(port=0, tls=tls)))
        group = ReplicaGroup(tmp_path, names, stack)
        config = dataclasses.replace(group.config("one", None), tls=tls, replication=None)
        running = await group.start(config)
        before = running.log_end
        send = SendMessage(
            producer_group="g",
            topic="orders",
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
            properties="",
            body=b"stolen in",
        )
        reader, writer = await asyncio.open_connection(*split_address(running.address))
        writer.write(encode_frame(to_command(send, 1)) * 10)
        try:
            assert await reader.read() == b""
        except ConnectionResetError:
            pass
        writer.close()
        async with Session(names, tls=TlsSettings(ca_file=authority.ca_file)) as session:
            async with Producer(session) as producer:
                sent = await producer.send(Message("orders", b"in order"))
        assert int(sent.queue_offset) == 0
        assert b"stolen in" not in log_bytes(running.core)
        assert running.log_end > before


def test_spark_reads_and_writes_over_tls(
    tmp_path: Path, authority: Authority, spark: SparkSession
) -> None:
    pair = authority.server(["a.example"], name="spark")
    flags = ["--tls-cert", str(pair.cert), "--tls-key", str(pair.key)]
    with serving(tmp_path, flags) as servers:
        options = {
            "nameServer": servers.name_server,
            "tls": "true",
            "caFile": str(authority.ca_file),
        }
        rows = spark.range(50).selectExpr("cast(id as string) as body")
        rows.write.format("rocketpipe").options(**options, topic="out").mode("append").save()
        found = spark.read.format("rocketpipe").options(**options, subscribe="out").load()
        assert sorted(int(bytes(row.body)) for row in found.select("body").collect()) == list(
            range(50)
        )
