"""Compiled functions and what they stand for, side by side: on right, cut and changed bytes."""

from __future__ import annotations

import json
import random
from array import array
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.twins import assert_wrong_types_are_refused, compiled_functions, damaged, outcome

from rocketpipe import compiled
from rocketpipe.broker.fast_path.turn import PlainSends
from rocketpipe.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketpipe.record import checksum, hot
from rocketpipe.record.batch import encode_batch
from rocketpipe.store.derived.derivation import Derivation
from rocketpipe.store.index.entries import INDEX_KEY
from rocketpipe.store.log.appender import Appender
from rocketpipe.store.log.puts import Appended, Encoded, Put
from rocketpipe.store.queues.entries import QUEUE_ENTRY

RECORD, PROTOCOL = "rocketpipe.record._hot", "rocketpipe.protocol._hot"
TURN = "rocketpipe.broker.fast_path._turn"
DIGESTS = "rocketpipe.tables._digests"
APPENDER = "rocketpipe.store.log._appender"
RECORDS, DERIVATION = "rocketpipe.store.log._records", "rocketpipe.store.derived._derivation"
QUEUE, INDEX = "rocketpipe.store.queues._entries", "rocketpipe.store.index._entries"
HOSTS = (bytes((127, 0, 0, 1, 0, 0, 42, 159)), bytes(19) + b"\x01")
KEY = "7F0000010001" + "A" * 20

chances = st.builds(random.Random, st.integers(0, (1 << 32) - 1))
PROPERTIES = (
    b"",
    b"TAGS\x01TagA\x02",
    b"KEYS\x01k1 k2  k3\x02UNIQ_KEY\x01" + KEY.encode() + b"\x02",
    b"WAIT\x01true\x02TAGS\x01a\x02UNIQ_KEY\x01" + KEY.encode() + b"\x02",
    b"KEYS\x01a#b\x02__CRC32#\x011234567890\x02",
    b"UNIQ_KEY\x01x\x02UNIQ_KEY\x01\x02TAGS\x01",
    "TAGS\x01标签\x02KEYS\x01键 k\x02".encode(),
    b"x\x01TIMER_DEQUEUE_MS\x01\x02",
    b"p" * 32_740,
)


def same(twin: str, name: str, *arguments: object) -> Any:
    quick, python = compiled_functions(twin)[name]
    given_quick = outcome(quick, *arguments)
    assert given_quick == outcome(python, *arguments), name
    return given_quick


def a_record(chance: random.Random, at: int = 4096) -> bytes:
    born, stored = chance.choice(HOSTS), chance.choice(HOSTS)
    flags = (16 if len(born) > 8 else 0) | (32 if len(stored) > 8 else 0)
    magic, topic = hot.topic_head(chance.choice((b"T", b"orders", b"t" * 200)))
    properties = chance.choice(PROPERTIES[:5])
    sealed = chance.random() < 0.7
    if sealed:
        properties = checksum.reserve(properties)
    body = chance.randbytes(chance.choice((0, 1, 63, 64, 200)))
    where = (chance.randrange(2), 0, chance.randrange(3), at)
    record = hot.encode(
        magic, *where, flags, 1, born, 2, stored, 0, 0, body, topic, properties
    )  # fmt: skip
    return hot.seal(record) if sealed else record


def a_log(chance: random.Random, at: int) -> tuple[bytes, list[tuple[int, int]]]:
    """Records one behind the other, and where each is."""
    log, places = b"", []
    for _ in range(chance.randrange(1, 6)):
        record = a_record(chance, at + len(log))
        places.append((at + len(log), len(record)))
        log += record
    return log, places


@pytest.mark.parametrize("twin", compiled.TWINS)
def test_what_has_a_wrong_type_is_refused(twin: str) -> None:
    assert_wrong_types_are_refused(twin)


# record


