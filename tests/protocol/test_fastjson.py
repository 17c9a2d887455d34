"""Bodies: golden ones of Java's read and written again, tolerances, and bombs."""

from __future__ import annotations

import enum
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.errors import BodyError, LocalProtocolError
from rocketpipe.model.body import Body, Int32, Int64
from rocketpipe.protocol.fastjson import read, write

GOLDEN: dict[str, str] = json.loads((Path(__file__).parent / "golden" / "bodies.json").read_text())[
    "bodies"
]


class Queue(Body, frozen=True, kw_only=True, order=True):
    topic: str
    broker_name: str
    queue_id: Int32


class Model(enum.StrEnum):
    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class Where(enum.IntEnum):
    CONSUME_FROM_LAST_OFFSET = 10
    CONSUME_FROM_FIRST_OFFSET = 20


class Wrapper(Body, frozen=True, kw_only=True):
    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    last_timestamp: Int64 = 0
    pull_offset: Int64 = 0


class Stats(Body, frozen=True, kw_only=True):
    consume_tps: float = 0.0
    offset_table: dict[Queue, Wrapper] = msgspec.field(default_factory=dict)


class StatsList(Body, frozen=True, kw_only=True):
    broker_addr: str
    consume_stats_list: list[dict[str, list[Stats]]]
    total_diff: Int64 = 0
    total_inflight_diff: Int64 = 0


class Reset(Body, frozen=True, kw_only=True):
    offset_table: dict[Queue, Int64] = msgspec.field(default_factory=dict)


class Brokers(Body, frozen=True, kw_only=True):
    broker_addrs: dict[Int64, str]
    broker_name: str
    cluster: str
    enable_acting_master: bool = False


class Route(Body, frozen=True, kw_only=True):
    broker_datas: list[Brokers]
    filter_server_table: dict[str, list[str]] = msgspec.field(default_factory=dict)
    order_topic_conf: str | None = None
    queue_datas: list[dict[str, Any]] = msgspec.field(default_factory=list)


class Subscription(Body, frozen=True, kw_only=True):
    class_filter_mode: bool = False
    code_set: set[Int32] = msgspec.field(default_factory=set)
    expression_type: str = "TAG"
    sub_string: str = "*"
    sub_version: Int64 = 0
    tags_set: set[str] = msgspec.field(default_factory=set)
    topic: str


class Consumer(Body, frozen=True, kw_only=True):
    consume_from_where: Where = Where.CONSUME_FROM_LAST_OFFSET
    consume_type: str | None = None
    group_name: str
    message_model: Model = Model.CLUSTERING
    subscription_data_set: list[Subscription] = msgspec.field(default_factory=list)
    unit_mode: bool = False


class Producer(Body, frozen=True, kw_only=True):
    group_name: str


class Heartbeat(Body, frozen=True, kw_only=True):
    client_id: str = msgspec.field(name="clientID")
    consumer_data_set: list[Consumer] = msgspec.field(default_factory=list)
    heartbeat_fingerprint: Int32 = 0
    producer_data_set: list[Producer] = msgspec.field(default_factory=list)
    without_sub: bool = False


class Table(Body, frozen=True, kw_only=True):
    table: dict[str, str]


class Leaf(Body, frozen=True, kw_only=True):
    raw: bytes
    text: str


class Hold(Body, frozen=True, kw_only=True):
    list: tuple[Queue, ...]


class Wrap(Body, frozen=True, kw_only=True):
    hold: Hold


class Inner(Body, frozen=True, kw_only=True):
    name: str | None = None
    me: Producer | None = None
    outer: Producer | None = None


class Outer(Body, frozen=True, kw_only=True):
    inner: Inner


class Numbered(Body, frozen=True, kw_only=True):
    ints: dict[int, Wrapper]
    longs: dict[int, Wrapper]


class TopicStats(Body, frozen=True, kw_only=True):
    offset_table: dict[Queue, dict[str, int]]
    topic_put_tps: float


Q0 = Queue(topic="T", broker_name="broker-a", queue_id=0)
Q1 = Queue(topic="T", broker_name="broker-a", queue_id=1)
ODD = Queue(topic="%RETRY%g,=[x]", broker_name='b.c-d\\e"f', queue_id=2147483647)
SHARED = Wrapper(broker_offset=10, consumer_offset=7, last_timestamp=1700000000000, pull_offset=8)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("heartbeat", Heartbeat),
        ("reset offset", Reset),
        ("route", Route),
        ("key-value table", Table),
        ("register broker", dict[str, Any]),
        ("topic stats", TopicStats),
        ("every character that might be escaped", Leaf),
        ("lock", dict[str, Any]),
    ],
)
def test_writing_a_java_body_again_gives_its_bytes(name: str, kind: Any) -> None:
    assert write(read(GOLDEN[name], kind)).decode() == GOLDEN[name]


