"""What all tests share."""

from __future__ import annotations

import gc
import os
import signal
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import pytest
from hypothesis import HealthCheck, settings
from tests.ports import lasting_ports

from rocketpipe.remoting import caller
from rocketpipe.remoting.log_budget import LogBudget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rocketpipe.remoting.authority import Authority
    from rocketpipe.testing.ensemble import Ensemble

# How long an example takes says more about the machine than about the code.
# The same cases every time: a change is judged by what it changes. New ones come with `make soak`,
# and those that failed stay as tests.
settings.register_profile(
    "house",
    deadline=None,
    derandomize=not os.environ.get("ROCKETPIPE_ALL_FAULTS"),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("house")

# A shell that starts a program in the background has it ignore Ctrl-C, and so do the programs that
# this one starts; some of these are tests of Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A machine that is busy with other things may hold up a process for seconds: that is no server that
# cannot be reached.
caller.CONNECT_TIMEOUT_MS = 60_000  # type: ignore[misc]

GOLDEN = Path(__file__).parent / "golden"

# What limits the lines of a log is shared by a process, and so by tests: each begins with all of
# it, or whether a line is there would depend on who wrote how many in the same minute.
_budgets: WeakSet[LogBudget] = WeakSet()
_make_budget: Any = LogBudget.__init__


def _make_known_budget(self: LogBudget, *args: Any, **named: Any) -> None:
    _make_budget(self, *args, **named)
    _budgets.add(self)


LogBudget.__init__ = _make_known_budget  # type: ignore[method-assign]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--guarded", action="store_true", help="servers ask who it is, and clients sign"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--guarded"):
        from tests.guarded import guard

        guard(Path(tempfile.mkdtemp(prefix="rocketpipe-guarded-")))


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A certificate authority for all tests; each has pairs made that it needs."""
    from rocketpipe.remoting.authority import Authority

    return Authority.opened(tmp_path_factory.mktemp("authority"))


@pytest.fixture(autouse=True)
def whole_log_budgets() -> None:
    for budget in list(_budgets):
        budget._used = budget._left_out = 0
        budget._said.clear()


if not hasattr(tarfile, "data_filter"):  # Python before 3.11.4, which Debian 12 has
    _extractall: Any = tarfile.TarFile.extractall

    def _extract_unfiltered(
        self: tarfile.TarFile,
        path: Any = ".",
        members: Any = None,
        *,
        filter: str,  # noqa: A002
    ) -> None:
        """Take the argument that newer versions want; the archives are our own."""
        _extractall(self, path, members)

    tarfile.TarFile.extractall = _extract_unfiltered  # type: ignore[method-assign,assignment]


#: Marks that only some files give; a stage that asks for one need not open the others.
FEW_FILES = ("scenario", "spark", "compat", "soak")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over files without the mark that is asked for: to import all takes its time."""
    if config.getoption("--guarded"):
        from tests.guarded import OPEN

        if collection_path.name in OPEN:
            return True
    wanted = str(config.getoption("markexpr")).partition(" and ")[0]
    if wanted not in FEW_FILES or collection_path.suffix != ".py":
        return None
    return None if f"mark.{wanted}" in collection_path.read_text("utf-8") else True


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[object]:
    """Collect tests, not garbage: what is imported stays, and need not be looked through."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests are shared out to several processes, those of one Spark stay together.

    There are two such Sparks, of about as much to do: streams and tables, and all else.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            is_live = item.path.parent.name == "live"
            item.add_marker(pytest.mark.xdist_group("live spark" if is_live else "one spark"))


UnpackGolden = Callable[..., Path]


@pytest.fixture(scope="session")
def unpack_golden() -> UnpackGolden:
    """Unpacks a store that Apache's broker wrote: ``unpack_golden("5.5.0-stop", directory)``.

    Gives its root. Further arguments name the parts that are wanted, as in ``"commitlog"``.
    """

    def unpack(name: str, directory: Path, *parts: str) -> Path:
        with tarfile.open(GOLDEN / f"{name}.tar.xz") as archive:
            members = [
                member
                for member in archive
                if not parts or member.name.split("/")[1:2] in [[part] for part in parts]
            ]
            archive.extractall(directory, members, filter="data")
        return directory / "store"

    return unpack


@pytest.fixture
def lasting_port() -> int:
    """A port that can be let go and taken again."""
    (port,) = lasting_ports(1)
    return port


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """A ZooKeeper of one node for all tests of a process; each takes a cluster's name of its own.

    Whoever stops it starts it again.
    """
    from rocketpipe.coordination.zookeeper_server import ZooKeeperNotFound
    from rocketpipe.pipeline.java import JavaNotFound
    from rocketpipe.testing.ensemble import ensemble

    pytest.importorskip("kazoo")
    try:
        with ensemble(tmp_path_factory.mktemp("zookeeper")) as running:
            yield running
    except (JavaNotFound, ZooKeeperNotFound) as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def spark_scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the Spark of all tests keeps its files."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def spark(spark_scratch: Path) -> Iterator[SparkSession]:
    """One Spark for all tests: its start is what costs."""
    from rocketpipe.pipeline import launch

    with launch.local_spark(spark_scratch, name="rocketpipe-tests") as session:
        yield session
