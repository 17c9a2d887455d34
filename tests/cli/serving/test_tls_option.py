"""Servers with TLS, in processes of their own."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until

from rocketpipe import Admin, ConsumeFromWhere, Message, Producer, Session, TlsSettings, blocking
from rocketpipe.cli.main import main
from rocketpipe.cli.serving import tls_option
from rocketpipe.errors import ConnectionLost, RocketPipeError
from rocketpipe.remoting.authority import Authority
from rocketpipe.remoting.caller import split_address

pytestmark = pytest.mark.scenario


@contextmanager
def served(
    scratch: Path, *arguments: str
) -> Iterator[tuple[dict[str, Any], subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "rocketpipe.cli.main", "serve", "--data", str(scratch / "d")]
    command += ["--namesrv", "127.0.0.1:0", "--broker", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    with (scratch / "log").open("a") as log:
        child = subprocess.Popen(
            [*command, "--small-files", "-o", "json", *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    with child:
        try:
            assert child.stdout is not None
            line = child.stdout.readline()
            assert line, (scratch / "log").read_text()
            yield json.loads(line), child
        finally:
            child.terminate()
            child.wait(60)


def serial(address: str, ca: Path) -> str:
    host, port = split_address(address)
    context = ssl.create_default_context(cafile=str(ca))
    with socket.create_connection((host, port)) as raw:
        with context.wrap_socket(raw, server_hostname=host) as secured:
            found = secured.getpeercert()
            assert found is not None
            return str(found["serialNumber"])


async def test_all_ports_of_serve_speak_tls_and_nothing_else(tmp_path: Path) -> None:
    made = Authority.opened(tmp_path / "ca")
    pair = made.server(["a.example"])
    flags = ["--tls-cert", str(pair.cert), "--tls-key", str(pair.key)]
    with served(tmp_path, *flags) as (told, child):
        (names,) = told["name_servers"]
        assert told["tls"] == "enforcing"
        tls = TlsSettings(ca_file=made.ca_file)
        async with Session(names, tls=tls) as session:
            async with Producer(session) as producer:
                results = await asyncio.gather(
                    *(producer.send(Message("orders", b"%d" % n)) for n in range(100))
                )
            assert len({each.message_id for each in results}) == 100
        with blocking.Session(names, tls=tls) as threads:
            first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
            with blocking.PullConsumer(threads, group="g", start=first) as consumer:
                consumer.subscribe("orders")
                got: list[bytes] = []
                while len(got) < 100:
                    got += [each.body for each in consumer.poll(timeout_ms=1000)]
            assert sorted(map(int, got)) == list(range(100))
        async with Session(names, tls=False) as session:
            async with Producer(session) as producer:
                with pytest.raises(RocketPipeError, match="it may want TLS"):
                    await producer.send(Message("orders", b"plain"))
        assert told["url"].startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=str(made.ca_file))

        def page(name: str) -> str:
            with urllib.request.urlopen(f"{told['url']}/{name}", context=context) as answer:
                return str(answer.read().decode())

        assert await asyncio.to_thread(page, "readyz") == "ready\n"
        metrics = await asyncio.to_thread(page, "metrics")
        assert 'rocketpipe_tls_handshakes_total{result="done"}' in metrics
        assert "rocketpipe_tls_certificate_expiry_seconds" in metrics

        before = serial(names, made.ca_file)
        made.server(["a.example"])
        child.send_signal(signal.SIGHUP)
        await until(lambda: serial(names, made.ca_file) != before)


async def test_brokers_in_processes_of_their_own_speak_it_too(tmp_path: Path) -> None:
    made = Authority.opened(tmp_path / "ca")
    pair, client = made.server(["a"]), made.client()
    properties = tmp_path / "tls.properties"
    properties.write_text(
        f"tls.test.mode.enable=false\ntls.server.certPath={pair.cert}\n"
        f"tls.server.keyPath={pair.key}\ntls.server.trustCertPath={made.ca_file}\n"
        "tls.server.need.client.auth=require\ntls.server.authClient=true\n"
    )
    with served(tmp_path, "--tls-config", str(properties), "--brokers", "2") as (told, _):
        (names,) = told["name_servers"]
        shown = TlsSettings(ca_file=made.ca_file, cert_file=client.cert, key_file=client.key)
        async with Session(names, tls=shown) as session, Producer(session) as producer:
            await producer.send(Message("orders", b"x"))
            async with Admin(session) as admin:
                assert len(await admin.brokers.all()) == 2
        async with AsyncExitStack() as stack:
            without = Session(names, tls=TlsSettings(ca_file=made.ca_file))
            session = await stack.enter_async_context(without)
            with pytest.raises(ConnectionLost, match="wants a client certificate"):
                await session.directory.route("orders")


def test_flags_say_what_keys_say() -> None:
    parser = argparse.ArgumentParser()
    tls_option.add_flags(parser)
    words = [
        "--tls-cert",
        "c",
        "--tls-key",
        "k",
        "--tls-client-ca",
        "a",
        "--tls-mode",
        "permissive",
    ]
    options = parser.parse_args([*words, "--tls-ca", "o"])
    told = {key: text for key, text, _ in tls_option.flags(options)}
    assert told == {
        "tls.server.certPath": "c",
        "tls.server.keyPath": "k",
        "tls.server.trustCertPath": "a",
        "tls.server.mode": "permissive",
        "tls.client.trustCertPath": "o",
        "tls.server.need.client.auth": "require",
    }
    again = parser.parse_args(tls_option.passed_on(options))
    assert again == options


@pytest.mark.parametrize("server", ["serve", "broker", "namesrv"])
def test_a_wrong_file_is_one_line_that_names_it(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "none.pem")
    assert main([server, "--tls-cert", missing, "--tls-key", missing]) == 2
    told = capsys.readouterr().err
    assert f"--tls-cert: tls.server.certPath='{missing}': cannot be read" in told
    assert main([server, "--tls-mode", "enforcing"]) == 2
    assert "`rocketpipe tls init` makes some" in capsys.readouterr().err


def test_a_mended_file_of_settings_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(
        "tls.server.certPath=/none.pem\ntls.server.keyPath=/none.pem\ntls.server.mod=x\n"
    )
    for server in ("broker", "namesrv"):
        assert main(["config", "check", "--for", server, str(file)]) == 1
        told = capsys.readouterr().out
        assert "tls.server.certPath='/none.pem': cannot be read" in told
        assert "did you mean tls.server.mode?" in told


def test_the_environment_is_not_taken_for_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TLS", "CA_FILE", "CERT_FILE", "KEY_FILE", "TLS_VERIFY"):
        if f"ROCKETPIPE_{name}" not in os.environ:
            monkeypatch.setenv(f"ROCKETPIPE_{name}", "true")
    assert main(["broker", "--print-config", "--data", str(tmp_path)]) == 0
    assert "no setting" not in capsys.readouterr().err
