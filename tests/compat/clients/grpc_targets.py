"""The gRPC ports that clients of RocketMQ 5 are run against, with what stands behind them."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.compat.clients.targets import DELAY_LEVELS, background_loop
from tests.compat.support.apache import NEWEST, find_apache

from rocketpipe import Admin, Session
from rocketpipe.model.topic import MessageType

T = TypeVar("T")

#: Retries come after a second, and what was left open is asked about soon.
SETTINGS = {
    "messageDelayLevel": DELAY_LEVELS,
    "transactionTimeOut": 3000,
    "transactionCheckInterval": 1000,
}
APACHES = {
    **SETTINGS,
    "enablePropertyFilter": "true",
    "recallMessageEnable": "true",
    "brokerFastFailureEnable": "false",
    "transactionTimeOut": 5000,
    "transactionCheckInterval": 5000,
    "transactionOpBatchInterval": 100,
    # So long retries wait for what an acknowledgement is of, if it is missed; 3 minutes by itself.
    "reviveAckWaitMs": 5000,
}
PATIENCE_S = 180
#: Whose port, and whose broker is behind it.
WHOSE = ("ours", "apaches", "our proxy at apaches")


@dataclass(frozen=True, slots=True)
class GrpcTarget:
    """A port, and the NameServer by which topics and groups are made."""

    address: str
    name_server: str
    loop: asyncio.AbstractEventLoop

    def make_topic(self, name: str, kind: MessageType) -> None:
        async def make() -> None:
            async with self._admin() as admin:
                await admin.topics.create(name, queues=4, message_type=kind, if_missing=True)

        self._run(make())

    def make_group(self, name: str, **settings: Any) -> None:
        async def make() -> None:
            async with self._admin() as admin:
                await admin.groups.create(name, if_missing=True, **settings)

        self._run(make())

    def dead_letters(self, group: str) -> int:
        """How many messages a group has given up."""

        async def count() -> int:
            async with self._admin() as admin:
                found = await admin.topics.names(internal=True)
                if f"%DLQ%{group}" not in found:
                    return 0
                return (await admin.topics.stats(f"%DLQ%{group}")).messages

        return self._run(count())

    def _admin(self) -> Admin:
        # A busy machine may take long.
        return Admin(Session(self.name_server, timeout_ms=60_000))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_S)


@contextmanager
def grpc_target(whose: str, scratch: Path) -> Iterator[GrpcTarget]:
    """One of `WHOSE`, inside the block."""
    with ExitStack() as stack:
        loop = stack.enter_context(background_loop())
        if whose == "ours":
            conf = scratch / "broker.conf"
            conf.write_text("".join(f"{name}={value}\n" for name, value in SETTINGS.items()))
            command = ["serve", "-c", str(conf), "--small-files", "--data", str(scratch / "store")]
            command += ["--namesrv", "127.0.0.1:0", "--broker", "127.0.0.1:0"]
            at = stack.enter_context(rocketpipe(scratch, *command, "--grpc", "127.0.0.1:0"))
            yield GrpcTarget(at["grpc"], at["namesrv"], loop)
            return

        def entered(context: Any) -> Any:
            def run(work: Coroutine[Any, Any, Any]) -> Any:
                return asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE_S)

            stack.callback(lambda: run(context.__aexit__(None, None, None)))
            return run(context.__aenter__())

        apache = find_apache(NEWEST, with_proxy=True)
        running = entered(apache.cluster(scratch, **APACHES))
        names = running.name_servers
        if whose == "apaches":
            yield GrpcTarget(entered(apache.proxy(scratch, names)).address, names, loop)
            return
        command = ["proxy", "-n", names, "--data", str(scratch / "proxy-data")]
        at = stack.enter_context(rocketpipe(scratch, *command, "--grpc", "127.0.0.1:0"))
        yield GrpcTarget(at["grpc"], names, loop)


@contextmanager
def rocketpipe(scratch: Path, *arguments: str) -> Iterator[dict[str, str]]:
    """A server of ours inside the block, which is given its addresses and ``pid``."""
    with (scratch / "ours.log").open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "rocketpipe.cli.main", *arguments],
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    with child:
        try:
            assert child.stdout is not None
            ready = next((line for line in child.stdout if line.startswith("ready ")), "")
            assert ready, f"it did not start: {(scratch / 'ours.log').read_text()[-2000:]}"
            yield {**dict(re.findall(r"(\w+)=(\S+)", ready)), "pid": str(child.pid)}
        finally:
            child.terminate()
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                child.kill()