def test_a_java_heartbeat_is_read() -> None:
    assert read(GOLDEN["heartbeat"], Heartbeat) == Heartbeat(
        client_id="10.0.0.5@4711#99",
        consumer_data_set=[
            Consumer(
                group_name="cg",
                consume_type="CONSUME_PASSIVELY",
                subscription_data_set=[
                    Subscription(
                        topic="T",
                        sub_string="TagA || TagB",
                        sub_version=1700000000001,
                        tags_set={"TagA", "TagB"},
                        code_set={2598919, 2598920},
                    )
                ],
            )
        ],
        producer_data_set=[Producer(group_name="pg")],
    )


def test_queues_as_keys_are_read() -> None:
    assert read(GOLDEN["reset offset"], Reset) == Reset(
        offset_table={ODD: -1, Q0: 5, Q1: 9223372036854775807}
    )


def test_both_spellings_of_a_route_are_one_route() -> None:
    newer = "route, as NameServers write it for 4.9.4 and later"
    route = read(GOLDEN["route"], Route)
    assert route.broker_datas[0].broker_addrs == {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}
    assert read(GOLDEN[newer], Route) == route
    assert write(route, strict=True).decode() == GOLDEN[newer]


def test_references_by_path_are_followed() -> None:
    stats = read(GOLDEN["consume stats that share one value"], Stats)
    assert stats == Stats(consume_tps=12.5, offset_table={ODD: SHARED, Q0: SHARED, Q1: SHARED})
    shares = read(GOLDEN["consume stats list that shares values, lists and maps"], StatsList)
    inner = Stats(offset_table={ODD: SHARED, Q1: SHARED})
    both = {"g.1": [inner, inner], "g2": [inner, inner]}
    assert shares.consume_stats_list == [both, both]

    numbered = read(GOLDEN["references under number keys"], Numbered)
    assert numbered == Numbered(ints={0: SHARED, 7: SHARED}, longs={5: SHARED, 6: SHARED})


def test_a_reference_to_the_holder_is_harmless_until_it_is_followed() -> None:
    text = GOLDEN["references to the holder, to its holder and by path"]

    assert read(text, Wrap) == Wrap(hold=Hold(list=(Q0, Q0)))
    with pytest.raises(BodyError, match="too far"):
        read(text, dict[str, Any])


def test_relative_references_name_the_holder_and_its_holder() -> None:
    text = '{"groupName":"out","inner":{"groupName":"in","me":{"$ref":"@"},"outer":{"$ref":".."}}}'
    assert read(text, Outer).inner == Inner(
        me=Producer(group_name="in"), outer=Producer(group_name="out")
    )
    assert read('{"a":{"groupName":"g"},"b":{"$ref":"$.a"}}', dict[str, Producer])["b"] == Producer(
        group_name="g"
    )


def test_a_queue_key_may_be_quoted_json() -> None:
    key = '{"brokerName":"broker-a","queueId":0,"topic":"T"}'
    text = f'{{"offsetTable":{{{json.dumps(key)}:5}}}}'
    assert read(text, Reset) == Reset(offset_table={Q0: 5})
    assert write(Reset(offset_table={Q0: 5}), strict=True).decode() == text


def test_a_cpp_heartbeat_is_read() -> None:
    text = (
        '{"clientID":"c","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,"groupName":"g",'
        '"messageModel":0,"subscriptionDataSet":[{"subString":"*","subVersion":"170","topic":"T"}]}]}'
    )
    (consumer,) = read(text, Heartbeat).consumer_data_set
    assert consumer.consume_from_where is Where.CONSUME_FROM_LAST_OFFSET
    assert consumer.message_model is Model.BROADCASTING
    assert consumer.consume_type == "1"
    assert consumer.subscription_data_set[0].sub_version == 170


@pytest.mark.parametrize(
    ("written", "member"),
    [
        ('"CLUSTERING"', Model.CLUSTERING),
        ('"clustering"', Model.CLUSTERING),
        ("0", Model.BROADCASTING),
        ("1", Model.CLUSTERING),
        ('"unheard of"', Model.CLUSTERING),
        ("null", Model.CLUSTERING),
    ],
)
def test_an_enum_comes_by_name_or_number_or_not_at_all(written: str, member: Model) -> None:
    text = f'{{"groupName":"g","messageModel":{written}}}'
    assert read(text, Consumer).message_model is member


def test_an_enum_whose_values_are_not_its_ordinals_still_travels_by_ordinal() -> None:
    first = Where.CONSUME_FROM_FIRST_OFFSET
    assert read('{"groupName":"g","consumeFromWhere":1}', Consumer).consume_from_where is first
    assert b'"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET"' in write(
        Consumer(group_name="g", consume_from_where=first)
    )


