"""Apache's own servers, started from their jars as judges of ours.

The jars come from Maven Central by way of the machine's ``mvn``, once, and are kept in the user's
cache. Everything that the servers write goes below the directory that a test gives them. Tests get
an `Apache` from the fixture ``apache``, which skips where there is no Java or no Maven.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from rocketpipe.pipeline.java import find_java
from rocketpipe.protocol.requests.routes import GetBrokerClusterInfo
from rocketpipe.remoting.caller import Caller

VERSION: Final = "5.3.3"
#: Those that are replicas of ours, and we of theirs. Maven Central has no server of 4.9.8.
NEWEST: Final = "5.5.0"
OLDEST: Final = "4.9.7"
BROKER: Final = "broker-a"
CLUSTER: Final = "DefaultCluster"
RESOLVE_TIMEOUT_S: Final = 240
START_TIMEOUT_S: Final = 90
STOP_TIMEOUT_S: Final = 60

#: Small files, and a disk that counts as empty however full that of the machine is.
SMALL_BROKER: Final[Mapping[str, object]] = {
    "mappedFileSizeCommitLog": 16 << 20,
    "mappedFileSizeConsumeQueue": 60_000,
    "mappedFileSizeTimerLog": 1 << 20,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 4000,
    "diskMaxUsedSpaceRatio": 95,
    "diskSpaceCleanForciblyRatio": 98,
    "diskSpaceWarningLevelRatio": 99,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApacheCluster:
    """Where a NameServer and a broker of Apache's listen."""

    name_servers: str
    broker: str
    directory: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ApacheBroker:
    """A broker of Apache's that runs."""

    address: str
    ha_address: str
    directory: Path
    pid: int

    @property
    def store(self) -> Path:
        return self.directory / "store"

    def errors(self) -> list[str]:
        """What it complained of in its log files since it was first started here."""
        return [
            line
            for log in sorted(self.directory.rglob("logs/**/*.log"))
            for line in log.read_text(errors="replace").splitlines()
            if " ERROR " in line
        ]


@dataclass(frozen=True, slots=True)
class ApacheProxy:
    """A gRPC proxy of Apache's that runs."""

    address: str
    pid: int


