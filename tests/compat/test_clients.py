"""Other people's clients against our servers, and against Apache's so that the tests are tested.

All scenarios of a client run at once, in threads, when its first test does; each test then waits
for its own. `make test` runs clients from npm and PyPI against our servers; `make compat` adds
Java's and Go's, and all of them against Apache's servers.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest
from tests.compat.clients.catalog import QUICK, SLOW, Client
from tests.compat.clients.scenarios import SCENARIOS
from tests.compat.clients.stage import Stage
from tests.compat.clients.targets import Target, apaches_servers, our_servers
from tests.compat.support.apache import find_apache

RUNS = {
    f"{client.name} at {whose}": (
        client,
        whose,
        pytest.mark.scenario if client in QUICK and whose == "ours" else pytest.mark.compat,
    )
    for whose in ("ours", "apaches")
    for client in (*QUICK, *SLOW)
}


class Theatre:
    """Servers and clients, started when a test first asks for them.

    Servers stay for the next client; a client goes when the next one comes.
    """

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._servers = ExitStack()
        self._targets: dict[str, Target] = {}
        self._client = ExitStack()
        self._numbers = count()
        self._run = ""
        self._outcomes: dict[str, Future[None]] = {}
        self._missing: dict[str, str] = {}

    def outcomes(self, run: str) -> dict[str, Future[None]]:
        """All that one client does before one pair of servers, under way."""
        if run in self._missing:
            pytest.skip(self._missing[run])
        if run != self._run:
            self._client.close()
            self._run, self._outcomes = "", {}
            client, whose, _ = RUNS[run]
            try:
                self._start(client, whose)
            except pytest.skip.Exception as reason:
                self._missing[run] = str(reason)  # it is not asked for again
                raise
            self._run = run
        return self._outcomes

    def _start(self, client: Client, whose: str) -> None:
        scratch = self._scratch / f"{client.name}-{whose}"
        scratch.mkdir(exist_ok=True)
        target = self._target(whose)
        with ExitStack() as opening:
            one = opening.enter_context(client.drive(target, f"{client.word}-one", scratch))
            two = opening.enter_context(client.drive(target, f"{client.word}-two", scratch))
            threads = opening.enter_context(ThreadPoolExecutor(client.at_once))
            stage = Stage(client, target, one, two, next(self._numbers))
            for name, scenario in SCENARIOS.items():
                if name in client.can:
                    self._outcomes[name] = threads.submit(scenario, stage)
            self._client = opening.pop_all()

    def _target(self, whose: str) -> Target:
        if whose not in self._targets:
            directory = self._scratch / whose
            directory.mkdir()
            servers = (
                our_servers(directory)
                if whose == "ours"
                else apaches_servers(directory, find_apache())
            )
            self._targets[whose] = self._servers.enter_context(servers)
        return self._targets[whose]

    def close(self) -> None:
        with self._servers, self._client:
            pass


@pytest.fixture(scope="module")
def theatre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    made = Theatre(tmp_path_factory.mktemp("clients"))
    yield made
    made.close()


@pytest.mark.parametrize(
    ("run", "scenario"),
    [
        pytest.param(
            run,
            scenario,
            marks=[mark],
            id=f"{run}: {scenario}",
        )
        for run, (client, whose, mark) in RUNS.items()
        for scenario in SCENARIOS
        if scenario in client.can
    ],
)
def test_a_client_sees_what_it_should(theatre: Theatre, run: str, scenario: str) -> None:
    theatre.outcomes(run)[scenario].result()
