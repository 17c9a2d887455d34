"""What the codecs cost: microseconds per operation, beside ``json.loads`` of the same header.

Times are CPU time of this process, the median of several repeats, with the garbage collector
frozen. Run it as ``make bench-codec``, or ``python benchmarks/codec.py [body bytes]``.
"""

from __future__ import annotations

import gc
import json
import statistics
import struct
import sys
import time
from collections.abc import Callable

from reference_lane import ReferenceLane

from rocketpipe.protocol import header_json
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.connection import Connection
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.protocol.hot import read_pull, read_send, scan, send_reply, send_reply_tail
from rocketpipe.protocol.request import from_command, to_reply
from rocketpipe.protocol.requests.sending import SendMessage, SendMessageReply
from rocketpipe.record.codec import RecordView, decode_record
from rocketpipe.record.hot import encode, tag_code, topic_head

FRAMES = 64
REPEATS = 15
BORN = bytes((127, 0, 0, 1)) + (4660).to_bytes(4, "big")
STORE = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
STORE_HEX = STORE.hex().upper().encode()
NOW_MS = 1_700_000_000_000
QUEUE_ENTRY = struct.Struct(">qiq")
TARGET = 1.3


def send_frame(number: int, body_bytes: int) -> bytes:
    """A send as a Java producer writes it."""
    properties = (
        f"KEYS\x01k{number}\x02TAGS\x01Tag{'ABCD'[number % 4]}\x02"
        f"UNIQ_KEY\x017F00000100002A9FDEADBEEF{number:08d}\x02WAIT\x01true\x02"
    )
    fields = {
        "a": "bench_producer",
        "b": "BenchTopic",
        "c": "TBW102",
        "d": "4",
        "e": str(number % 4),
        "f": "0",
        "g": "1700000000000",
        "h": "0",
        "i": properties,
        "j": "0",
        "k": "false",
        "l": "0",
        "m": "false",
    }
    return encode_frame(
        Command(code=310, opaque=10_000_000 + number, fields=fields, body=b"x" * body_bytes)
    )


class ComposedLane:
    """The house's own parts put together as the broker's send lane does."""

    def __init__(self) -> None:
        self.queues: dict[tuple[str, int], list[int]] = {}
        self.topics: dict[str, tuple[int, bytes]] = {}
        self.tail = send_reply_tail("DefaultRegion", True)
        self.written = 0
        self.entries: list[bytes] = []

    def process(self, data: memoryview, end: int) -> tuple[list[bytes], list[bytes]]:
        records: list[bytes] = []
        answers: list[bytes] = []
        queues, topics, entries, tail = self.queues, self.topics, self.entries, self.tail
        written = self.written
        for at, body, stop in scan(data, 0, end):
            header = read_send(data, at, body)
            assert header is not None, "the benchmark sends nothing unusual"
            fields = header.fields
            name, number = fields.topic, fields.queue_id
            queue = queues.get((name, number))
            if queue is None:
                queue = queues[name, number] = [0]
                topics[name] = topic_head(name.encode())
            magic, topic = topics[name]
            offset = queue[0]
            queue[0] = offset + 1
            properties = fields.properties.encode()
            record = encode(
                magic,
                number,
                fields.flag,
                offset,
                written,
                fields.sys_flag,
                fields.born_ms,
                BORN,
                NOW_MS,
                STORE,
                fields.reconsume_times,
                0,
                data[body:stop],
                topic,
                properties,
            )
            records.append(record)
            entries.append(QUEUE_ENTRY.pack(written, len(record), tag_code(properties)))
            answers.append(send_reply(header.opaque, 0, STORE_HEX, written, number, offset, tail))
            written += len(record)
        self.written = written
        return records, answers

    def reset(self) -> None:
        self.written = 0
        self.entries.clear()
        for queue in self.queues.values():
            queue[0] = 0


def micros(operation: Callable[[], object], calls: int) -> float:
    """CPU microseconds of one call, by the median of the repeats."""
    taken = []
    for _ in range(REPEATS):
        started = time.process_time()
        for _ in range(calls):
            operation()
        taken.append((time.process_time() - started) * 1e6 / calls)
    return statistics.median(taken)


