"""The commands that serve, each as a process of its own."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.guarded import is_kept
from tests.waiting import PATIENCE_S

from rocketpipe import Producer, PullConsumer
from rocketpipe.cli.main import main

pytestmark = pytest.mark.scenario

COMMAND = str(Path(sys.executable).parent / "rocketpipe")
FREE_PORTS = ["--namesrv", "127.0.0.1:0", "--broker", "127.0.0.1:0", "--small-files"]
#: A start or stop that takes longer is a failure; none is expected to come near.


@dataclass(frozen=True)
class Running:
    """A command that said it is ready."""

    process: subprocess.Popen[str]
    boot: list[str]
    addresses: dict[str, str]
    log: Path

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


@contextmanager
def running(
    scratch: Path, *arguments: str, environ: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """The running command, its boot lines and the addresses it named."""
    scratch.mkdir(exist_ok=True)
    log = scratch / f"{arguments[0]}.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [COMMAND, *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**clean_environment(), "HOME": str(scratch), **(environ or {})},
        ) as process,
    ):
        try:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], PATIENCE_S)[0], log.read_text()
            lines: list[str] = []
            while not lines or not lines[-1].startswith("ready "):
                line = process.stdout.readline()
                assert line, log.read_text()
                lines.append(line.rstrip("\n"))
            words = dict(word.split("=", 1) for word in lines[-1].split()[1:])
            yield Running(process, lines[:-1], words, log)
        finally:
            process.kill()


def clean_environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name != "NAMESRV_ADDR" and (not name.startswith("ROCKETPIPE_") or is_kept(name))
    }


def refused(*arguments: str) -> tuple[int, str]:
    """How a command ends that does not start."""
    result = subprocess.run(
        [COMMAND, *arguments, "--log-level", "error"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=clean_environment(),
    )
    assert "Traceback" not in result.stderr
    assert not result.stdout
    return result.returncode, result.stderr


async def exchange(name_server: str, topic: str, body: bytes) -> None:
    """Send a message and read it back."""
    async with Producer(name_server) as producer:
        assert (await producer.send(topic, body, timeout_ms=30_000)).durable
    async with PullConsumer(name_server, group="readers") as consumer:
        await consumer.subscribe(topic)
        found: list[bytes] = []
        while body not in found:
            found += [message.body for message in await consumer.poll()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_serve_runs_both_servers_until_a_signal(tmp_path: Path, number: int) -> None:
    with running(tmp_path, "serve", "--data", str(tmp_path / "d"), *FREE_PORTS) as serve:
        names, broker = serve.addresses["namesrv"], serve.addresses["broker"]
        assert serve.boot[:2] == [
            f"The Name Server boot success. serializeType=JSON, address {names}",
            f"The broker[broker-a, {broker}] boot success. serializeType=JSON "
            f"and name server is {names}",
        ]
        await exchange(names, "orders", b"x")
        assert serve.stop(number) == 0
        assert "no access control" in serve.log.read_text()
        assert "Traceback" not in serve.log.read_text()


async def test_what_was_sent_is_there_after_a_stop_and_after_a_kill(tmp_path: Path) -> None:
    sent = set()
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
        with running(tmp_path, "serve", "--data", str(tmp_path / "d"), *FREE_PORTS) as serve:
            names = serve.addresses["namesrv"]
            async with Producer(names) as producer:
                body = b"message %d" % len(sent)
                assert (await producer.send("orders", body)).durable
                sent.add(body)
            async with PullConsumer(names, group=f"g{len(sent)}") as consumer:
                await consumer.subscribe("orders")
                found: set[bytes] = set()
                while found < sent:
                    found |= {message.body for message in await consumer.poll()}
            assert found == sent
            serve.stop(number)


async def test_sync_flush_and_the_size_of_files_are_chosen_at_the_start(tmp_path: Path) -> None:
    data = tmp_path / "d"
    arguments = ["serve", "--data", str(data), *FREE_PORTS, "--flush", "sync"]
    with running(tmp_path, *arguments) as serve:
        await exchange(serve.addresses["namesrv"], "orders", b"x")
    assert (data / "commitlog" / f"{0:020d}").stat().st_size == 16 << 20


@pytest.mark.parametrize("by", ["flag", "environment", "file"])
async def test_name_server_and_broker_run_apart_on_rocketmqs_file(tmp_path: Path, by: str) -> None:
    with running(tmp_path, "namesrv", "-p", "0") as names:
        address = names.addresses["namesrv"]
        assert names.addresses == {"namesrv": address}
        conf = tmp_path / "broker.conf"
        conf.write_text(
            "# a broker\nbrokerClusterName = c\nbrokerName : broker-b\nbrokerRole ASYNC_MASTER\n"
            f"storePathRootDir={tmp_path}/d\nmappedFileSizeCommitLog=1048576\nlistenPort=0\n"
            "sendMessageThreadPoolNums=4\nbrokerNmae=x\nprofile=dev\n"
            + (f"namesrvAddr={address}\n" if by == "file" else "")
        )
        flags = ["-n", address] if by == "flag" else []
        environ = {"NAMESRV_ADDR": address} if by == "environment" else {}
        with running(tmp_path, "broker", "-c", str(conf), *flags, environ=environ) as broker:
            assert broker.boot[0] == (
                f"The broker[broker-b, {broker.addresses['broker']}] boot success. "
                f"serializeType=JSON and name server is {address}"
            )
            assert "Profile: dev: topics and groups are made when first used" in broker.boot
            await exchange(address, "orders", b"x")
            assert broker.stop() == 0
            log = broker.log.read_text()
        assert names.stop() == 0
    assert "have no effect here: sendMessageThreadPoolNums" in log
    assert "brokerNmae is no setting and has no effect: did you mean brokerName?" in log
    assert (tmp_path / "d" / "commitlog" / f"{0:020d}").stat().st_size == 1 << 20


def test_the_boot_line_names_the_advertised_address(tmp_path: Path) -> None:
    arguments = ["serve", "--data", str(tmp_path / "d"), *FREE_PORTS]
    with running(tmp_path, *arguments, "--advertise", "127.0.0.2") as serve:
        port = serve.addresses["broker"].rpartition(":")[2]
        assert serve.addresses["broker"] == f"127.0.0.1:{port}"
        assert f"The broker[broker-a, 127.0.0.2:{port}]" in serve.boot[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "--data", "{scratch}", "--broker", "0.0.0.0:0"],
        ["serve", "--data", "{scratch}", "--namesrv", "0.0.0.0:0"],
        ["namesrv", "--bind", "0.0.0.0", "-p", "0"],
        ["broker", "--data", "{scratch}", "--bind", "0.0.0.0", "--port", "0"],
    ],
    ids=lambda arguments: " ".join(arguments[:1] + arguments[-2:]),
)
def test_an_address_that_others_can_reach_needs_a_word_of_consent(
    tmp_path: Path, arguments: list[str]
) -> None:
    code, error = refused(*(word.format(scratch=tmp_path) for word in arguments))
    assert code == 2
    assert "--insecure" in error


def test_with_consent_it_listens_there(tmp_path: Path) -> None:
    with running(tmp_path, "namesrv", "--bind", "0.0.0.0", "-p", "0", "--insecure") as names:
        assert names.addresses["namesrv"].startswith("0.0.0.0:")
        assert names.stop() == 0


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with running(tmp_path, "namesrv", "-p", "0") as first:
        taken = first.addresses["namesrv"]
        code, error = refused("namesrv", "-p", taken.rpartition(":")[2])
        assert code == 1
        assert f"cannot listen on {taken}" in error
        code, error = refused("serve", "--data", str(tmp_path / "d"), "--namesrv", taken)
        assert code == 1
        assert f"cannot listen on {taken}: the port is taken" in error
        assert "take another port" in error
        assert not (tmp_path / "d").exists()


def test_a_directory_that_another_broker_has_is_named(tmp_path: Path) -> None:
    arguments = ["serve", "--data", str(tmp_path / "d"), *FREE_PORTS]
    with running(tmp_path, *arguments):
        code, error = refused(*arguments)
    assert code == 1
    assert str(tmp_path / "d") in error


def test_what_a_silent_broker_would_know_is_unknown_and_never_zero(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        names = stack.enter_context(running(tmp_path, "namesrv", "-p", "0"))
        address = names.addresses["namesrv"]
        brokers = {}
        for name in ("broker-a", "broker-b"):
            conf = tmp_path / f"{name}.conf"
            conf.write_text(f"brokerName={name}\nprofile=dev\nnamesrvAddr={address}\n")
            flags = ["-c", str(conf), "--data", str(tmp_path / name), "--port", "0"]
            brokers[name] = stack.enter_context(
                running(tmp_path / f"of-{name}", "broker", *flags, "--small-files")
            )

        def answer(*words: str, code: int = 0) -> Any:
            assert main([*words, "-n", address, "-o", "json"]) == code, capsys.readouterr()
            return json.loads(capsys.readouterr().out)

        answer("topic", "create", "orders", "--queues", "1")
        answer("group", "create", "shop")
        answer("message", "send", "orders", "order 1")
        answer("offsets", "reset", "shop", "orders", "--to", "latest", "--yes")
        brokers["broker-b"].process.send_signal(signal.SIGSTOP)
        rows = answer("group", "lag", "shop", "--topic", "orders", code=1)
        by_broker = {row["broker"]: row for row in rows}
        assert by_broker["broker-a"]["lag"] == 0
        assert by_broker["broker-b"]["lag"] is by_broker["broker-b"]["end"] is None
        listed = {row["broker"]: row for row in answer("broker", "list", code=1)}
        assert listed["broker-b"]["answers"] is False
        assert listed["broker-b"]["in_tps"] is None
        levels = {row["level"] for row in answer("doctor", code=1)}
        assert {"problem", "unknown"} <= levels
        brokers["broker-b"].process.send_signal(signal.SIGCONT)
