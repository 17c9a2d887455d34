"""Options, as Spark hands them over."""

from __future__ import annotations

import pickle
from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from rocketpipe.errors import RocketPipeError
from rocketpipe.pipeline.options.read import DEFAULT_GROUP, ReadOptions
from rocketpipe.pipeline.options.selection import Selection
from rocketpipe.pipeline.options.text import OptionError

GOOD = {"nameServer": "127.0.0.1:9876", "subscribe": "orders"}


def test_two_options_are_enough() -> None:
    options = ReadOptions.parse(GOOD)
    assert options == ReadOptions(
        selection=Selection(topics=("orders",)), name_servers="127.0.0.1:9876"
    )
    assert options.group == DEFAULT_GROUP
    assert not options.commits
    assert pickle.loads(pickle.dumps(options)) == options


def test_letter_case_and_blanks_around_values_do_not_matter() -> None:
    given = {"NAMESERVER": " a:1 ; b:2 ", "Subscribe": " orders , returns,", "groupid": " g "}
    options = ReadOptions.parse(given)
    assert options.name_servers == "a:1;b:2"
    assert options.selection.topics == ("orders", "returns")
    assert (options.group, options.commits) == ("g", True)


def test_a_path_takes_the_place_of_servers_and_needs_a_group_beside_them() -> None:
    options = ReadOptions.parse({"path": "/data", "subscribe": "a", "brokerName": "b"})
    assert (options.path, options.name_servers, options.broker_name) == (Path("/data"), None, "b")
    both = GOOD | {"path": "/data"}
    with pytest.raises(OptionError, match="'path' is given beside 'nameServer'"):
        ReadOptions.parse(both)
    assert ReadOptions.parse(both | {"groupId": "g"}).path == Path("/data")


def test_every_option_arrives() -> None:
    options = ReadOptions.parse(
        GOOD
        | {
            "startingTimestamp": "5000",
            "endingOffsets": '{"orders": {"a": {"0": 7}}}',
            "minPartitions": "3",
            "maxBytesPerPartition": "1m",
            "maxOffsetsPerTrigger": "10",
            "maxBytesPerTrigger": "2m",
            "onGap": "SKIP",
            "onBadMessage": "Quarantine",
            "quarantinePath": "file:/srv/odd",
            "timeZone": "Europe/Oslo",
            "columns": "body, queue_id",
            "decode": "json",
            "decodeSchema": "city STRING",
            "keys": "k1,k2",
            "pushDown": "true",
            "batchRows": "100",
            "maxPullBytes": "1m",
        }
    )
    assert options.start is not None
    assert options.start.timestamp_ms == 5000
    assert options.end is not None
    assert list(options.end.offsets.values()) == [7]
    assert (options.min_partitions, options.max_bytes_per_partition) == (3, 1 << 20)
    assert (options.max_offsets_per_trigger, options.max_bytes_per_trigger) == (10, 2 << 20)
    assert (options.on_gap, options.columns) == ("skip", ("body", "queue_id"))
    assert (options.on_bad_message, options.quarantine) == ("quarantine", Path("/srv/odd"))
    assert options.zone == ZoneInfo("Europe/Oslo")
    assert ReadOptions.parse(GOOD).zone is UTC
    assert ReadOptions.parse(GOOD | {"decode": "json", "timeZone": "utc"}).zone is UTC
    assert options.decode == "json"
    assert options.decode_schema is not None
    assert options.decode_schema.names == ["city"]
    assert options.wanted.keys == {"k1", "k2"}
    assert (options.push_down, options.batch_rows, options.max_pull_bytes) == (True, 100, 1 << 20)


