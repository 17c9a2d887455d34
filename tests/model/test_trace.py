from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.errors import PropertiesError, RecordError, RocketPipeError
from rocketpipe.model.trace import (
    Consumed,
    Consuming,
    Outcome,
    Published,
    Recalled,
    TracedKind,
    TransactionEnded,
    decode,
    encode,
    lookup_keys,
)

FIELD = st.none() | st.text(
    st.characters(exclude_characters="\x01\x02"), min_size=1, max_size=20
).filter(lambda text: text != "null")
NUMBER = st.integers(-(10**18), 10**18)
WHO = {"time_ms": NUMBER, "region": FIELD, "group": FIELD, "topic": FIELD, "message_id": FIELD}
WHAT = {"tags": FIELD, "keys": FIELD, "store_host": FIELD, "kind": st.sampled_from(TracedKind)}
RECORDS = st.one_of(
    st.builds(
        Published,
        **WHO,
        **WHAT,
        body_bytes=NUMBER,
        cost_ms=NUMBER,
        offset_id=FIELD,
        success=st.booleans(),
        client_host=FIELD,
    ),
    st.builds(
        Consuming,
        time_ms=NUMBER,
        region=FIELD,
        group=FIELD,
        request_id=FIELD,
        message_id=FIELD,
        retries=NUMBER,
        keys=FIELD,
    ),
    st.builds(
        Consumed,
        request_id=FIELD,
        message_id=FIELD,
        cost_ms=NUMBER,
        success=st.booleans(),
        keys=FIELD,
        outcome=st.sampled_from(Outcome),
        time_ms=NUMBER,
        group=FIELD,
    ),
    st.builds(
        TransactionEnded,
        **WHO,
        **WHAT,
        transaction_id=FIELD,
        state=st.sampled_from(["COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"]),
        from_check=st.booleans(),
    ),
    st.builds(Recalled, **WHO, success=st.booleans()),
)


def test_records_of_apache_5_3_3_are_written_again_byte_for_byte(apache: dict[str, Any]) -> None:
    kinds = [case["type"] for case in apache["traces"]]
    assert set(kinds) == {"Pub", "SubBefore", "SubAfter", "EndTransaction", "Recall"}
    for case in apache["traces"]:
        assert encode(decode(case["text"])) == case["text"], case


def test_the_fields_of_apache_5_3_3_mean_what_they_say(apache: dict[str, Any]) -> None:
    published, unsent, consuming, consumed, clouded, ended, recalled = (
        decode(case["text"]) for case in apache["traces"]
    )
    assert published == [
        Published(
            time_ms=1700000000000,
            region="DefaultRegion",
            group="pg",
            topic="T",
            message_id="0A000003303911D4CDDB1E0E4F0B0000",
            tags="TagA",
            keys="k1 k2",
            store_host="10.0.0.1:10911",
            body_bytes=5,
            cost_ms=12,
            kind=TracedKind.NORMAL,
            offset_id="0A00000100002A9F0000000000001000",
            success=True,
        )
    ]
    assert isinstance(unsent[0], Published)
    assert (unsent[0].tags, unsent[0].kind, unsent[0].success) == (None, TracedKind.DELAYED, False)
    assert [record.message_id for record in consuming] == [published[0].message_id, "M2"]
    assert isinstance(consuming[0], Consuming)
    assert (consuming[0].request_id, consuming[0].retries) == ("R1", 3)
    assert isinstance(consumed[0], Consumed)
    assert (consumed[0].outcome, consumed[0].time_ms) == (Outcome.EXCEPTION, 1700000000000)
    assert consumed[0].group == "pg"
    assert isinstance(clouded[0], Consumed)
    assert (clouded[0].time_ms, clouded[0].group) == (None, None)
    assert isinstance(ended[0], TransactionEnded)
    assert (ended[0].state, ended[0].from_check) == ("COMMIT_MESSAGE", True)
    assert recalled == [
        Recalled(
            time_ms=1700000000000,
            region="DefaultRegion",
            group="pg",
            topic="T",
            message_id="0A000003303911D4CDDB1E0E4F0B0000",
            success=True,
        )
    ]


def test_the_keys_of_a_trace_message_are_those_of_apache_5_3_3(apache: dict[str, Any]) -> None:
    for case in apache["traces"]:
        if case["type"] != "Recall":  # its keys are in no field of the record
            assert sorted(lookup_keys(decode(case["text"]))) == case["keys"]


@given(st.lists(RECORDS, max_size=4))
def test_what_was_written_is_read_back(records: list[Any]) -> None:
    assert decode(encode(records)) == records


@given(st.lists(RECORDS, min_size=1, max_size=2), st.data())
def test_a_text_cut_anywhere_is_read_or_refused(records: list[Any], data: st.DataObject) -> None:
    text = encode(records)
    cut = data.draw(st.integers(0, len(text)))
    refused_at = 0
    try:
        decode(text[:cut])
    except RecordError as error:
        refused_at = error.at
    assert 0 <= refused_at <= cut


@given(st.text(alphabet="PubSAfterRecl\x01\x020123null-", max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        decode(text)
    except RocketPipeError:
        pass


OLD_PUB = "Pub\x0117\x01r\x01g\x01T\x01id\x01tag\x01k\x01host\x015\x0112\x010"


def test_old_clients_wrote_fewer_fields() -> None:
    (without_success,) = decode(OLD_PUB + "\x02")
    (without_offset_id,) = decode(OLD_PUB + "\x01false\x02")
    (with_client_host,) = decode(OLD_PUB + "\x01oid\x01true\x0110.0.0.9\x02")
    assert isinstance(without_success, Published)
    assert without_success.success
    assert isinstance(without_offset_id, Published)
    assert (without_offset_id.offset_id, without_offset_id.success) == (None, False)
    assert isinstance(with_client_host, Published)
    assert (with_client_host.offset_id, with_client_host.client_host) == ("oid", "10.0.0.9")
    (bare,) = decode("SubAfter\x01R\x01id\x0112\x01true\x01k\x02")
    assert isinstance(bare, Consumed)
    assert bare.outcome is Outcome.SUCCESS


def test_types_that_are_not_known_are_skipped() -> None:
    assert decode("Future\x01x\x02\x02" + OLD_PUB) == decode(OLD_PUB)
    assert decode("") == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Pub\x0117\x02", "too few"),
        ("Pub\x02", "too few"),
        (OLD_PUB.replace("17", "soon"), "'soon' is not a whole number"),
        (OLD_PUB.replace("17", "9" * 30), "not a whole number"),
        (OLD_PUB.removesuffix("0") + "5", "5 is no TracedKind"),
        ("SubAfter\x01R\x01id\x0112\x01true\x01k\x019\x02", "9 is no Outcome"),
        ("Recall\x0117\x01r\x02", "too few"),
    ],
)
def test_a_record_that_is_not_whole_is_refused_where_it_starts(text: str, reason: str) -> None:
    with pytest.raises(RecordError, match=reason) as caught:
        decode(OLD_PUB + "\x02" + text)
    assert caught.value.at == len(OLD_PUB) + 1


def test_what_has_no_id_gives_no_key() -> None:
    record = Recalled(time_ms=1, region=None, group=None, topic=None, message_id=None, success=True)
    assert lookup_keys([record]) == ()


def test_a_separator_inside_a_field_is_refused() -> None:
    record = Recalled(
        time_ms=1, region="r", group="g", topic="a\x01b", message_id="m", success=True
    )
    with pytest.raises(PropertiesError, match="separate"):
        encode([record])
