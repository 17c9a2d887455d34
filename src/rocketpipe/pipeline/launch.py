"""What must be settled before a process starts Spark, and a small Spark that leaves no trace."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketpipe.pipeline.failures import spark_errors
from rocketpipe.pipeline.java import ensure_java

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

#: Where, in its directory, a local Spark writes what it would have printed.
LOG_NAME: Final = "spark.log"

#: What starts the Pythons of a local Spark, in its directory.
LEAN_PYTHON_NAME: Final = "python"

_LOOPBACK: Final = "127.0.0.1"
_STOP_TIMEOUT_S: Final = 20
_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# Spark has its Pythons import PySpark from an archive without bytecode, so that each of them
# compiles it anew: this finds the installed one, which is the same. And those that it plans with
# start from its own daemon, whatever its settings say: this takes ours. One that no daemon forks
# has ten seconds to connect: it does that first.
_LEAN_PYTHON: Final = """\
#!/bin/sh
if [ "$1 $2" = "-m pyspark.daemon" ]; then
    shift 2
    set -- -m rocketpipe.pipeline.daemon "$@"
elif [ "$1" = "-m" ] && [ -n "$PYTHON_WORKER_FACTORY_PORT$PYTHON_WORKER_FACTORY_SOCK_PATH" ]; then
    shift
    set -- {early} "$@"
fi
IFS=:
kept=
for place in $PYTHONPATH; do
    case $place in
    */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip) ;;
    *) kept=$kept${{kept:+:}}$place ;;
    esac
done
PYTHONPATH=$kept exec {python} "$@"
"""

#: What spark-submit tells the program that it starts: where its JVM listens.
GATEWAY: Final = "PYSPARK_GATEWAY_PORT"

# Each of these has PySpark join a driver that is there.
_OF_ANOTHER_DRIVER: Final = (
    "MASTER",
    "SPARK_REMOTE",
    "SPARK_LOCAL_REMOTE",
    "SPARK_CONNECT_MODE_ENABLED",
    "PYSPARK_SUBMIT_ARGS",
    "PYSPARK_REMOTE_INIT_CONF_LEN",
    "PYSPARK_DRIVER_PYTHON",
    GATEWAY,
    "PYSPARK_GATEWAY_SECRET",
)
# And each of these leads to another Spark than the installed one, or to other settings.
_LEAD_ELSEWHERE: Final = (*_OF_ANOTHER_DRIVER, "SPARK_HOME", "SPARK_CONF_DIR")


def prepare(environ: MutableMapping[str, str] | None = None) -> None:
    """Settle Java, and that Spark's workers run this Python, unless the environment says otherwise.

    Spark starts whatever ``python3`` comes first on the path; one that lacks this package would
    not find the source. Call it before the first session of the process.

    Raises:
        JavaNotFound: If there is no Java that Spark runs on.
    """
    environ = os.environ if environ is None else environ
    ensure_java(environ)
    environ.setdefault("PYSPARK_PYTHON", sys.executable)


def prepare_driver(environ: MutableMapping[str, str]) -> None:
    """As ``prepare``, for a new driver of a cluster: it is nobody's client, and has no JVM yet.

    Raises:
        JavaNotFound: If there is no Java that Spark runs on.
    """
    leave_driver(environ)
    prepare(environ)


def leave_driver(environ: MutableMapping[str, str]) -> None:
    """Drop what would have PySpark join a driver that is there."""
    for name in _OF_ANOTHER_DRIVER:
        environ.pop(name, None)


def prepare_alone(environ: MutableMapping[str, str] | None = None) -> None:
    """As ``prepare``, but whatever the environment says of other Sparks and Pythons is dropped.

    For a Spark on this machine alone, out of the installed package.

    Raises:
        JavaNotFound: If there is no Java that Spark runs on.
    """
    environ = os.environ if environ is None else environ
    for name in _LEAD_ELSEWHERE:
        environ.pop(name, None)
    environ["PYSPARK_PYTHON"] = sys.executable
    environ["SPARK_LOCAL_IP"] = _LOOPBACK  # no name to look up, nothing to warn of
    prepare(environ)


def settings(scratch: Path, *, lasting: bool = False) -> dict[str, str]:
    """The settings of a Spark that keeps its files in ``scratch``.

    It begins small jobs at once, unless it is ``lasting``: then it is worth the better compiler.
    """
    java = {
        **({} if lasting else {"-XX:TieredStopAtLevel": "1"}),
        "-Djava.io.tmpdir": _quoted(scratch),
        "-Dderby.system.home": _quoted(scratch),
    }
    return {
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.extraJavaOptions": " ".join(
            f"{name}={value}" for name, value in java.items()
        ),
        "spark.driver.host": _LOOPBACK,
        "spark.local.dir": str(scratch),
        "spark.python.daemon.module": "rocketpipe.pipeline.daemon",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def lean_python(scratch: Path, environ: MutableMapping[str, str] | None = None) -> str:
    """What starts this Python, soonest, for a Spark out of the installed package.

    Spark asks a shell whether it is there, and quotes nothing: where the place has a blank in it,
    the program is found by its name on the path of ``environ``.
    """
    program = scratch / LEAN_PYTHON_NAME
    given = {
        "python": shlex.quote(sys.executable),
        "early": shlex.quote(str(Path(__file__).with_name("early_worker.py"))),
    }
    program.write_text(_LEAN_PYTHON.format(**given))
    program.chmod(0o755)
    if not os.access(program, os.X_OK) or os.pathsep in str(scratch):
        return sys.executable  # a file system may be mounted so that nothing on it runs
    if shlex.quote(str(program)) == str(program):
        return str(program)
    environ = os.environ if environ is None else environ
    environ["PATH"] = f"{scratch}{os.pathsep}{environ.get('PATH', os.defpath)}"
    return LEAN_PYTHON_NAME


@contextmanager
def local_spark(
    scratch: Path,
    *,
    name: str,
    cores: int = 2,
    conf: Mapping[str, str] | None = None,
    lasting: bool = False,
) -> Iterator[SparkSession]:
    """Run Spark in this process for the length of the block, silent, with its files in ``scratch``.

    Its JVM ends with the block. What Spark prints is in ``scratch / LOG_NAME``. ``conf`` comes
    after our own settings, of which ``lasting`` is one.

    Raises:
        JavaNotFound: If there is no Java that Spark runs on.
    """
    from pyspark import SparkConf

    prepare_alone()
    path = os.environ.get("PATH")
    os.environ["PYSPARK_PYTHON"] = lean_python(scratch)
    given = {**settings(scratch, lasting=lasting), **(conf or {})}
    spark_conf = SparkConf(loadDefaults=False).setAll(list(given.items()))
    spark_conf.setMaster(f"local[{cores}]").setAppName(name)
    try:
        with _driven(spark_conf, scratch) as spark:
            yield spark
    finally:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        if path is not None:
            os.environ["PATH"] = path


@contextmanager
def cluster_spark(
    scratch: Path, *, master: str, name: str, conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Have a cluster work for the length of the block, with this process as its driver.

    Settings are those of ``SPARK_CONF_DIR``, then ``conf``. The driver is silent: what its JVM
    prints is in ``scratch / LOG_NAME``.

    Raises:
        JavaNotFound: If there is no Java that Spark runs on.
    """
    from pyspark import SparkConf

    prepare_driver(os.environ)
    spark_conf = SparkConf(loadDefaults=False).setAll(list((conf or {}).items()))
    spark_conf.set("spark.ui.showConsoleProgress", "false")
    spark_conf.setMaster(master).setAppName(name)
    with _driven(spark_conf, scratch) as spark:
        yield spark