def test_null_is_the_default_and_unknown_keys_are_ignored() -> None:
    text = '{"topic":"T","subVersion":null,"tagsSet":null,"subString":null,"new":{"x":[1]}}'
    assert read(text, Subscription) == Subscription(topic="T")
    # and with something only the dialect knows
    assert read(text.replace('"new"', "new"), Subscription) == Subscription(topic="T")


def test_the_last_of_equal_keys_counts() -> None:
    assert read('{"groupName":"a","groupName":"b"}', Producer).group_name == "b"
    assert read("{'groupName':'a','groupName':'b'}", Producer).group_name == "b"


def test_numbers_come_as_text_and_text_as_numbers() -> None:
    text = '{"brokerOffset":"7","consumerOffset":8.0,"pullOffset":"","lastTimestamp":"-1"}'
    assert read(text, Wrapper) == Wrapper(broker_offset=7, consumer_offset=8, last_timestamp=-1)
    assert read('{"groupName":5}', Producer).group_name == "5"
    assert read('{"table":{"a":1,"b":true,"c":1.50,"d":null}}', Table).table == {
        "a": "1",
        "b": "true",
        "c": "1.50",
    }


@pytest.mark.parametrize(
    ("text", "kind", "at", "reason"),
    [
        (b"", Reset, 0, "empty"),
        (b"null", Reset, 0, "null"),
        (b"[]", Reset, 0, "cannot be Reset"),
        (b'{"offsetTable":[]}', Reset, 15, "an array cannot be a map"),
        (b'{"offsetTable":{"x":1}}', Reset, 15, "no object"),
        (b'{"offsetTable":{{"topic":"T"}:1}}', Reset, 30, "lacks broker_name"),
        (b"{}", Producer, 0, "lacks group_name"),
        (b'{"groupName":null}', Producer, 0, "lacks group_name"),
        (b'{"groupName":{}}', Producer, 13, "an object cannot be text"),
        (b'{"brokerOffset":"x"}', Wrapper, 16, "whole number"),
        (b'{"brokerOffset":1.5}', Wrapper, 16, "whole number"),
        (b'{"brokerOffset":9223372036854775808}', Wrapper, 16, "whole number"),
        (b'{"brokerOffset":true}', Wrapper, 16, "whole number"),
        (b'{"topic":"T","brokerName":"b","queueId":2147483648}', Queue, 40, "2147483647"),
        (b'{"raw":"???","text":""}', Leaf, 7, "base64"),
        (b'{"groupName":"g","messageModel":2}', Consumer, 32, "cannot be Model"),
        (b'{"groupName":"g","unitMode":"perhaps"}', Consumer, 28, "true or false"),
        ('{"groupName":"г",x}'.encode(), Producer, 19, "a colon"),
        (b'{"a":{"$ref":"$.b"}}', dict[str, Producer], 5, "reference to nothing"),
        (b'{"a":{"$ref":"$[9999999999]"}}', dict[str, Producer], 5, "no path"),
        (b'{"a":{"$ref":"b"}}', dict[str, Producer], 5, "no path"),
        (b'{"a":{"$ref":".."}}', dict[str, Producer], 5, "beyond the root"),
        (b'{"a":{"$ref":"$.a"}}', dict[str, Producer], 5, "too far"),
        (b"[null]", list[str], 1, "cannot be an item"),
    ],
)
def test_a_body_that_is_not_of_its_kind_says_where(
    text: bytes, kind: Any, at: int, reason: str
) -> None:
    with pytest.raises(BodyError, match=reason) as caught:
        read(text, kind)
    assert caught.value.at == at


LAUGHS = (
    '{"l0":[1,2,3,4,5,6,7,8,9,0],'
    + ",".join(f'"l{n}":[{",".join([f"""{{"$ref":"$.l{n - 1}"}}"""] * 10)}]' for n in range(1, 12))
    + "}"
).encode()

BOMBS: dict[str, tuple[bytes, Any]] = {
    "100,000 open brackets": (b"[" * 100_000, list[Any]),
    "100,000 brackets in a key nobody reads": (
        b'{"groupName":"g","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        Producer,
    ),
    "100,000 nested keys": (b"{" * 100_000, dict[str, Any]),
    "a number of 4,301 digits": (b'{"brokerOffset":' + b"9" * 4301 + b"}", Wrapper),
    "digits in quotes": (b'{"brokerOffset":"' + b"9" * 4301 + b'"}', Wrapper),
    "digits as a key": (b"{" + b"9" * 4301 + b":1}", dict[int, int]),
    "1,000,000 keys": (
        b'{"table":{' + b",".join(b'"%d":"1"' % n for n in range(1_000_000)) + b"}}",
        Table,
    ),
    "1,000,000 items": (b"[" + b"0," * 1_000_000 + b"0]", list[int]),
    "a lone surrogate": (b'{"groupName":"\\ud800"}', Producer),
    "NaN": (b'{"consumeTps":NaN}', Stats),
    "infinity": (b'{"consumeTps":1e999}', Stats),
    "references that multiply": (LAUGHS, dict[str, Any]),
    "a body beyond the limit": (b'"' + b"x" * (16 * 1024 * 1024) + b'"', str),
}


