"""The official clients for Java and Go that speak gRPC, against our port and Apache's proxy.

Ours is a broker's own port, and ``rocketpipe proxy`` before Apache's broker. All scenarios of a
client run at once, in threads, when its first test does; each test then waits for its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest
from tests.compat.clients import installing
from tests.compat.clients.driver import Driver, driving
from tests.compat.clients.grpc_scenarios import SCENARIOS, GrpcStage
from tests.compat.clients.grpc_targets import WHOSE, GrpcTarget, grpc_target

pytestmark = pytest.mark.compat

JAVA = "5.1.0"
#: A client, and whether it uses TLS: it does unless it is told otherwise, and trusts anybody.
CLIENTS = ("java tls", "java plain", "go tls", "go plain")
RUNS = [(whose, client) for whose in WHOSE for client in CLIENTS]


class Theatre:
    """Servers and clients, started when a test first asks for them; then the next ones'."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._servers, self._client = ExitStack(), ExitStack()
        self._target: GrpcTarget | None = None
        self._whose, self._run = "", ("", "")
        self._numbers = count()
        self._outcomes: dict[str, Future[None]] = {}

    def outcomes(self, whose: str, client: str) -> dict[str, Future[None]]:
        if self._run != (whose, client):
            self._client.close()
            self._client, self._outcomes = ExitStack(), {}
            target = self._served_by(whose)
            number = next(self._numbers)
            word = f"{client.replace(' ', '-')}-{number}"
            scratch = self._scratch / word
            scratch.mkdir()
            driver = self._client.enter_context(started(client, target.address, word, scratch))
            threads = self._client.enter_context(ThreadPoolExecutor(len(SCENARIOS)))
            stage = GrpcStage(driver, target, word, waits_in_order=client.startswith("java"))
            for name, scenario in SCENARIOS.items():
                self._outcomes[name] = threads.submit(scenario, stage)
            self._run = (whose, client)
        return self._outcomes

    def _served_by(self, whose: str) -> GrpcTarget:
        if self._whose != whose or self._target is None:
            self._servers.close()
            self._servers = ExitStack()
            scratch = self._scratch / whose.replace(" ", "-")
            scratch.mkdir()
            self._target = self._servers.enter_context(grpc_target(whose, scratch))
            self._whose = whose
        return self._target

    def close(self) -> None:
        with self._servers, self._client:
            pass


def started(client: str, address: str, name: str, scratch: Path) -> Driver:
    library, kind = client.split()
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(scratch), "user.home": str(scratch)}
    if library == "go":
        program = installing.go_program("go5")
        return driving(name, [str(program), address, name, kind], scratch, environ)
    java, made = installing.java_program("GrpcClient", "rocketmq-client-java", JAVA)
    command = [
        str(java),
        *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
        *(f"-Duser.home={scratch}", f"-Djava.io.tmpdir={scratch}"),
        *("-cp", f"{made / 'classes'}:{made / 'jars'}/*"),
        *("GrpcClient", address, name, kind),
    ]
    return driving(name, command, scratch, environ)


@pytest.fixture(scope="module")
def theatre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    made = Theatre(tmp_path_factory.mktemp("grpc-clients"))
    yield made
    made.close()


@pytest.mark.parametrize(
    ("whose", "client", "scenario"),
    [
        pytest.param(whose, client, scenario, id=f"{client} at {whose}: {scenario}")
        for whose, client in RUNS
        for scenario in SCENARIOS
    ],
)
def test_a_client_sees_what_it_should(
    theatre: Theatre, whose: str, client: str, scenario: str
) -> None:
    theatre.outcomes(whose, client)[scenario].result()
