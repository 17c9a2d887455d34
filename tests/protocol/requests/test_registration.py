from __future__ import annotations

import base64
import json
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.errors import BodyError
from rocketpipe.model.route import QueueMapping
from rocketpipe.model.topic import DataVersion, TopicFilterType, TopicSettings
from rocketpipe.protocol.codes import PeerVersion
from rocketpipe.protocol.requests.registration import (
    Registration,
    TopicTableData,
    read_registration,
    registration_crc,
    write_registration,
)

GOLDEN = {
    body["body"]: body["text"]
    for body in json.loads((Path(__file__).parent / "golden" / "bodies.json").read_text())["bodies"]
}
PLAIN = GOLDEN["RegisterBrokerBody"].encode()
COMPRESSED = base64.b64decode(GOLDEN["RegisterBrokerBody, compressed"])

MAPPING = QueueMapping(
    topic="T-a",
    total_queues=8,
    broker_name="broker-a",
    epoch=9,
    dirty=True,
    current_ids={1: 2},
)
VERSION = DataVersion(counter=5, state_version=4, timestamp=1_700_000_000_003)


def topic(**more: object) -> TopicSettings:
    return TopicSettings(
        name="T-a",
        read_queues=4,
        write_queues=5,
        perm=6,
        filter_type=TopicFilterType.MULTI_TAG,
        attributes={"message.type": "FIFO"},
        **more,
    )


def test_a_plain_registration_of_rocketmq_is_read() -> None:
    assert read_registration(PLAIN) == Registration(
        topic_table=TopicTableData(
            topics={"T-a": topic(ordered=True, sys_flag=1)},
            version=VERSION,
            mappings={"T-a": MAPPING},
            mapping_version=DataVersion(timestamp=1_700_000_000_004),
        ),
        filter_servers=("10.0.0.1:1234",),
    )


def test_a_plain_registration_is_written_as_rocketmq_does_but_for_empty_details() -> None:
    # We hold no static topics, so the map of their details is left out rather than empty.
    assert write_registration(read_registration(PLAIN)) == PLAIN.replace(
        b'"topicQueueMappingDetailMap":{},', b""
    )


def test_a_compressed_registration_of_rocketmq_is_read_and_written_byte_for_byte() -> None:
    registration = read_registration(COMPRESSED, compressed=True, version=PeerVersion.V5_3_3)
    assert registration == Registration(
        topic_table=TopicTableData(
            topics={"T-a": topic()}, version=VERSION, mappings={"T-a": MAPPING}
        ),
        filter_servers=("10.0.0.1:1234",),
    )
    again = write_registration(registration, compressed=True, version=PeerVersion.V5_3_3)
    assert zlib.decompress(again) == zlib.decompress(COMPRESSED)


def test_the_checksum_is_rocketmqs() -> None:
    assert registration_crc(PLAIN) == int(GOLDEN["crc32 of RegisterBrokerBody"])


def test_a_broker_of_4_9_sends_neither_attributes_nor_mappings() -> None:
    line = b"T 4 4 6 SINGLE_TAG"
    parts = [b'{"counter":1,"timestamp":2}', None, line, b"[]"]
    stream = b"".join(
        struct.pack(">i", 1) if part is None else struct.pack(">i", len(part)) + part
        for part in parts
    )
    registration = read_registration(
        zlib.compress(stream), compressed=True, version=PeerVersion.V4_9_8
    )
    assert registration.topic_table.topics == {
        "T": TopicSettings(name="T", read_queues=4, write_queues=4)
    }
    assert registration.topic_table.mappings == {}


def test_mappings_are_left_out_for_versions_that_know_none() -> None:
    registration = read_registration(COMPRESSED, compressed=True)
    old = write_registration(registration, compressed=True, version=PeerVersion.V4_9_8)
    read = read_registration(old, compressed=True, version=PeerVersion.V4_9_8)
    assert read.topic_table.topics == registration.topic_table.topics
    assert read.topic_table.mappings == {}


def test_attributes_with_blanks_survive_the_compressed_form() -> None:
    odd = TopicSettings(name="T", attributes={"a key": "a value"})
    registration = Registration(topic_table=TopicTableData(topics={"T": odd}))
    again = read_registration(write_registration(registration, compressed=True), compressed=True)
    assert again == registration


@given(st.integers(0, len(zlib.decompress(COMPRESSED)) - 1))
def test_a_stream_that_ends_early_is_refused_wherever_it_ends(length: int) -> None:
    cut = zlib.compress(zlib.decompress(COMPRESSED)[:length])
    with pytest.raises(BodyError):
        read_registration(cut, compressed=True)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_registration_are_refused(junk: bytes) -> None:
    for body in (junk, zlib.compress(junk)):
        with pytest.raises(BodyError):
            read_registration(body, compressed=True)


@given(st.integers(0, len(COMPRESSED) - 1))
def test_a_truncated_zlib_stream_is_refused(length: int) -> None:
    with pytest.raises(BodyError):
        read_registration(COMPRESSED[:length], compressed=True)


def test_a_stream_that_inflates_too_far_is_refused_before_it_does() -> None:
    bomb = zlib.compress(bytes(50 << 20))
    with pytest.raises(BodyError, match="beyond 1000 bytes"):
        read_registration(bomb, compressed=True, max_bytes=1000)


@pytest.mark.parametrize(
    "line",
    [b"T 4 4 6", b"T x 4 6 SINGLE_TAG", b"T 4 70000 6 SINGLE_TAG", b"T 4 4 6 NO_TAG", b"\xff\xff"],
)
def test_a_topic_of_another_form_is_refused_and_its_place_said(line: bytes) -> None:
    version = b'{"counter":1}'
    stream = b"".join(
        [
            struct.pack(">i", len(version)),
            version,
            struct.pack(">i", 1),
            struct.pack(">i", len(line)),
            line,
        ]
    )
    with pytest.raises(BodyError, match="a topic cannot be read") as caught:
        read_registration(zlib.compress(stream), compressed=True)
    assert caught.value.at == 4 + len(version) + 4


def test_a_broker_may_have_more_topics_than_other_bodies_have_values() -> None:
    many = ",".join(
        f'"t{number}":{{"topicName":"t{number}","perm":6,"readQueueNums":4,"order":false,'
        f'"writeQueueNums":4,"topicSysFlag":0,"topicFilterType":"SINGLE_TAG","attributes":{{}}}}'
        for number in range(50_000)
    )
    body = f'{{"topicConfigSerializeWrapper":{{"topicConfigTable":{{{many}}}}}}}'.encode()
    assert len(read_registration(body).topic_table.topics) == 50_000


def test_an_object_that_was_written_before_is_read_again() -> None:
    mapping = '{"topic":"T","bname":"b","totalQueues":8}'
    body = (
        f'{{"topicConfigSerializeWrapper":{{"topicQueueMappingInfoMap":{{"T":{mapping},'
        '"U":{"$ref":"$.topicConfigSerializeWrapper.topicQueueMappingInfoMap.T"}}}}'
    ).encode()
    mappings = read_registration(body).topic_table.mappings
    assert mappings["U"] == mappings["T"]
    assert mappings["T"].total_queues == 8
