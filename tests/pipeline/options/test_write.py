"""Options of a write into one value."""

from __future__ import annotations

import pytest

from rocketpipe.pipeline.options.text import OptionError
from rocketpipe.pipeline.options.write import Delivery, OnRepeat, WriteOptions

HERE = {"nameServer": "127.0.0.1:9876"}


def test_only_the_name_server_is_needed() -> None:
    assert WriteOptions.parse(HERE) == WriteOptions("127.0.0.1:9876")


def test_letter_case_does_not_matter_and_what_spark_adds_is_let_through() -> None:
    given = {
        "NAMESERVER": " a:1 ; b:2 ",
        "Topic": "orders",
        "DELIVERY": "Direct",
        "txn": "job 7",
        "onRepeat": "Skip",
        "GroupId": "sparks",
        "batchbytes": "4096",
        "maxInFlightBytes": "64k",
        "timeoutms": "500",
        "checkpointLocation": "somewhere",
        "queryName": "to-orders",  # Spark's, for a query that has a name
    }
    assert WriteOptions.parse(given) == WriteOptions(
        "a:1;b:2", "orders", Delivery.DIRECT, "job 7", OnRepeat.SKIP, "sparks", 4096, 65536, 500
    )


@pytest.mark.parametrize(
    ("given", "option", "hint"),
    [
        ({}, "nameServer", "is missing"),
        ({"nameServer": "here"}, "nameServer", "is wrong"),
        ({**HERE, "topic": "no good"}, "topic", "is wrong"),
        ({**HERE, "topic": "SCHEDULE_TOPIC_XXXX"}, "topic", "only brokers write to it"),
        ({**HERE, "delivery": "maybe"}, "delivery", "staged and direct"),
        ({**HERE, "txn": ""}, "txn", "1 to 255"),
        ({**HERE, "onRepeat": "never"}, "onRepeat", "fail and skip"),
        ({**HERE, "groupId": "a b"}, "groupId", "is wrong"),
        ({**HERE, "batchBytes": "17"}, "batchBytes", "from 1024 to 4194304"),
        ({**HERE, "timeoutMs": "soon"}, "timeoutMs", "a whole number"),
        ({**HERE, "path": "orders"}, "path", "did you mean 'topic'?"),
        ({**HERE, "delivry": "direct"}, "delivry", "did you mean 'delivery'?"),
    ],
)
def test_a_wrong_option_is_named_with_the_next_step(
    given: dict[str, str], option: str, hint: str
) -> None:
    with pytest.raises(OptionError, match=hint.replace("?", r"\?")) as caught:
        WriteOptions.parse(given)
    assert caught.value.option == option


def test_name_servers_may_be_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "b:9876")
    assert WriteOptions.parse({"topic": "t"}).name_servers == "b:9876"
    assert WriteOptions.parse({**HERE, "topic": "t"}).name_servers == HERE["nameServer"]
