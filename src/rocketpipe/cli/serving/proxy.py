"""``rocketpipe proxy``: the gRPC port in a process of its own, in front of a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from rocketpipe.auth.opening import keep_looking, open_gate
from rocketpipe.background import running
from rocketpipe.cli.serving import (
    banner,
    grpc_option,
    hints,
    http_option,
    process,
    settings,
    tls_option,
)
from rocketpipe.cli.serving.banner import Banner, Fact
from rocketpipe.client.credentials import ACCESS_KEY, credentials_of
from rocketpipe.clock import Clock, SystemClock
from rocketpipe.descriptors import raise_limit
from rocketpipe.errors import ConfigError, RocketPipeError
from rocketpipe.remoting.tls_settings import Mode
from rocketpipe.store.files.disk import Disk

if TYPE_CHECKING:
    from rocketpipe.proxy.remote.backend import RemoteBackend
    from rocketpipe.proxy.remote.config import ProxyServerConfig

#: Where its users are, in the directory of its data.
_USERS: Final = "auth"
#: How often it looks whether there is a cluster, for those who ask whether it is ready.
LOOK_EVERY_MS: Final = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser this command."""
    parser.description = (
        "Serve clients of RocketMQ 5, which speak gRPC, in front of a cluster of RocketPipe's or "
        "Apache's brokers, until SIGINT or SIGTERM. When it serves, it says so, and last comes a "
        "line that begins with 'ready' and names its address. Brokers with access control know it "
        "by one user, innerClientAuthenticationCredentials or ROCKETPIPE_ACCESS_KEY; with "
        "authenticationEnabled it asks itself who comes, by users of its own (DATA/auth)."
    )
    parser.add_argument(
        "-n",
        "--namesrvAddr",
        metavar="HOST:PORT[;HOST:PORT]",
        help="the NameServers of the cluster (127.0.0.1:9876); NAMESRV_ADDR says the same",
    )
    grpc_option.add_flag(parser, "127.0.0.1:8081")
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="where the certificate is kept that it makes if it is given none (~/rocketpipe-proxy)",
    )
    settings.add_shared_flags(parser)
    http_option.add_flags(parser)
    banner.add_flag(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until a signal says stop."""
    process.set_up_log(options.log_level, options.log_format)
    if (lacking := grpc_option.missing()) is not None:
        raise ConfigError("proxy", lacking)
    # Here, as protobuf is an extra.
    from rocketpipe.proxy.remote.config import load_proxy, proxy_items, proxy_settings

    host, port = options.grpc or (None, None)
    given = settings.given_to(
        proxy_settings(),
        files=tls_option.files(options),
        tables=("proxy",),
        flags=[
            *tls_option.flags(options),
            ("namesrvAddr", options.namesrvAddr, "--namesrvAddr"),
            ("bindAddress", host, "--grpc"),
            ("grpcServerPort", None if port is None else str(port), "--grpc"),
            ("storePathRootDir", options.data, "--data"),
        ],
    )
    config, choice = load_proxy(given)
    if options.print_config:
        settings.print_items(proxy_items(config, choice))
        return 0
    origin = choice.origin("bindAddress")
    guarded = options.insecure or config.authenticates
    settings.refuse_strangers(config.host, origin, insecure=guarded)
    _refuse_to_lend(config, insecure=guarded)
    http_option.refuse_strangers(options)
    settings.tell_of(choice)
    raise_limit()
    return process.serve_until_signal(_Starting(options, config).start)


def _refuse_to_lend(config: ProxyServerConfig, *, insecure: bool) -> None:
    """Refuse to let strangers do what a user may, unless that is said aloud.

    Raises:
        ConfigError: If the settings or the environment name one, as whom it would ask.
    """
    own = config.inner_client() or credentials_of()
    if own is not None and not insecure:
        raise ConfigError(
            ACCESS_KEY,
            f"whoever connects, without a login, could do all that {own.access_key!r} may: set "
            "authenticationEnabled, so that this proxy asks who comes; or say --insecure, as a "
            "user of few rights",
        )


class _Starting:
    """From settings to a port that serves."""

    def __init__(self, options: argparse.Namespace, config: ProxyServerConfig) -> None:
        self._options = options
        self._config = config
        self._problem: str | None = "no look at the cluster yet"

    async def start(self, stack: AsyncExitStack) -> list[str]:
        from rocketpipe.proxy.front.front import Front
        from rocketpipe.proxy.remote.backend import RemoteBackend
        from rocketpipe.proxy.server import grpc_port

        config, options, clock = self._config, self._options, SystemClock()
        watched, http = await http_option.opened(stack, options, config.tls)
        outgoing = None if config.tls is None else config.tls.outgoing
        data = config.data.expanduser()
        gate = open_gate(
            config, disk=Disk(), clock=clock, usual=data / _USERS, cluster=config.auth_cluster
        )
        if gate is not None:
            await stack.enter_async_context(running(keep_looking(gate, clock), "users"))
        backend = await stack.enter_async_context(
            RemoteBackend.opened(
                ";".join(config.name_servers),
                tls=outgoing,
                max_body_bytes=config.max_body_bytes,
                gate=gate,
                credentials=config.inner_client(),
            )
        )
        kept = data / grpc_option.CERTIFICATES
        front = await stack.enter_async_context(Front.opened(config.tls, kept, config.host, clock))
        watched.add(lambda: self._problem, front.families)
        address = await stack.enter_async_context(
            grpc_port(backend, config.host, config.port, listen=front.listen)
        )
        await self._look(backend)
        await stack.enter_async_context(running(self._watch(backend, clock), "cluster"))
        watched.started = True
        told = Banner(
            boot=["rocketmq-proxy startup successfully"],
            ready={"grpc": address, **({"http": http} if http else {})},
            facts=list(self._facts(address, http, front.mode)),
            next_steps=[f"rocketpipe topic list -n '{';'.join(config.name_servers)}'"],
        )
        return told.lines(options.output)

    def _facts(self, address: str, http: str | None, mode: Mode) -> Iterator[Fact]:
        config, options = self._config, self._options
        yield banner.version()
        yield grpc_option.fact(address, mode)
        servers = ";".join(config.name_servers)
        text = servers if self._problem is None else f"{servers}: {self._problem}"
        alarming = self._problem is not None
        yield Fact(
            "NameServers", text, "name_servers", list(config.name_servers), alarming=alarming
        )
        yield from banner.http(http, config.tls)
        hosts = [config.host, *([options.http[0]] if options.http else [])]
        yield banner.access(hosts, config)
        yield from hints.faster()

    async def _look(self, backend: RemoteBackend) -> None:
        try:
            await backend.brokers()
        except RocketPipeError as error:
            self._problem = str(error)
        else:
            self._problem = None

    async def _watch(self, backend: RemoteBackend, clock: Clock) -> None:
        while True:
            await clock.sleep(LOOK_EVERY_MS)
            await self._look(backend)