@pytest.mark.parametrize(("bomb", "kind"), BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_is_refused_by_name_in_little_memory(bomb: bytes, kind: Any) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(BodyError):
            read(bomb, kind)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 32 * 1024 * 1024


@pytest.mark.parametrize(("bomb", "kind"), BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_is_refused_with_little_work(
    bomb: bytes, kind: Any, count_calls: Callable[[Callable[[], Any]], int]
) -> None:
    def refuse() -> None:
        with pytest.raises(BodyError):
            read(bomb, kind)

    # Following references up to their bound takes longer than seeing that a text is absurd.
    assert count_calls(refuse) < (2_000_000 if bomb is LAUGHS else 100_000)


def test_doubles_are_written_as_java_writes_them() -> None:
    doubles = json.loads(GOLDEN["doubles"])
    assert write([float("nan") if d is None else d for d in doubles]).decode() == GOLDEN["doubles"]


class Bits(enum.IntFlag):
    WRITE = 2
    READ = 4


class Token(str):
    __slots__ = ()


def test_bits_are_written_as_their_number_and_kinds_of_text_as_text() -> None:
    assert write({"perm": Bits.READ | Bits.WRITE, "token": Token("t")}) == b'{"perm":6,"token":"t"}'
    assert read('{"a":6,"b":2}', dict[str, Bits]) == {"a": Bits.READ | Bits.WRITE, "b": Bits.WRITE}


def test_what_no_body_carries_is_not_written() -> None:
    with pytest.raises(LocalProtocolError, match="complex"):
        write({"a": 1j})
    with pytest.raises(LocalProtocolError, match="surrogate"):
        write({"a": "\ud800"})


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
queues = st.builds(
    Queue, topic=text, broker_name=text, queue_id=st.integers(-(1 << 31), (1 << 31) - 1)
)
wrappers = st.builds(
    Wrapper,
    broker_offset=int64,
    consumer_offset=int64,
    last_timestamp=int64,
    pull_offset=int64,
)
floats = st.floats(allow_nan=False, allow_infinity=False)
bodies = (
    st.builds(Stats, consume_tps=floats, offset_table=st.dictionaries(queues, wrappers, max_size=4))
    | st.builds(Leaf, raw=st.binary(max_size=20), text=text)
    | st.builds(
        Route,
        broker_datas=st.lists(
            st.builds(
                Brokers,
                broker_addrs=st.dictionaries(int64, text, max_size=3),
                broker_name=text,
                cluster=text,
                enable_acting_master=st.booleans(),
            ),
            max_size=3,
        ),
        order_topic_conf=st.none() | text,
    )
    | st.builds(
        Consumer,
        consume_from_where=st.sampled_from(Where),
        message_model=st.sampled_from(Model),
        group_name=text,
        consume_type=st.none() | text,
        subscription_data_set=st.lists(
            st.builds(
                Subscription,
                topic=text,
                tags_set=st.sets(text, max_size=3),
                code_set=st.sets(st.integers(-(1 << 31), (1 << 31) - 1), max_size=3),
                sub_version=int64,
            ),
            max_size=2,
        ),
    )
)


@given(bodies, st.booleans())
def test_a_body_survives_the_wire(body: Body, strict: bool) -> None:
    written = write(body, strict=strict)
    assert read(written, type(body)) == body
    if strict:
        json.loads(written)


@given(bodies)
def test_a_body_reads_the_same_by_either_way(body: Body) -> None:
    # A comment is beyond msgspec, so the second reading goes through the dialect's parser.
    written = write(body)
    assert read(b"/**/" + written, type(body)) == read(written, type(body))


@given(bodies, st.data())
def test_a_damaged_body_is_read_or_refused_by_name(body: Body, data: st.DataObject) -> None:
    written = bytearray(write(body))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(written) - 1))
        written[at] = data.draw(st.integers(0, 255))
    try:
        read(bytes(written), type(body))
    except BodyError as error:
        assert error.at is not None  # noqa: PT017


def test_of_what_is_not_plain_json_there_may_be_only_so_much() -> None:
    plain = b'{"1":1,"2":2,"3":3}'
    odd = b"{1:1,2:2,3:3}"
    assert read(plain, dict[int, int], max_odd_values=2) == {1: 1, 2: 2, 3: 3}
    with pytest.raises(BodyError, match="more values"):
        read(odd, dict[int, int], max_odd_values=2)
