"""Spark where users are asked for: it reads and writes as one, and nobody sees the secret."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.scenarios.support.users import make_user

from rocketpipe import Admin, Session
from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.secret import Secret
from rocketpipe.pipeline import launch
from rocketpipe.testing.servers import serving

pytestmark = [pytest.mark.scenario, pytest.mark.spark]

ROOT = Credentials("root", Secret("the-secret-of-root"))
USERS = (
    "authenticationEnabled=true\n"
    'initAuthenticationUser={"username":"root","password":"the-secret-of-root"}\n'
    'innerClientAuthenticationCredentials={"accessKey":"root","secretKey":"the-secret-of-root"}\n'
)


@dataclass
class Place:
    """A guarded server with a topic that some may write and others read."""

    name_server: str
    writer: dict[str, str]
    reader: dict[str, str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    scratch = tmp_path_factory.mktemp("guarded")
    (scratch / "broker.conf").write_text(USERS)
    with serving(scratch, ["-c", str(scratch / "broker.conf")]) as servers:

        async def users() -> tuple[Credentials, Credentials]:
            at = (servers.broker, servers.name_server)
            names, key = servers.name_server, ROOT.access_key
            async with (
                Session(names, access_key=key, secret_key=ROOT.secret) as session,
                Admin(session) as admin,
            ):
                await admin.topics.create("out")
            return (
                await make_user(
                    at, ROOT, "writer", Topic="out:Pub", Group="spark-*:Pub", Cluster="*:Pub,List"
                ),
                await make_user(
                    at, ROOT, "reader", Topic="out:Sub", Group="TOOLS_CONSUMER:Sub seen:Sub"
                ),
            )

        options = []
        for user in asyncio.run(users()):
            file = scratch / f"{user.access_key}.key"
            file.write_text(user.secret.reveal() + "\n")
            options.append(
                {
                    "nameServer": servers.name_server,
                    "accessKey": user.access_key,
                    "secretKeyFile": str(file),
                }
            )
        yield Place(servers.name_server, *options)


def said(error: PySparkException) -> str:
    return str(error)


def test_who_may_writes_and_reads(place: Place, spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(50).selectExpr("cast(id as string) as body")
    out = rows.write.format("rocketpipe").options(**place.writer, topic="out").mode("append")
    out.save()
    out.options(delivery="staged", txn="spark-1").save()
    read = spark.read.format("rocketpipe").options(**place.reader, subscribe="out")
    assert sorted(int(bytes(row.body)) for row in read.load().select("body").collect()) == sorted(
        [*range(50), *range(50)]
    )
    stream = spark.readStream.format("rocketpipe").options(
        **place.reader, subscribe="out", groupId="seen", startingOffsets="earliest"
    )
    query = (
        stream.load()
        .writeStream.format("parquet")
        .options(path=str(tmp_path / "rows"), checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert spark.read.parquet(str(tmp_path / "rows")).count() == 100
    for file in (tmp_path / "checkpoint").rglob("*"):
        assert not file.is_file() or b"the-secret-of" not in file.read_bytes()


def test_who_may_not_is_told_so_in_a_line(place: Place, spark: SparkSession) -> None:
    rows = spark.range(3).selectExpr("cast(id as string) as body")
    with pytest.raises(PySparkException) as error:
        rows.write.format("rocketpipe").options(
            **place.reader, topic="out", delivery="direct"
        ).mode("append").save()
    assert "User:reader has no permission to access Topic:out" in said(error.value)
    with pytest.raises(PySparkException) as error:
        spark.read.format("rocketpipe").options(**place.writer, subscribe="out").load().collect()
    assert "User:writer has no permission to access" in said(error.value)
    nobody = {"nameServer": place.name_server, "subscribe": "out"}
    with pytest.raises(PySparkException) as error:
        spark.read.format("rocketpipe").options(**nobody).load().collect()
    assert "no AccessKey" in said(error.value)
    assert "Traceback" not in said(error.value)


def test_a_secret_that_is_given_as_such_shows_nowhere(
    place: Place, spark: SparkSession, spark_scratch: Path
) -> None:
    secret = "the-secret-of-reader"
    given = {"nameServer": place.name_server, "accessKey": "reader", "secretKey": secret}
    frame = spark.read.format("rocketpipe").options(**given, subscribe="out").load()
    text = io.StringIO()
    with redirect_stdout(text):
        frame.explain(extended=True)
        frame.explain(mode="formatted")
        frame.printSchema()
    assert frame.count() >= 0
    shown = [text.getvalue(), repr(frame), frame.schema.json()]
    plan = frame._jdf.queryExecution()
    shown += [plan.toString(), plan.logical().treeString(), plan.executedPlan().treeString()]
    status = spark._jsparkSession.sharedState().statusStore()
    for each in range(status.executionsList().size()):
        execution = status.executionsList().apply(each)
        shown += [execution.description(), execution.details(), execution.physicalPlanDescription()]
    with pytest.raises(PySparkException) as error:
        spark.read.format("rocketpipe").options(**given, subscribe="not-mine").load().collect()
    shown.append(said(error.value))
    rows = spark.range(3).selectExpr("cast(id as string) as body")
    with pytest.raises(PySparkException) as error:
        rows.write.format("rocketpipe").options(**given, topic="out").mode("append").save()
    shown.append(said(error.value))
    options = ", ".join(f"{name} '{value}'" for name, value in given.items())
    with pytest.raises(PySparkException, match="is not for a table") as error:
        spark.sql(f"CREATE TABLE seen USING rocketpipe OPTIONS ({options}, subscribe 'out')")
    shown.append(said(error.value))
    shown.append((spark_scratch / launch.LOG_NAME).read_text(errors="replace"))
    for text_shown in shown:
        assert secret not in text_shown
