"""What a sender's properties ask for, and what is stored of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.intake.sent_properties import (
    BrokerProperties,
    SendOptions,
    is_plain,
    plain_key,
    usual_key,
    waits,
)
from rocketpipe.errors import RequestRejected
from rocketpipe.model.ids import UniqueKeys
from rocketpipe.model.properties import decode, decode_bytes
from rocketpipe.testing.clock import ManualClock

PLAIN = "KEYS\x01k\x02UNIQ_KEY\x01K1\x02WAIT\x01true\x02TAGS\x01A\x02"
OURS = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}


@pytest.fixture
def stamp(tmp_path: object) -> BrokerProperties:
    config = BrokerConfig(data=tmp_path, name_servers=())  # type: ignore[arg-type]
    return BrokerProperties(config, UniqueKeys(bytes(4), 1, 2), ManualClock())


@pytest.mark.parametrize("text", [PLAIN, PLAIN[:-1], "UNIQ_KEY\x01K1", PLAIN + "\x02odd\x02"])
def test_a_usual_text_is_plain(text: str) -> None:
    assert is_plain(text)
    assert is_plain(text.encode())
    assert plain_key(text) == "K1"


@pytest.mark.parametrize(
    "more",
    [
        "DELAY\x013",
        "TRAN_MSG\x01true\x02",
        "TIMER_DELAY_SEC\x011",
        "TIMER_DELAY_MS\x011",
        "TIMER_DELIVER_MS\x011",
        "__STARTDELIVERTIME\x011",
        "POP_CK\x01x",
        "TIMER_DEQUEUE_MS\x011",
        "TIMER_ROLL_TIMES\x011",
        "TIMER_ORIGIN\x011+2",
        "__RMQ.TRANSIENT.TOPIC_SYS_FLAG\x011",
        "MSG_REGION\x01r",
        "TRACE_ON\x01false",
        "CLUSTER\x01c",
        "INNER_NUM\x012",
        "WAIT\x01false",
        "WAIT\x01true-ish",
        "UNIQ_KEY\x01K2",
    ],
)
def test_a_text_that_asks_for_more_is_not_plain(more: str) -> None:
    for text in (PLAIN + more, more + "\x02" + PLAIN):
        assert not is_plain(text)
        assert not is_plain(text.encode())
        assert plain_key(text) is None


@pytest.mark.parametrize("text", ["", "TAGS\x01A\x02", "UNIQ_KEY\x01\x02", "XUNIQ_KEY\x01K\x02"])
def test_a_text_without_a_unique_key_is_not_plain(text: str) -> None:
    assert not is_plain(text)


@pytest.mark.parametrize("more", ["NODELAY\x013", "a\x01DELAY\x02", "DELAYS\x011", "xCLUSTER\x01c"])
def test_a_name_that_only_looks_like_a_special_one_is_plain(more: str) -> None:
    assert is_plain(PLAIN + more)


@given(st.dictionaries(st.sampled_from(["abUNIQ_KEY", "DELAY", "WAIT", "TAGS"]), st.just("1")))
def test_what_is_plain_is_stored_as_it_came_and_stamped(given_properties: dict[str, str]) -> None:
    text = "".join(f"{name}\x01{value}\x02" for name, value in given_properties.items())
    assert is_plain(text) == (
        "UNIQ_KEY" in given_properties and not {"DELAY", "WAIT"} & given_properties.keys()
    )


def test_a_plain_text_gets_the_brokers_own_behind_it(stamp: BrokerProperties) -> None:
    raw = PLAIN.encode()
    assert stamp.stamped(raw) == raw + stamp.suffix
    assert stamp.stamped(raw[:-1]) == raw + stamp.suffix
    assert decode_bytes(stamp.suffix) == OURS


def test_notes_of_clients_go_and_the_brokers_own_replace_what_was_there(
    stamp: BrokerProperties,
) -> None:
    raw = b"TIMER_ORIGIN\x011+2\x02TIMER_DEQUEUE_MS\x015\x02TIMER_ROLL_TIMES\x011\x02"
    raw += (
        b"POP_CK\x01x\x02CLUSTER\x01other\x02UNIQ_KEY\x01K\x02__RMQ.TRANSIENT.GROUP_SYS_FLAG\x011"
    )
    assert decode_bytes(stamp.stamped(raw)) == {"UNIQ_KEY": "K", **OURS}


def test_a_key_is_made_where_there_is_none(stamp: BrokerProperties) -> None:
    first, second = stamp.new_key(), stamp.new_key()
    assert len(first) == 32
    assert first != second
    assert decode_bytes(stamp.stamped(b"TAGS\x01A", first)) == {
        "TAGS": "A",
        "UNIQ_KEY": first,
        **OURS,
    }


def test_wishes_are_read() -> None:
    wishes = SendOptions.of(
        decode(PLAIN + "DELAY\x01+3\x02TRAN_MSG\x01True\x02TIMER_DELIVER_MS\x019")
    )
    assert wishes == SendOptions(
        unique_key="K1", keys="k", delay_level=3, is_half=True, timer="TIMER_DELIVER_MS"
    )
    assert wishes.waits
    assert SendOptions.of({}) == SendOptions(None, None, 0, is_half=False, timer=None)
    assert not SendOptions.of({}).waits
    assert SendOptions.of({"TIMER_DELAY_SEC": "1"}).waits


@pytest.mark.parametrize("level", ["x", "1.5", "", "9" * 11, "٣"])
def test_a_delay_level_that_is_no_number_is_refused(level: str) -> None:
    with pytest.raises(RequestRejected, match="a delay level is a whole number") as refused:
        SendOptions.of({"DELAY": level})
    assert refused.value.code == 13


@pytest.mark.parametrize(
    ("text", "wanted"), [("true", True), ("TRUE", True), ("false", False), ("1", False)]
)
def test_wait_is_read_as_java_reads_it(text: str, wanted: bool) -> None:
    assert waits({"WAIT": text}) is wanted
    assert waits({})


def test_a_key_is_found_where_its_name_starts_a_piece() -> None:
    assert usual_key(b"UNIQ_KEY\x01k\x02TAGS\x01a\x02") == "k"
    assert usual_key(b"a\x01b\x02UNIQ_KEY\x01k") == "k"
    assert usual_key(b"xUNIQ_KEY\x01k\x02") == usual_key(b"") == ""
    assert usual_key(b"UNIQ_KEY\x01k\x02UNIQ_KEY\x01k\x02") is None
    assert usual_key(b"UNIQ_KEY\x01\x02") is None