@pytest.mark.parametrize(
    ("change", "option", "next_step"),
    [
        ({"nameServer": ""}, "nameServer", 'add .option("nameServer", "127.0.0.1:9876")'),
        ({"subscribe": " "}, "subscribe", 'add .option("subscribe", "orders")'),
        ({"nameServer": "localhost"}, "nameServer", 'write it like "127.0.0.1:9876"'),
        ({"nameServer": "a:99999"}, "nameServer", "'a:99999' is not host:port"),
        ({"groupId": "DEFAULT_CONSUMER"}, "groupId", "choose your own"),
        ({"groupId": ""}, "groupId", "is blank"),
        ({"brokerName": "b"}, "brokerName", "is for 'path'"),
        (
            {"startingOffsets": "earliest", "startingTimestamp": "1"},
            "startingTimestamp",
            "leave one of them out",
        ),
        ({"onGap": "ignore"}, "onGap", "choose one of fail, skip"),
        ({"onBadMessage": "drop"}, "onBadMessage", "choose one of fail, null, skip, quarantine"),
        ({"onBadMessage": "quarantine"}, "quarantinePath", "is missing"),
        ({"quarantinePath": "/odd"}, "quarantinePath", 'is for .option("onBadMessage"'),
        (
            {"onBadMessage": "quarantine", "quarantinePath": "s3://x/y"},
            "quarantinePath",
            "is on s3, and messages are kept on a disk",
        ),
        ({"timeZone": "UTC"}, "timeZone", "is for JSON bodies"),
        ({"decode": "json", "timeZone": "Oslo"}, "timeZone", "is no zone here"),
        ({"decode": "xml"}, "decode", "choose one of json, text"),
        ({"decodeSchema": "a int"}, "decodeSchema", 'add .option("decode", "json")'),
        ({"decode": "json", "decodeSchema": "a"}, "decodeSchema", 'write it like "city STRING'),
        ({"columns": ","}, "columns", "give one, or several"),
        ({"batchRows": "9999999"}, "batchRows", "1000000 is the most"),
        ({"maxPullBytes": "1g"}, "maxPullBytes", "is the most"),
        ({"minPartitions": "none"}, "minPartitions", "give a whole number"),
        ({"subscrbe": "x"}, "subscrbe", "did you mean 'subscribe'?"),
        ({"nameServers": "x"}, "nameservers", "did you mean 'nameServer'?"),
        ({"namesrvAddr": "x"}, "namesrvaddr", "did you mean 'nameServer'?"),
        ({"topic": "x"}, "topic", "did you mean 'subscribe'?"),
        ({"failOnDataLoss": "x"}, "failondataloss", "did you mean 'onGap'?"),
        ({"colour": "x"}, "colour", "There are nameServer, path"),
    ],
)
def test_a_wrong_option_is_named_with_the_next_step(
    change: dict[str, str], option: str, next_step: str
) -> None:
    with pytest.raises(OptionError) as caught:
        ReadOptions.parse(GOOD | change)
    assert caught.value.option == option
    assert str(caught.value).startswith(f"option {option!r} ")
    assert next_step in str(caught.value)
    assert isinstance(caught.value, RocketPipeError)


@pytest.mark.parametrize("missing", ["nameServer", "subscribe"])
def test_a_missing_option_is_named(missing: str) -> None:
    with pytest.raises(OptionError, match=f"option '{missing}' is missing"):
        ReadOptions.parse({name: value for name, value in GOOD.items() if name != missing})


def test_batches_do_not_start_at_the_end_and_streams_do_not_end() -> None:
    with pytest.raises(OptionError, match="'startingOffsets' is latest"):
        ReadOptions.parse(GOOD | {"startingOffsets": "latest"}).check_batch()
    with pytest.raises(OptionError, match=r"'endingTimestamp' is for spark\.read"):
        ReadOptions.parse(GOOD | {"endingTimestamp": "1"}).check_stream()
    with pytest.raises(OptionError, match=r"'endingOffsets' is for spark\.read"):
        ReadOptions.parse(GOOD | {"endingOffsets": "latest"}).check_stream()
    times = {"startingTimestamp": "2024-01-02", "endingTimestamp": "2024-01-01"}
    with pytest.raises(OptionError, match="'endingTimestamp' is not behind 'startingTimestamp'"):
        ReadOptions.parse(GOOD | times).check_batch()
    ReadOptions.parse(GOOD).check_batch()
    ReadOptions.parse(GOOD | {"startingOffsets": "latest"}).check_stream()


def test_a_path_is_a_directory_however_it_is_written() -> None:
    def parsed(path: str) -> Path | None:
        return ReadOptions.parse({"subscribe": "orders", "path": path}).path

    assert parsed("/srv/my store") == Path("/srv/my store")
    assert (
        parsed("file:///srv/my%20store") == parsed("file:/srv/my%20store") == Path("/srv/my store")
    )
    # Whoever reads may have another working directory than whoever planned.
    assert parsed("store") == Path.cwd() / "store"
    with pytest.raises(OptionError, match="'path' is on s3a, and a log is read from a disk"):
        parsed("s3a://bucket/store")


def test_name_servers_may_be_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "b:9876")
    assert ReadOptions.parse({"subscribe": "t"}).name_servers == "b:9876"
    assert ReadOptions.parse(GOOD).name_servers == GOOD["nameServer"]
    of_a_log = ReadOptions.parse({"subscribe": "t", "path": "/srv/store"})
    assert of_a_log.name_servers is None