@dataclass(frozen=True, slots=True)
class Apache:
    """A Java to run Apache's servers with, and their jars."""

    java: Path
    jars: Path
    #: For Java: by default a small one that is quick to start, and not to be measured.
    flags: tuple[str, ...] = (
        *("-Xms128m", "-Xmx512m", "-XX:MaxDirectMemorySize=256m"),
        *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    )

    @asynccontextmanager
    async def cluster(self, directory: Path, **settings: object) -> AsyncIterator[ApacheCluster]:
        """Run a NameServer and a broker inside the block; ``settings`` are those of broker.conf."""
        async with (
            self.name_server(directory) as name_servers,
            self.broker(directory, name_servers, **settings) as broker,
        ):
            yield ApacheCluster(name_servers=name_servers, broker=broker, directory=directory)

    @asynccontextmanager
    async def name_server(self, directory: Path, port: int | None = None) -> AsyncIterator[str]:
        """Run a NameServer inside the block, which is given its address."""
        port = port or free_port()
        conf = directory / "namesrv.conf"
        conf.write_text(f"listenPort={port}\nbindAddress=127.0.0.1\n")
        start = "org.apache.rocketmq.namesrv.NamesrvStartup"
        async with self._running(directory, start, "-c", str(conf)):
            yield f"127.0.0.1:{port}"

    @asynccontextmanager
    async def broker(
        self, directory: Path, name_servers: str, **settings: object
    ) -> AsyncIterator[str]:
        """Run a broker, known to those NameServers, inside the block; it is given its address.

        Its store is ``store`` in the directory, if ``settings`` do not say otherwise.
        """
        async with self.replica(directory, name_servers, **settings) as running:
            yield running.address

    @asynccontextmanager
    async def replica(
        self, directory: Path, name_servers: str, *, port: int | None = None, **settings: object
    ) -> AsyncIterator[ApacheBroker]:
        """The same for a broker whose port, process and log files matter."""
        port = port or free_port()
        conf = directory / "broker.conf"
        conf.write_text(_broker_conf(directory, port, settings))
        start = "org.apache.rocketmq.broker.BrokerStartup"
        arguments = ("-c", str(conf), "-n", name_servers)
        async with self._running(directory, start, *arguments) as pid:
            address = f"127.0.0.1:{port}"
            await _until_registered(name_servers, address)
            yield ApacheBroker(
                address=address, ha_address=f"127.0.0.1:{port + 1}", directory=directory, pid=pid
            )

    @asynccontextmanager
    async def controller(self, directory: Path) -> AsyncIterator[str]:
        """Run a controller of one node inside the block, which is given its address."""
        port = free_port()
        settings = {
            "controllerDLegerGroup": "controllers",
            "controllerDLegerPeers": f"n0-127.0.0.1:{port}",
            "controllerDLegerSelfId": "n0",
            "controllerStorePath": directory / "controller",
            "mappedFileSize": 1 << 20,
        }
        conf = directory / "controller.conf"
        conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        start = "org.apache.rocketmq.controller.ControllerStartup"
        async with self._running(directory, start, "-c", str(conf)):
            yield f"127.0.0.1:{port}"

    @asynccontextmanager
    async def proxy(
        self, directory: Path, name_servers: str, **settings: object
    ) -> AsyncIterator[ApacheProxy]:
        """Run a gRPC proxy in front of a cluster inside the block."""
        port = free_port()
        names = {
            "rocketMQClusterName": CLUSTER,
            "proxyMode": "CLUSTER",
            "namesrvAddr": name_servers,
            "grpcServerPort": port,
            "remotingListenPort": port + 1,
            "localServeAddr": "127.0.0.1",
            # Else a group or topic that was made a moment ago is unknown for long.
            "userConfigRefreshIntervalMillis": 1000,
            **settings,
        }
        home = directory / "proxy"
        (home / "conf").mkdir(parents=True, exist_ok=True)
        conf = home / "conf" / "rmq-proxy.json"
        conf.write_text(json.dumps(names))
        start = "org.apache.rocketmq.proxy.ProxyStartup"
        arguments = ("-n", name_servers, "-pm", "cluster", "-pc", str(conf))
        async with self._running(home, start, *arguments, booted="startup successfully") as pid:
            yield ApacheProxy(f"127.0.0.1:{port}", pid)

    @asynccontextmanager
    async def _running(
        self, directory: Path, start: str, *arguments: str, booted: str = "boot success"
    ) -> AsyncIterator[int]:
        """Run a server inside the block, which is given the id of its process."""
        _write_log_settings(directory)
        child = await asyncio.create_subprocess_exec(
            str(self.java),
            *(*self.flags, "-XX:-UsePerfData"),
            *(f"-Duser.home={directory}", f"-Djava.io.tmpdir={directory}"),
            *(f"-Drocketmq.home.dir={directory}", f"-DRMQ_PROXY_HOME={directory}"),
            "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
            "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
            "--add-opens=java.base/java.nio=ALL-UNNAMED",  # 4.9 unmaps files by it
            *("-cp", f"{self.jars}/*", start, *arguments),
            cwd=directory,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        assert child.stdout is not None
        try:
            said = await _until_started(child.stdout, booted)
            assert booted in said, f"{start} did not start: {said}{_logged(directory)}"
            draining = asyncio.ensure_future(child.stdout.read())
            yield child.pid
            if child.returncode is None:  # nobody has killed it
                child.terminate()
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await child.wait()
                await draining
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()


def find_apache(version: str = VERSION, *, with_proxy: bool = False) -> Apache:
    """Find a Java and the jars, which are fetched the first time; skips the test without them."""
    rejected: list[str] = []
    found = find_java(os.environ, rejected=rejected)
    if found is None:
        pytest.skip(f"no Java that can run Apache's servers; passed over: {rejected}")
    servers = ("broker", "namesrv", "proxy") if with_proxy else ("broker", "namesrv")
    parts = [f"org.apache.rocketmq:rocketmq-{part}:{version}" for part in servers]
    name = "rocketmq-with-proxy" if with_proxy else "rocketmq"
    return Apache(found.home / "bin" / "java", find_jars(name, version, parts, found.home))


def find_jars(name: str, version: str, wanted: Sequence[str], java_home: Path) -> Path:
    """Find the jars of artifacts (``group:name:version``) and of all that they need.

    Maven fetches them the first time; skips the test where it cannot.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rocketpipe-tests"
    kept = cache / f"{name}-{version}"
    if not kept.is_dir():
        maven = shutil.which("mvn")
        if maven is None:
            pytest.skip(f"no mvn to fetch {name} {version} with")
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            _resolve(maven, java_home, Path(scratch), wanted)
            try:
                (Path(scratch) / "jars").rename(kept)
            except OSError:
                if not kept.is_dir():  # or another run was quicker
                    raise
    return kept


def _resolve(maven: str, java_home: Path, scratch: Path, wanted: Sequence[str]) -> None:
    """Let Maven put artifacts and all that they need into ``jars``, whole or not at all."""
    (scratch / "pom.xml").write_text(
        "<project><modelVersion>4.0.0</modelVersion>"
        "<groupId>compat</groupId><artifactId>compat</artifactId><version>1</version>"
        f"<dependencies>{''.join(map(_dependency, wanted))}</dependencies></project>"
    )
    copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
    command = [maven, "-q", "-B", copy, "-DincludeScope=runtime", "-DoutputDirectory=jars"]
    try:
        done = subprocess.run(
            command,
            cwd=scratch,
            env={**os.environ, "JAVA_HOME": str(java_home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=RESOLVE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"Maven did not fetch {wanted[0]} in {RESOLVE_TIMEOUT_S} s")
    if done.returncode != 0:
        said = done.stdout.decode(errors="replace").strip().splitlines() or ["nothing"]
        pytest.skip(f"Maven cannot fetch {wanted[0]}; it says: {said[0]}")


def _dependency(wanted: str) -> str:
    group, name, version = wanted.split(":")
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version></dependency>"
    )


def _broker_conf(directory: Path, port: int, settings: Mapping[str, object]) -> str:
    store = directory / "store"
    names = {
        "brokerClusterName": CLUSTER,
        "brokerName": BROKER,
        "brokerId": 0,
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "bindAddress": "127.0.0.1",
        "listenPort": port,
        "haListenPort": port + 1,
        "storePathRootDir": store,
        "storePathCommitLog": store / "commitlog",
        **SMALL_BROKER,
        **settings,
    }
    return "".join(f"{name}={value}\n" for name, value in names.items())


def _write_log_settings(directory: Path) -> None:
    """Have servers before 5.0 write a log, which they do not start without being told how to."""
    text = f"""<configuration>
      <appender name="all" class="ch.qos.logback.core.FileAppender">
        <file>{directory}/logs/{{}}.log</file>
        <encoder><pattern>%d{{yyyy-MM-dd HH:mm:ss}} %p %t - %m%n</pattern></encoder>
      </appender>
      <root level="INFO"><appender-ref ref="all"/></root>
    </configuration>"""
    conf = directory / "conf"
    conf.mkdir(exist_ok=True)
    for name in ("broker", "namesrv"):
        (conf / f"logback_{name}.xml").write_text(text.replace("{}", name))


def free_port() -> int:
    """A port with those free beside it that the broker takes too: two before it and one behind.

    It lies below those that systems hand out for port 0, which tests beside this one ask for.
    """
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        try:
            for wanted in (port - 2, port, port + 1):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", wanted))
        except OSError:
            continue
        return port


async def _until_started(output: asyncio.StreamReader, booted: str) -> str:
    said = ""
    async with asyncio.timeout(START_TIMEOUT_S):
        while line := (await output.readline()).decode(errors="replace"):
            said += line
            if booted in line:
                break
    return said


async def _until_registered(name_servers: str, address: str) -> None:
    """Wait for the first registration: ten seconds later, if it came before it had connected."""
    async with Caller() as caller, asyncio.timeout(START_TIMEOUT_S):
        while True:
            reply = await caller.call(name_servers, GetBrokerClusterInfo())
            brokers = reply.cluster_brokers.brokers.values()
            if any(address in each.addresses.values() for each in brokers):
                return
            await asyncio.sleep(0.05)


def _logged(directory: Path) -> str:
    """The end of what the servers logged, for a test that failed."""
    logs = directory.rglob("logs/**/*.log")
    return "".join(
        f"\n{log.name}: …{log.read_text(errors='replace')[-2000:]}"
        for log in sorted(logs)
        if log.name in {"broker.log", "namesrv.log", "store.log", "storeerror.log"}
    )