def test_a_checksum_is_that_of_zlib() -> None:
    compiled_functions(RECORD)
    twin: Any = compiled.load(RECORD)
    chance = random.Random(3)
    for length in (*range(300), 1000, 4095, 70_001):
        data = chance.randbytes(length)
        assert twin.crc32(data) == twin.crc32_by_tables(data) == crc32(data), length


@given(st.text(st.characters(), max_size=60), st.binary(max_size=90), st.sampled_from(PROPERTIES))
def test_hashes_are_the_same(text: str, noise: bytes, properties: bytes) -> None:
    same(RECORD, "java_hash", text)
    for each in (noise, properties):
        same(RECORD, "tag_code", each)
        for tags in (False, True):
            same(INDEX, "key_hashes", text, each, tags)


@given(chances, st.sampled_from([bytes, bytearray, memoryview]))
def test_the_parts_of_a_record_are_the_same(chance: random.Random, kind: Any) -> None:
    record = a_record(chance)
    buffer = damaged(record + record[: chance.randrange(40)], chance)
    at = chance.choice((0, 0, 0, 1, -1, 7))
    end = chance.choice((len(buffer), len(record), len(buffer) - 1, len(buffer) + 1))
    same(RECORD, "split", kind(buffer), at, end)
    for each in (record, buffer, damaged(record, chance)):
        same(RECORD, "seal", each)
        same(RECORD, "seal_holds", each)


@given(st.binary(max_size=300), st.lists(st.integers(-2, 310), min_size=1), st.integers(0, 99))
def test_runs_have_the_same_sums(data: bytes, places: list[int], seed: int) -> None:
    edges = array("q", sorted(places))
    same(RECORD, "checksums", data, edges[:-1], edges[1:])
    same(RECORD, "checksums", data, edges[:-1], edges[1:], crc32(data))
    same(RECORD, "checksums", data, edges[:-1], edges)
    held = np.frombuffer(data, np.uint8)
    if places and min(places) >= 0 and max(places) <= len(data):
        same(DIGESTS, "hash_runs", held, np.frombuffer(edges, np.int64), seed)


NUMBERS = st.integers(-(1 << 32), 1 << 32) | st.integers(-(1 << 65), 1 << 65)


@given(st.lists(NUMBERS, min_size=9, max_size=9), st.sampled_from([0, 16, 48]), st.binary())
def test_a_record_is_written_or_refused_alike(numbers: list[int], flags: int, body: bytes) -> None:
    born, stored = HOSTS[flags & 16 > 0], HOSTS[flags & 32 > 0]
    a, b, c, d, e, f, g, h, i = numbers
    end = (body, b"\x01T", b"p\x01v\x02")
    same(RECORD, "encode", a, b, c, d, e, flags, f, born, g, stored, h, i, *end)
    same(RECORD, "encode", 7, 3, 0, 7, 9, flags, 5, born, 6, stored, 0, 0, *end)


@given(chances)
def test_a_batch_is_split_alike(chance: random.Random) -> None:
    known = PROPERTIES[3]
    entries = [
        (chance.getrandbits(32) - (1 << 31), chance.randbytes(n), chance.choice((known, b"a")))
        for n in range(chance.randrange(1, 6))
    ]
    batch = encode_batch(entries if chance.random() < 0.5 else [(1, b"b", known)] * 3)
    if chance.random() < 0.6:
        batch = damaged(batch, chance)
    limit = chance.choice((len(batch), len(batch) - 1, 1 << 20))
    same(RECORD, "split_batch", batch, limit)


# store


