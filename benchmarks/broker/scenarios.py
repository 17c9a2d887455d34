"""What is measured: how requests come, how large they are, and when they may be answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Final, Literal

Kind = Literal[
    "send", "batch", "pull", "pop", "popbatch", "delay", "timer", "transaction", "stream"
]

#: Messages in a batch, and as many as a pull or a pop asks for.
BATCH: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """So many connections, each with so many requests on their way at any time."""

    kind: Kind
    connections: int
    window: int
    body_bytes: int
    #: Whether a message is answered for once the disk has it.
    sync: bool = False
    #: How many topics are sent to, in turns.
    topics: int = 1
    #: Of a stream: messages a second, and groups that read each of them.
    rate: float = 0.0
    groups: int = 1
    #: Whether it is among the few of a quick run.
    quick: bool = False

    @property
    def name(self) -> str:
        """As the command line and the tables have it: ``send-64x1-100``."""
        kind = "sync" if self.sync else self.kind
        if self.kind == "stream":
            return f"stream-{self.groups}-{self.body_bytes}"
        if self.topics > 1:
            kind = f"topics-{self.topics}"
        return f"{kind}-{self.connections}x{self.window}-{self.body_bytes}"

    @property
    def reads(self) -> bool:
        """Whether it reads a topic that was filled before."""
        return self.kind in ("pull", "pop", "popbatch")

    @property
    def title(self) -> str:
        """For people."""
        size = f"{self.body_bytes} B" if self.body_bytes < 1024 else f"{self.body_bytes >> 10} KB"
        flush = ", on disk" if self.sync else f", {self.topics:,} topics" if self.topics > 1 else ""
        return f"{_TITLES[self.kind]}, {self.connections} x {self.window}, {size}{flush}"


_TITLES: Final[Mapping[Kind, str]] = {
    "send": "sends",
    "batch": f"batches of {BATCH}",
    "pull": f"pulls of {BATCH}",
    "pop": f"pops of {BATCH}, each acknowledged",
    "popbatch": f"pops of {BATCH}, acknowledged together",
    "delay": "sends with a delay level",
    "timer": "sends with a delay in seconds",
    "transaction": "transactions",
    "stream": "from sending to receiving",
}

SCENARIOS: Final = (
    *(
        Scenario(
            kind="send",
            connections=connections,
            window=window,
            body_bytes=body_bytes,
            quick=(connections, window) in {(64, 1), (16, 16)},
        )
        for body_bytes in (100, 1024)
        for connections, window in ((1, 1), (16, 1), (64, 1), (16, 16), (1, 256))
    ),
    Scenario(kind="batch", connections=16, window=1, body_bytes=100, quick=True),
    Scenario(kind="batch", connections=16, window=1, body_bytes=1024),
    Scenario(kind="pull", connections=8, window=1, body_bytes=100),
    Scenario(kind="pull", connections=8, window=1, body_bytes=1024, quick=True),
    Scenario(kind="pop", connections=8, window=1, body_bytes=1024),
    Scenario(kind="popbatch", connections=8, window=1, body_bytes=1024),
    Scenario(kind="send", connections=1, window=1, body_bytes=1024, sync=True),
    Scenario(kind="send", connections=64, window=1, body_bytes=1024, sync=True, quick=True),
)


class NoSuchScenario(ValueError):
    """A pattern that no scenario fits; the message lists those there are."""

    def __init__(self, pattern: str) -> None:
        names = ", ".join(scenario.name for scenario in SCENARIOS)
        super().__init__(f"no scenario is called {pattern!r}; there are {names}")


def choose(patterns: Iterable[str], *, quick: bool) -> list[Scenario]:
    """The scenarios that patterns like ``send-64x1-*`` name, or all; of a quick run, a few.

    Raises:
        NoSuchScenario: If a pattern fits none.
    """
    patterns = list(patterns)
    for pattern in patterns:
        if not any(fnmatch(scenario.name, pattern) for scenario in SCENARIOS):
            raise NoSuchScenario(pattern)
    if not patterns:
        return [scenario for scenario in SCENARIOS if scenario.quick or not quick]
    return [
        scenario
        for scenario in SCENARIOS
        if any(fnmatch(scenario.name, pattern) for pattern in patterns)
    ]
