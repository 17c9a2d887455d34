"""What `scan` is told, and how it says what is wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rocketpipe.arrow.arguments import Request, in_python, request
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.options.text import OptionError
from rocketpipe.remoting.tls_settings import TlsSettings


def asked(topic: Any = "orders", **given: Any) -> Request:
    usual = {"start": "first", "end": "last", "tags": None, "schema": None, "tls": None}
    if "name_servers" not in given:
        usual["log"] = Path("/srv/store")
    return request(topic, **{**usual, **given})


def test_arguments_are_the_options_of_the_spark_source() -> None:
    options = asked(["orders", "returns"], columns=["body", "tags"], batch_rows=7).options
    assert options.selection.topics == ("orders", "returns")
    assert options.path == Path("/srv/store")
    assert options.columns == ("body", "tags")
    assert options.batch_rows == 7
    assert (options.start, options.end) == (None, None)
    through = asked(name_servers="a:9876;b:9876", broker_name=None, on_gap="skip").options
    assert (through.name_servers, through.path, through.on_gap) == ("a:9876;b:9876", None, "skip")
    kept = asked(on_bad_message="quarantine", quarantine=Path("/srv/bad")).options
    assert kept.quarantine == Path("/srv/bad")


def test_a_place_is_a_moment_or_offsets() -> None:
    moment = datetime(2026, 5, 1, 8, tzinfo=UTC)
    for said in (moment, "2026-05-01T08:00:00+00:00", str(int(moment.timestamp() * 1000))):
        options = asked(start=said).options
        assert options.start is not None
        assert options.start.timestamp_ms == moment.timestamp() * 1000
    queue = MessageQueue(topic="orders", broker_name="a", queue_id=0)
    for offsets in ({"orders": {"a": {0: 42}}}, '{"orders": {"a": {"0": 42}}}'):
        options = asked(end=offsets).options
        assert options.end is not None
        assert options.end.offsets == {queue: QueueOffset(42)}


def test_tags_are_a_list_or_as_rocketmq_writes_them() -> None:
    assert asked(tags="a || b").wanted.tags == asked(tags=["a", "b"]).wanted.tags == {"a", "b"}
    assert asked(tags="*").wanted.tags is None
    assert asked(keys="k").wanted.keys == {"k"}


def test_a_schema_is_text_or_arrows() -> None:
    told = pa.schema([("city", pa.string()), ("cents", pa.int32())])
    for schema in (told, "city STRING, cents INT"):
        assert asked(decode="json", schema=schema).options.decode_schema == told


def test_who_reads_is_told_as_to_every_client(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = TlsSettings()
    assert asked(name_servers="a:1", tls=settings).options.access.tls is settings
    assert asked(name_servers="a:1", tls=False).options.access.tls is None
    access = asked(name_servers="a:1", access_key="ann", secret_key="s-e-c").options.access
    assert access.access_key == "ann"
    monkeypatch.setenv("ROCKETPIPE_NAMESRV", "env:9876")
    assert asked(log=None).options.name_servers == "env:9876"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"log": None},
            r"'name_servers' is missing: add name_servers=\"127\.0\.0\.1:9876\", or log=",
        ),
        ({"name_servers": "a:1", "log": "/x"}, "'log' is given beside 'name_servers': leave one"),
        ({"start": "last"}, "'start' is \"last\", where nothing"),
        ({"end": "first"}, "'end' is \"first\", so nothing"),
        ({"start": datetime(2026, 5, 1)}, "'start' has no zone"),
        ({"start": 7}, "'start' is 7: give 'first'"),
        ({"start": "noon"}, "'start' is 'noon': give milliseconds"),
        ({"start": "200", "end": "100"}, "'end' is not behind 'start'"),
        ({"tags": []}, "'tags' names nothing"),
        ({"tags": 5}, "'tags' is 5: give a text"),
        (
            {"on_bad_message": "quarantine"},
            r"on_bad_message=quarantine needs quarantine=\"<[a-z]+>\"$",
        ),
        ({"tags": "a || "}, "'tags' names nothing"),
        ({"topic": 7}, "'topic' is 7: give a text"),
        ({"topic": "a b"}, "'topic' is wrong"),
        ({"topic": []}, "'topic' is missing|'topic' names no topic"),
        ({"columns": [7]}, "'columns' is"),
        ({"decode": "xml"}, "'decode' is 'xml': choose one of json"),
        ({"schema": "a int"}, "'schema' is for JSON bodies: add decode=\"json\""),
        ({"schema": pa.schema([])}, "'schema' is for JSON bodies: add decode=\"json\""),
        (
            {"decode": "json", "schema": pa.schema([("n", pa.int32()), ("n", pa.int64())])},
            "'schema' is wrong: column 'n' is there twice",
        ),
        (
            {"decode": "avro"},
            r"'schema_file' is missing: add schema_file=\"orders\.avsc\", or schema_reg",
        ),
        ({"schema_file": "x"}, "'schema_file' is for Avro and Protobuf: add decode=\"avro\""),
        ({"on_gap": "wait"}, "'on_gap' is 'wait': choose one of fail, skip"),
        ({"on_bad_message": "quarantine"}, "'quarantine' is missing"),
        ({"batch_rows": 0}, "'batch_rows' is '0': give a whole number"),
        (
            {"access_key": "ann"},
            "'access_key' is 'ann', and there is no secret: add 'secret_key_file'",
        ),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_arguments(given: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said) as raised:
        asked(**given)
    assert ".option(" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), in_python():
        raise KeyError("x")