@given(chances)
def test_messages_become_the_same_records(chance: random.Random) -> None:
    def put() -> Put:
        odd = chance.random() < 0.05
        return Put(
            chance.choice(("T", "orders", "t" * 200)),
            -1 if odd else chance.randrange(3),
            chance.randbytes(chance.choice((0, 10, 300))),
            chance.choice(PROPERTIES[:-1] if chance.random() < 0.97 else PROPERTIES),
            chance.choice((0, 5, -5)),
            chance.choice((0, 4, 8, 12, 48, 1)) if not odd else 1 << 40,
            chance.choice((0, 1_700_000_000_000)),
            chance.choice(HOSTS),
            chance.choice((0, 3)),
            chance.choice((0, 9)),
        )

    groups = [[put() for _ in range(chance.choice((1, 1, 1, 2, 3)))] for _ in range(5)]
    start = chance.choice((0, 7, 4000, 65_000, 1 << 40))
    segment = chance.choice((65_536, 1 << 30, 2000))

    def encode(function: Any) -> object:
        topics: dict[str, tuple[int, bytes]] = {}

        def remember(topic: str) -> tuple[int, bytes]:
            known = topics[topic] = hot.topic_head(topic.encode())
            return known

        seal = segment != 1 << 30 or start > 7
        how = (segment, HOSTS[start == 7], seal, topics, remember, lambda topic, queue: 10 * queue)
        return outcome(function, groups, start, 22, *how)

    quick, python = compiled_functions(APPENDER)["encode_groups"]
    assert encode(quick) == encode(python)


@given(chances)
def test_the_same_follows_from_records(chance: random.Random) -> None:
    topics = (
        ("T", "orders", "日本") if chance.random() < 0.8 else (SCHEDULE_TOPIC, TIMER_TOPIC, "T")
    )
    offsets: dict[tuple[str, int], int] = {}
    records = []
    for at in range(0, chance.randrange(12) * 100, 100):
        topic, queue_id = chance.choice(topics), chance.randrange(2)
        offset = offsets.get((topic, queue_id), 0) + (chance.random() < 0.1)
        offsets[topic, queue_id] = offset + 1
        flags = chance.choice((0, 0, 4, 8, 12, 48))
        properties = chance.choice(PROPERTIES)
        records.append(Appended(at, 90, offset, 1000 + at, topic, queue_id, flags, properties))

    def told(derived: Derivation) -> object:
        runs = [
            (run.topic, run.queue_id, run.first, run.next, run.log_offset, bytes(run.entries))
            for run in derived.runs
        ]
        return derived.records, runs, derived.keys, derived.timed, derived.arrivals

    quick, python = compiled_functions(DERIVATION)["derive"]
    for tags in (False, True):
        arguments = (records, (1000, 5000), tags)
        assert told(quick(*arguments)) == told(python(*arguments))
    log, _ = a_log(chance, 4096)
    known = {b"T": "T", b"orders": "orders", b"t" * 200: "t" * 200}
    if chance.random() < 0.2:
        known[b"T"] = chance.choice((SCHEDULE_TOPIC, TIMER_TOPIC))
    if chance.random() < 0.1:
        del known[b"orders"]
    quick, python = compiled_functions(DERIVATION)["derive_bytes"]
    for wanted in (None, (), {"orders"}):
        lies = (log, 4096, known, (1000, 5000), chance.random() < 0.5, wanted)
        found = python(*lies)
        assert (found and told(found)) == ((again := quick(*lies)) and told(again))


@given(chances)
def test_keys_are_chained_alike(chance: random.Random) -> None:
    quick, python = compiled_functions(INDEX)["chain_entries"]
    hashes = [chance.choice((0, 7, 0x7FFFFFFF, chance.getrandbits(31))) for _ in range(9)]
    if chance.random() < 0.1:
        hashes[4] = -1
    keys = b"".join(
        INDEX_KEY.pack(number, at, at * chance.choice((0, 999, 1 << 50)))
        for at, number in enumerate(hashes)
    )
    results = []
    for function in (quick, python):
        table, dirty = array("i", [0, 3, 0, 1, 0, 0, 0]), bytearray(4)
        begin_ms = len(hashes) % 3 * 500
        found = outcome(function, table, 4, begin_ms, keys, 2, dirty)
        results.append((found, table, dirty) if found[0] is not Exception else found)
    if isinstance(results[1][0][0], bytes):
        assert results[0] == results[1]
    else:
        assert results[0][0] == results[1][0]