@contextmanager
def _driven(conf: SparkConf, scratch: Path) -> Iterator[SparkSession]:
    """A session whose JVM ends with the block, and prints into a file."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway: Any = None
    try:
        # A JVM that is cut off while it starts stays for good: so a signal waits until it has.
        with (scratch / LOG_NAME).open("ab") as log, _signals_held():
            output = {"stdout": log, "stderr": subprocess.STDOUT}
            gateway = launch_gateway(conf, output)  # type: ignore[no-untyped-call]
        with _signal_handlers_kept():
            context = SparkContext(conf=conf, gateway=gateway)
        try:
            yield SparkSession.builder.getOrCreate()
        finally:
            # A JVM that has died cannot be told; what ended it is raised.
            with suppress(OSError, *spark_errors()):
                context.stop()
    finally:
        if gateway is not None:
            # Spark would keep its JVM, and that its files, for further sessions of this process.
            SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - there is no other way
            gateway.shutdown()
            _end(gateway.proc)


@contextmanager
def _signals_held() -> Iterator[None]:
    """What asks this process to stop within the block takes effect at its end."""
    came: list[int] = []
    with _signal_handlers_kept() as ours:
        for number in ours:
            signal.signal(number, lambda number, frame: came.append(number))
        yield
    for number in came[:1]:
        signal.raise_signal(number)


@contextmanager
def _signal_handlers_kept() -> Iterator[Sequence[int]]:
    """Put the handlers back that the block replaces; gives the signals it may replace any of.

    Spark's own handler of Ctrl-C talks to the JVM in the middle of whatever was being said to it.
    """
    # Only the main thread hears signals, and only it may set their handlers.
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in _STOP_SIGNALS if in_main_thread}
    try:
        yield tuple(before)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(jvm: subprocess.Popen[bytes]) -> None:
    """The JVM leaves by itself once nobody holds the other end of its input."""
    assert jvm.stdin is not None
    jvm.stdin.close()
    try:
        jvm.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
