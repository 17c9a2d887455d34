"""What was asked of RocketPipe beside others, and whether a run has found it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from benchmarks.report.rows import TOPICS
from benchmarks.report.samples import Samples

ONE, TWO = "rocketpipe", "rocketpipe-2"
NOT_MEASURED: Final = "not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A ratio, and how large or small it is to be."""

    title: str
    asked: float
    kind: Literal["at least", "at most"]
    found: Callable[[Samples], float | None]

    def verdict(self, samples: Samples) -> str:
        """``met``, or by which part of what was asked it is missed."""
        found = self.found(samples)
        if found is None:
            return NOT_MEASURED
        short = self.asked - found if self.kind == "at least" else found - self.asked
        share = short / self.asked
        return "met" if short <= 0 else f"**missed by {share:.{0 if share >= 0.1 else 1}%}**"


def _by(
    mine: str, other: str, row: str, figure: str = "messages_s"
) -> Callable[[Samples], float | None]:
    return lambda samples: samples.ratio(row, mine, other, figure)


def _topics(samples: Samples) -> float | None:
    """CPU time of a message among all topics by that of a message among one, of one broker."""
    many = samples.median(f"topics-{TOPICS}", ONE, "cpu_us")
    one = samples.median("topics-1", ONE, "cpu_us")
    return many / one if many is not None and one else None


def _at_least(title: str, asked: float, mine: str, other: str, row: str) -> Target:
    return Target(title=title, asked=asked, kind="at least", found=_by(mine, other, row))


TARGETS: Final = (
    *(
        _at_least(
            f"single sends, 64 connections, {size}, {who}, by Apache's", asked, peer, "apache", row
        )
        for size, row in (("100 B", "send-64x1-100"), ("1 KB", "send-64x1-1024"))
        for who, asked, peer in (("two brokers", 3.0, TWO), ("one broker", 2.0, ONE))
    ),
    _at_least(
        "pipelined sends, 100 B, two brokers, by Apache's", 4.0, TWO, "apache", "send-16x16-100"
    ),
    _at_least("pipelined sends, 100 B, two brokers, by NATS's", 1.0, TWO, "nats", "send-16x16-100"),
    _at_least(
        "batches of 32, 100 B, two brokers, by Apache's", 1.2, TWO, "apache", "batch-16x1-100"
    ),
    _at_least("pulls of 32, 1 KB, two brokers, by Apache's", 1.5, TWO, "apache", "pull-8x1-1024"),
    _at_least(
        "sends answered from disk, 64 connections, two brokers, by Apache's",
        2.0,
        TWO,
        "apache",
        "sync-64x1-1024",
    ),
    *(
        Target(
            title=f"p99 from sending to receiving, {who}, by Apache's",
            asked=1.0,
            kind="at most",
            found=_by(peer, "apache", "stream-1-100", "p99_ms"),
        )
        for who, peer in (("one broker", ONE), ("two brokers", TWO))
    ),
    Target(
        title="CPU a send with 10,000 topics, one broker, by one topic's",
        asked=1.2,
        kind="at most",
        found=_topics,
    ),
    Target(
        title="CPU a single send, 64 connections, 100 B, one broker, by Redis's",
        asked=1.7,
        kind="at most",
        found=_by(ONE, "redis", "send-64x1-100", "cpu_us"),
    ),
)


def verdicts(samples: Samples) -> Iterator[list[str]]:
    """A line for each target."""
    for target in TARGETS:
        found = target.found(samples)
        text = "–" if found is None else f"{found:.2f}"
        yield [target.title, f"{target.kind} {target.asked:g}", text, target.verdict(samples)]