@given(chances)
def test_entries_are_chosen_alike(chance: random.Random) -> None:
    at, entries = 4096, b""
    for _ in range(chance.randrange(9)):
        size = chance.choice((91, 200, 0x7FFFFFFF, 0, -5)) if chance.random() < 0.2 else 100
        code = 0 if chance.random() < 0.3 else chance.randrange(-9, 9)
        entries += QUEUE_ENTRY.pack(at, size, code)
        at += 100
    if chance.random() < 0.2:
        entries = damaged(entries, chance)
    for matches in (None, lambda code: code > 0):
        first, most = chance.choice((0, 4096, 4300)), chance.choice((1, 3, 32))
        arguments = (entries, first, most, chance.choice((0, 250, 1 << 20)), matches)
        found = same(QUEUE, "choose_entries", *arguments)
        if isinstance(found[0], list) and found[0]:
            same(QUEUE, "window_end", found[0], 0, at, 16 << 10)
            same(QUEUE, "window_end", found[0], len(found[0]) - 1, 4200, 0)


@given(chances)
def test_the_same_records_are_read_and_passed(chance: random.Random) -> None:
    log, places = a_log(chance, 4096)
    ends = [hot.split(log, at - 4096, at - 4096 + size)[2:4] for at, size in places]
    topics = {log[start:end]: log[start:end].decode("latin-1") for start, end in ends}
    wanted = [(at, size, number) for number, (at, size) in enumerate(places)]
    if chance.random() < 0.5:
        del wanted[chance.randrange(len(wanted))]
    if chance.random() < 0.5:
        log = damaged(log, chance)
    if wanted and chance.random() < 0.2:
        at, size, number = wanted.pop()
        wanted.append((at, size + chance.choice((-1, 1, -300, 1 << 30)), number))
    for verify in (False, True):
        for first in (0, 1):
            same(QUEUE, "sealed_records", log, 4096, wanted, first, verify)
    for place in (0, places[0][1], len(log)):
        same(RECORDS, "sealed_run", log, 4096, place)
        same(RECORDS, "known_run", log, 4096, place, topics)
        same(RECORDS, "known_run", log, 4096, place, {})


# protocol and fast path


@given(chances)
def test_frames_are_found_alike(chance: random.Random) -> None:
    frames = b""
    for _ in range(chance.randrange(5)):
        header, body = chance.randbytes(chance.randrange(20)), chance.randbytes(5)
        word = len(header) | chance.choice((0, 0, 1, 2)) << 24
        frames += (4 + len(header) + 5).to_bytes(4, "big") + word.to_bytes(4, "big") + header + body
    if chance.random() < 0.6:
        frames = damaged(frames, chance)
    at = chance.choice((0, 0, 1, -1))
    end = chance.choice((len(frames), len(frames), max(0, len(frames) - 1), len(frames) + 1))
    same(PROTOCOL, "scan", frames, at, end, chance.choice((1 << 20, 30, 8)))
    same(PROTOCOL, "scan", frames, 0, len(frames))
    same(PROTOCOL, "scan", memoryview(frames), 0, len(frames), 1 << 20)


@given(st.lists(NUMBERS, min_size=5, max_size=5), st.binary(max_size=30))
def test_answers_are_the_same(numbers: list[int], tail: bytes) -> None:
    opaque, code, log_offset, queue_id, queue_offset = numbers
    same(PROTOCOL, "send_reply", opaque, code, b"0A", log_offset, queue_id, queue_offset, tail)
    same(PROTOCOL, "send_reply", 1, 0, b"0A", abs(log_offset) % 2**63, 3, 9, tail)
    same(PROTOCOL, "message_ids", tail, [abs(each) % 2**63 for each in numbers])
    same(PROTOCOL, "message_ids", b"0A", numbers)


LETTERS = {
    "a": "group", "b": "T", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000",
    "h": "0", "i": "", "j": "0", "k": "false", "m": "false", "n": "broker-a",
}  # fmt: skip
ODD = ("", " 1", "01", "-0", "1.0", "+1", "x", "2147483648", "-5", "9" * 30, "true", "é", '"', "\\")
TEXTS = [each.decode("latin-1") for each in PROPERTIES[:6]]


