"""DuckDB asking a topic, beside DuckDB asking the same rows in Parquet.

    count      how many messages there are
    tags       how many of each tag, and when the last was stored
    bodies     how long all bodies are together
    json       a sum over a field of the bodies: decoded by the scan; by DuckDB, of Parquet's text;
               and of Parquet that has the field as a column
    core       eight columns of every message, as Arrow
    range      the messages of a hundredth of the offsets

What counts is the CPU time of this process, in which everything happens; the cases are run in
turns, the least of each is taken. The Parquet files hold the columns of messages as the scan gives
them (Snappy, a file), so both answer from the same values. `--large GB` reads a topic of that many
gigabytes once instead, and says how much memory that took.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.spark.stored import TOPIC, fill

from rocketpipe.arrow import TopicScan, scan
from rocketpipe.clock import SystemClock
from rocketpipe.model.host import Host
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore

WANTED = 3.0
CORE = "topic, queue_id, queue_offset, tags, keys, body, born_timestamp, store_timestamp"
QUESTIONS = {
    "count": "SELECT count(*) FROM {0}",
    "tags": "SELECT tags, count(*), max(store_timestamp) FROM {0} GROUP BY tags ORDER BY tags",
    "bodies": "SELECT sum(octet_length(body)) FROM {0}",
    "core": f"SELECT {CORE} FROM {{0}}",
    "range": "SELECT count(*), sum(octet_length(body)) FROM {0} WHERE queue_offset < {1}",
}
#: Of decoded bodies, and of bodies as they are.
JSON = "SELECT sum(p), max(id) FROM {0}"
JSON_BY_DUCKDB = (
    "SELECT sum((decode(body)::JSON->>'p')::DOUBLE), max((decode(body)::JSON->>'id')::BIGINT) "
    "FROM {0}"
)

Case = Callable[[], object]


def main() -> None:
    """Measure, and print a line a question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="questions, with ',' between")
    parser.add_argument("--large", type=float, help="gigabytes to read once instead")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rocketpipe-bench-") as scratch:
        if asked.large is not None:
            large(Path(scratch) / "store", asked.large)
        else:
            compare(
                Path(scratch), asked.rows, asked.rounds, set(filter(None, asked.only.split(",")))
            )


def compare(scratch: Path, rows: int, rounds: int, only: set[str]) -> None:
    """Ask both, in turns."""
    store = scratch / "store"
    record = fill(store, rows)
    topic = scan(TOPIC, log=store)
    decoded = scan(TOPIC, log=store, decode="json", schema="id BIGINT, p DOUBLE")
    plain, typed = scratch / "plain.parquet", scratch / "typed.parquet"
    write(topic, plain)
    write(decoded, typed)
    print(f"{rows} messages, {record:.0f} bytes each; DuckDB with one thread; least of {rounds}\n")
    print(
        f"{'question':<18}{'topic CPU s':>12}{'Parquet CPU s':>15}{'ratio':>8}   (at most {WANTED})"
    )
    base = duckdb.connect(config={"threads": 1})
    base.register("topic", topic)
    base.register("decoded", decoded)
    for name, text in QUESTIONS.items():
        if not only or name in only:
            of_topic, of_file = (
                text.format("topic", rows // 400),
                text.format(f"'{plain}'", rows // 400),
            )
            tell(name, *measured(rounds, asking(base, of_topic), asking(base, of_file)))
    if not only or "json" in only:
        ours = asking(base, JSON.format("decoded"))
        tell(
            "json, as text",
            *measured(rounds, ours, asking(base, JSON_BY_DUCKDB.format(f"'{plain}'"))),
        )
        tell("json, as columns", *measured(rounds, ours, asking(base, JSON.format(f"'{typed}'"))))


def write(found: TopicScan, path: Path) -> None:
    """The same rows as Parquet."""
    with pq.ParquetWriter(path, found.schema) as file:
        for batch in found.to_reader():
            file.write_batch(batch)


def asking(base: duckdb.DuckDBPyConnection, text: str) -> Case:
    """A question, whose answer is taken whole."""

    def ask() -> pa.Table:
        answer = base.sql(text).arrow()
        return answer if isinstance(answer, pa.Table) else answer.read_all()

    return ask


def measured(rounds: int, *cases: Case) -> list[float]:
    """The least CPU seconds of each, which must all answer alike."""
    least = [float("inf")] * len(cases)
    for _ in range(rounds):
        answers = []
        for number, case in enumerate(cases):
            began = time.process_time()
            answers.append(case())
            least[number] = min(least[number], time.process_time() - began)
        first, *others = answers
        for other in others:
            assert rows_of(first) == rows_of(other), "the answers differ"
    return least


def rows_of(answer: object) -> Sequence[object]:
    assert isinstance(answer, pa.Table)
    return (
        [answer.num_rows]
        if answer.num_rows > 100
        else [list(row.values()) for row in answer.to_pylist()]
    )


def tell(name: str, topic: float, parquet: float) -> None:
    ratio = topic / parquet
    missed = "" if ratio <= WANTED else "   missed"
    print(f"{name:<18}{topic:>12.3f}{parquet:>15.3f}{ratio:>8.2f}{missed}", flush=True)


def large(root: Path, gigabytes: float) -> None:
    """Read a topic that is longer than memory should be, and say what that took."""
    host = Host.parse("127.0.0.1:10911").pack()
    config = StoreConfig.embedded(root, segment_bytes=1 << 30)
    store = MessageStore.open(config, disk=Disk(), clock=SystemClock(), store_host=host)
    body = b'{"text": "%s"}' % (b"x" * 4000)
    count = int(gigabytes * (1 << 30)) // 4200
    properties = b"TAGS\x01paid\x02"
    for first in range(0, count, 1000):
        puts = [
            [
                Put(
                    topic=TOPIC,
                    queue_id=number % 4,
                    body=body,
                    properties=properties,
                    flag=0,
                    sys_flag=0,
                    born_ms=1_700_000_000_000,
                    born_host=host,
                )
            ]
            for number in range(first, min(first + 1000, count))
        ]
        store.append(puts)
        store.dispatch()
    store.close()
    found = scan(TOPIC, log=root)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, cpu = time.perf_counter(), time.process_time()
    rows = size = 0
    for batch in found.to_reader():
        rows += batch.num_rows
        size += batch.nbytes
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert rows == count
    print(
        f"{rows} messages, {size / (1 << 30):.1f} GiB in {took:.1f} s ({cpu:.1f} s CPU); "
        f"memory at most {after >> 10} MiB, {(after - before) >> 10} MiB more than before"
    )
    base = duckdb.connect(config={"threads": 1, "memory_limit": "1GB"})
    base.register("topic", found)
    answer = base.sql("SELECT count(*), sum(octet_length(body)) FROM topic").fetchall()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"DuckDB: {answer}; memory at most {peak >> 10} MiB")


if __name__ == "__main__":
    main()