def check_same(data: memoryview) -> None:
    """Both lanes must store the same bytes and give the same answers."""
    reference, composed = ReferenceLane(STORE, 2 * len(data)), ComposedLane()
    pieces = reference.process(data, len(data), BORN, NOW_MS)
    records, answers = composed.process(data, len(data))
    assert b"".join(records) == bytes(reference.log[: reference.written]), "records differ"
    entries = {entry for queue in reference.queues.values() for entry in queue.entries}
    assert entries == set(composed.entries), "consume queue entries differ"
    theirs, ours = Connection().receive(b"".join(pieces)), Connection().receive(b"".join(answers))
    assert len(theirs) == len(ours) == FRAMES
    for their, our in zip(theirs, ours, strict=True):
        assert (their.code, their.opaque, their.flag) == (our.code, our.opaque, our.flag)
        assert their.fields.items() <= our.fields.items(), "answers differ"


def main() -> None:
    body_bytes = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    one = send_frame(1, body_bytes)
    data = memoryview(bytearray(b"".join(send_frame(n, body_bytes) for n in range(FRAMES))))
    check_same(data)
    view = memoryview(one)
    ((_, body, stop),) = scan(view, 0, len(view))
    header = one[8:body]
    (command,) = Connection().receive(one)
    reply = SendMessageReply(
        msg_id="7F00000100002A9F0000000000000000", queue_id=1, queue_offset=5,
        region="DefaultRegion", trace_on=True,
    )  # fmt: skip
    tail = send_reply_tail("DefaultRegion", True)
    properties = command.fields["i"].encode()
    magic, topic = topic_head(b"BenchTopic")

    def one_record() -> bytes:
        return encode(
            magic, 1, 0, 5, 0, 0, NOW_MS, BORN, NOW_MS, STORE, 0, 0, view[body:stop],
            topic, properties,
        )  # fmt: skip

    record = one_record()
    reference, composed = ReferenceLane(STORE, 2 * len(data)), ComposedLane()

    def run_reference() -> None:
        reference.process(data, len(data), BORN, NOW_MS)
        reference.reset()

    def run_composed() -> None:
        composed.process(data, len(data))
        composed.reset()

    rows: list[tuple[str, Callable[[], object], int]] = [
        ("json.loads of a send header", lambda: json.loads(header), 1),
        ("read a send header (lane)", lambda: read_send(view, 0, body), 1),
        ("refuse it as a pull (lane)", lambda: read_pull(view, 0, body), 1),
        ("read a send header (Command)", lambda: header_json.decode(header), 1),
        ("read a send (typed request)", lambda: from_command(SendMessage, command), 1),
        ("write its answer (lane)", lambda: send_reply(7, 0, STORE_HEX, 0, 1, 5, tail), 1),
        ("write its answer (typed)", lambda: encode_frame(to_reply(command, reply)), 1),
        ("encode a record", one_record, 1),
        ("decode a record, lazily", lambda: RecordView(record).queue_offset, 1),
        ("decode a record, in full", lambda: decode_record(record), 1),
        (f"scan {FRAMES} frames", lambda: scan(data, 0, len(data)), FRAMES),
        (f"{FRAMES} frames to Commands", lambda: Connection().receive(data), FRAMES),
        (f"{FRAMES} sends, reference lane", run_reference, FRAMES),
        (f"{FRAMES} sends, composed lane", run_composed, FRAMES),
    ]
    gc.collect()
    gc.freeze()
    results: dict[str, float] = {}
    print(f"body of {body_bytes} bytes, header of {len(header)}; µs each, and json.loads = 1")
    for name, operation, each in rows:
        operation()
        results[name] = micros(operation, 4000 // each) / each
        print(f"  {name:32s} {results[name]:7.2f} {results[name] / results[rows[0][0]]:7.2f}")
    ratios = [
        micros(run_composed, 20) / micros(run_reference, 20) for _ in range(5)
    ]  # one after the other, so that a busy machine slows both
    ratio = statistics.median(ratios)
    verdict = "within" if ratio <= TARGET else "beyond"
    print(f"composed / reference lane: {ratio:.2f}, {verdict} the target of {TARGET}")


if __name__ == "__main__":
    main()