def a_send(chance: random.Random) -> bytes:
    fields = {**LETTERS, "i": chance.choice(TEXTS), "e": chance.choice("0123")}
    batch = chance.random() < 0.4
    body = chance.randbytes(chance.choice((0, 20, 80)))
    if batch:
        fields |= {"m": "true", "i": chance.choice(("WAIT\x01true\x02", "", TEXTS[3]))}
        many = [
            (
                chance.getrandbits(32) - (1 << 31),
                chance.randbytes(n),
                chance.choice(PROPERTIES[2:8]),
            )
            for n in range(chance.randrange(1, 5))
        ]
        body = encode_batch(many)
        if chance.random() < 0.2:
            body = damaged(body, chance)
    while chance.random() < 0.2:
        fields[chance.choice("abcdefghijklmno")] = chance.choice(ODD)
    if chance.random() < 0.1:
        fields.pop(chance.choice(list(fields)))
    header: dict[str, Any] = {
        "code": chance.choice((10, 310, 320)) if chance.random() < 0.1 else 310 + 10 * batch,
        "extFields": fields,
        "flag": chance.choice((0, 0, 0, 2, 1)),
        "language": "JAVA",
        "opaque": chance.choice((5, -5, 1 << 31)) if chance.random() < 0.2 else 7,
        "serializeTypeCurrentRPC": "JSON",
        "version": 455,
    }
    if chance.random() < 0.1:
        items = list(header.items())
        chance.shuffle(items)
        header = dict(items)
    text = json.dumps(
        header,
        separators=(",", ":") if chance.random() < 0.9 else (", ", ": "),
        ensure_ascii=chance.random() < 0.7,
    ).encode()
    if chance.random() < 0.1:
        text = damaged(text, chance)
    length = 4 + len(text) + len(body)
    return length.to_bytes(4, "big") + len(text).to_bytes(4, "big") + text + body


@given(chances)
def test_a_turn_takes_stores_and_answers_alike(chance: random.Random) -> None:
    known = PlainSends(chance.choice((b"S\x01s\x02", b"S\x01#\x02")), chance.choice((30, 1 << 20)))
    known.queues |= {"T": 3}
    reads = [
        (b"".join(a_send(chance) for _ in range(chance.randrange(1, 5))), number // 2)
        for number in range(6)
    ]
    kept = Put("U", 1, b"b", b"p\x01v", 0, 0, 5, HOSTS[0])
    keeps = chance.randrange(9)
    start, segment = chance.choice((0, 1 << 40)), chance.choice((1 << 20, 2000))
    start += chance.randrange(segment)

    def outcome_of(kind: Any) -> object:
        turn = kind(known)
        turn = turn.another() if keeps % 2 else turn
        seen: list[object] = []
        for number, (data, peer) in enumerate(reads):
            at = turn.take(data, 0, len(data), 1 << 20, peer, HOSTS[peer % 2])
            seen.append((at, len(turn), turn.size))
            if number == keeps:
                turn.keep([kept, kept], peer, 3, 1, "", data, (0, 1, 2))
        if not len(turn) or keeps == 7:
            return [*seen, list(turn.asked)]
        appender = Appender(segment, HOSTS[keeps % 2], lambda topic, queue: 10 * queue, seal=True)
        encoded = outcome(turn.encode, appender, start, 22)
        if not isinstance(encoded, Encoded):
            return [*seen, encoded, list(turn.asked)]
        told: dict[int, bytes] = {}
        for peer, data in turn.answers(10, b"0A0B", b"tail"):
            told[peer] = told.get(peer, b"") + data
        seen += (encoded._replace(placed=None), sorted(turn.tally()), told)
        return [*seen, list(turn.asked)]

    quick, python = compiled_functions(TURN)["Turn"]
    assert outcome_of(quick) == outcome_of(python)
