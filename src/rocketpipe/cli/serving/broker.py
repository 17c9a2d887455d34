"""``rocketpipe broker``: a broker, told what to do as RocketMQ's is."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import Final, NamedTuple

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.advertise import advertised_address, local_address
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.draining import CLOSED, DRAINING
from rocketpipe.broker.config.loading import LoadedBroker, broker_settings, load_broker
from rocketpipe.broker.config.replication import BrokerRole
from rocketpipe.broker.core import Core
from rocketpipe.cli.serving import (
    audit_option,
    banner,
    console_option,
    grpc_option,
    hints,
    host_checks,
    http_option,
    process,
    settings,
    tls_option,
)
from rocketpipe.cli.serving.banner import Banner, Fact, Found
from rocketpipe.cli.serving.fleet import cores, directory
from rocketpipe.cli.serving.secure import Secured
from rocketpipe.descriptors import raise_limit
from rocketpipe.errors import ConfigError
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.roster import MemberState

#: What ``-m`` prints: what operators look at first.
IMPORTANT: Final = frozenset(
    {
        "namesrvAddr",
        "brokerIP1",
        "bindAddress",
        "listenPort",
        "brokerName",
        "brokerClusterName",
        "brokerId",
        "brokerRole",
        "haListenPort",
        "zookeeperAddr",
        "minInSyncReplicas",
        "brokerPermission",
        "autoCreateTopicEnable",
        "autoCreateSubscriptionGroup",
        "storePathRootDir",
        "flushDiskType",
        "fileReservedTime",
        "deleteWhen",
        "maxMessageSize",
        "messageDelayLevel",
    }
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser this command."""
    parser.description = (
        "Run a broker until SIGINT or SIGTERM, as in a real deployment: by itself, with profile "
        "prod. When it serves, it says so, and last comes a line that begins with 'ready' and "
        "names its address."
    )
    parser.add_argument(
        "-n",
        "--namesrvAddr",
        metavar="HOST:PORT[;HOST:PORT]",
        help="the NameServers it registers with; NAMESRV_ADDR says the same",
    )
    parser.add_argument("--data", metavar="DIR", help="where it keeps its data (~/store)")
    parser.add_argument("--bind", metavar="HOST", help="the address it listens on (127.0.0.1)")
    parser.add_argument(
        "--port",
        type=settings.port,
        metavar="PORT",
        help="where it listens (10911); 0 takes a free one",
    )
    add_group_flags(parser)
    add_broker_flags(parser, "broker")
    grpc_option.add_flag(parser, "not at all")
    settings.add_shared_flags(parser)
    http_option.add_flags(parser)
    banner.add_flag(parser)
    parser.add_argument(
        "-p",
        "--printConfigItem",
        action="store_true",
        dest="print_config",
        help="the same as --print-config",
    )
    parser.add_argument(
        "-m",
        "--printImportantConfig",
        action="store_true",
        dest="print_important",
        help="the same, for what matters most",
    )
    parser.add_argument(
        "--no-fast-port",
        action="store_true",
        help="do not serve the port two below --port as well (fastPortEnable=false)",
    )
    # Of a child of `serve --brokers`: what that has said already need not be said again.
    parser.add_argument("--supervised", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--auth-directory", help=argparse.SUPPRESS)
    # Of one that `broker drain` empties: it starts again as it was.
    parser.add_argument("--state", choices=list(MemberState), help=argparse.SUPPRESS)
    parser.set_defaults(run=run)


def add_group_flags(parser: argparse.ArgumentParser) -> None:
    """Add what says who a broker is among those of its name."""
    parser.add_argument("--name", metavar="NAME", help="its name in routes (broker-a)")
    parser.add_argument(
        "--id", metavar="N", help="0 is the master of that name, slaves have others (0)"
    )
    parser.add_argument(
        "--role",
        choices=["async-master", "sync-master", "slave"],
        help="answer sends by itself, or when its slaves have them too, or follow a master",
    )
    parser.add_argument(
        "--ha-port",
        type=settings.port,
        metavar="PORT",
        help="where slaves connect (the port behind --port); 0 takes a free one",
    )
    parser.add_argument(
        "--zookeeper",
        metavar="HOST:PORT[,HOST:PORT]",
        help="have a leader elected among the brokers of that name, by this ensemble",
    )


def add_broker_flags(parser: argparse.ArgumentParser, server: str) -> None:
    """Add what a broker understands, alone or beside a NameServer."""
    parser.add_argument(
        "--advertise",
        metavar="HOST[:PORT]",
        help="where clients are told to connect, if it is not where the broker listens",
    )
    parser.add_argument(
        "--flush",
        choices=["async", "sync"],
        help="acknowledge a message once the operating system has it (async), or the disk (sync)",
    )
    settings.add_profile_flag(
        parser,
        server,
        "dev: small files, and topics and groups are made when first used; prod: RocketMQ's sizes, "
        "and they are made by operators",
    )
    parser.add_argument(
        "--small-files",
        action="store_true",
        help="make files of 16 MiB where the data begins, whatever the profile: for tests",
    )


def broker_flags(options: argparse.Namespace) -> list[tuple[str, str | None, str]]:
    """Give what those flags said, as ``settings.given_to`` takes it."""
    flush = f"{options.flush}_FLUSH".upper() if options.flush else None
    return [
        ("storePathRootDir", options.data, "--data"),
        ("brokerIP1", options.advertise, "--advertise"),
        ("flushDiskType", flush, "--flush"),
        ("profile", options.profile, "--profile"),
    ]


def _group_flags(options: argparse.Namespace) -> list[tuple[str, str | None, str]]:
    role = options.role.replace("-", "_").upper() if options.role else None
    return [
        ("brokerName", options.name, "--name"),
        ("brokerId", options.id, "--id"),
        ("brokerRole", role, "--role"),
        ("haListenPort", options.ha_port, "--ha-port"),
        ("zookeeperAddr", options.zookeeper, "--zookeeper"),
    ]


def _state_flags(options: argparse.Namespace) -> list[tuple[str, str | None, str]]:
    if options.state in (None, MemberState.SERVING):
        return []
    changes = CLOSED if options.state == MemberState.CLOSED else DRAINING
    return [(key, value, "--state") for key, value in changes.items()]


def run(options: argparse.Namespace) -> int:
    """Serve until a signal says stop."""
    process.set_up_log(options.log_level, options.log_format)
    given = settings.given_to(
        broker_settings(),
        files=tls_option.files(options),
        tables=("broker", "store"),
        flags=[
            *tls_option.flags(options),
            *broker_flags(options),
            *_group_flags(options),
            *_state_flags(options),
            *audit_option.flags(options),
            ("authConfigPath", options.auth_directory, "--auth-directory"),
            ("namesrvAddr", options.namesrvAddr, "-n"),
            ("bindAddress", options.bind, "--bind"),
            ("listenPort", options.port, "--port"),
            ("fastPortEnable", "false" if options.no_fast_port else None, "--no-fast-port"),
        ],
    )
    loaded = load_broker(
        given, profile=settings.USUAL_PROFILE["broker"], small_files=options.small_files
    )
    if options.print_config or options.print_important:
        settings.print_items(
            item for item in loaded.items() if options.print_config or item[0] in IMPORTANT
        )
        return 0
    config = loaded.config
    process.log_as(config.name)
    settings.refuse_strangers(
        config.host,
        loaded.choice.origin("bindAddress"),
        insecure=options.insecure or config.authenticates,
    )
    http_option.refuse_strangers(options)
    grpc_option.refuse_strangers(options, guarded=config.authenticates)
    _refuse_lost_slave(loaded)
    directory.refuse_unless_alone(config.data, loaded.choice.origin("storePathRootDir"))
    with settings.claimed_directory(config.data, loaded.choice.origin("storePathRootDir")):
        if not options.supervised:
            settings.tell_of(loaded.choice)
            settings.warn_of_no_access_control(config)
            settings.warn_of_replay([config.host], config, config.tls)
        if not config.name_servers:
            settings.warn(
                ["no NameServer to register with, so no client finds this broker: add -n"]
            )
        with audit_option.written(config):
            return serve_broker(options, config)


def _refuse_lost_slave(loaded: LoadedBroker) -> None:
    config = loaded.config
    group = config.replication
    if group is None or group.elected or group.role is not BrokerRole.SLAVE:
        return
    if not config.name_servers and group.master is None:
        raise ConfigError(
            loaded.choice.origin("brokerRole"),
            "a slave without a NameServer finds no master: add -n, or set haMasterAddress",
        )


class OwnNameServer(NamedTuple):
    """A NameServer in the broker's process: the one that the broker registers with."""

    #: Serves as long as it is entered; gives the address.
    serving: Callable[[], AbstractAsyncContextManager[str]]
    host: str
    boot_line: Callable[[str], str]
    #: What ``--secure`` has set up.
    secured: Secured | None = None


def serve_broker(
    options: argparse.Namespace, config: BrokerConfig, own: OwnNameServer | None = None
) -> int:
    """Run a broker, and before it a NameServer of its own if there is one; give the exit code."""
    found = banner.found_in(config.data)
    raise_limit()
    settings.warn(host_checks.too_few_files(config))
    facts = [banner.cores(1, cores.usable())] if own is not None else []
    #: The parts of the moment, once there are any.
    parts: list[Core] = []
    hosts = [config.host, *([options.http[0]] if options.http else [])]
    if own is not None:
        hosts.insert(0, own.host)
    grpc = grpc_option.wanted(options)
    beside = None if grpc is None else grpc.beside(config)
    if grpc is not None:
        hosts.append(grpc.host)

    async def start(stack: AsyncExitStack) -> list[str]:
        later = http_option.later(options) if own is not None else None
        watched, http = await http_option.opened(stack, options, config.tls, later)
        if grpc is not None:
            watched.add(lambda: None, grpc.families)
        served, before, boot, ready = config, _registered_with(config), [], {}
        if own is not None:
            names = await stack.enter_async_context(own.serving())
            served = dataclasses.replace(config, name_servers=(local_address(names),))
            before = Fact("NameServer", names, "name_servers", [names])
            boot, ready = [own.boot_line(names)], {"namesrv": names}

        def watch(core: Core) -> None:
            if not parts:
                http_option.watch_broker(watched, lambda: parts[0])
            parts[:] = [core]  # one with replicas may be built anew; the old one goes

        address = await stack.enter_async_context(broker(served, watch=watch, beside=beside))
        console = []
        if own is not None:
            console = await console_option.opened_beside(
                stack,
                later,
                http=http,
                name_servers=names,
                data=config.data,
                told=watched,
                tls=(config.tls.outgoing if config.tls else None) or False,
                is_https=banner.enforces(config.tls),
                inner=config.inner_client() if config.authentication else None,
            )
        watched.started = True
        told = _banner(
            parts[0],
            address,
            boot=boot,
            before=[before],
            after=[*(grpc.facts() if grpc else ()), *console, *facts, *hints.faster()],
            ready={**ready, "broker": address, **(grpc.ready() if grpc else {})},
            hosts=hosts,
            http=http,
            found=found,
        )
        if own is not None and own.secured is not None:
            own.secured.tell_clients(ready["namesrv"])
            told = banner.secured(told, own.secured, ready["namesrv"])
        return told.lines(options.output)

    return process.serve_until_signal(start, partial(http_option.given_up, parts))


def _registered_with(config: BrokerConfig) -> Fact:
    servers = list(config.name_servers)
    text = ";".join(servers) or "none: no client finds this broker; add -n HOST:PORT"
    return Fact("NameServers", text, "name_servers", servers, alarming=not servers)


def _banner(
    core: Core,
    address: str,
    *,
    before: Sequence[Fact],
    after: Sequence[Fact],
    ready: Mapping[str, str],
    hosts: Sequence[str],
    http: str | None,
    found: Found,
    boot: Sequence[str],
) -> Banner:
    """What a broker says when it serves, with what is said ``before`` and ``after`` it."""
    config = core.config
    facts = [
        banner.version(),
        *before,
        Fact("Broker", f"{address} ({config.name}, {config.cluster})", "name", config.name),
        *banner.advertised(advertised_address(config.advertise, address), address),
        *banner.group(config, core.group.status().ha_address),
        *banner.http(http, config.tls),
        banner.profile(config),
        banner.data(core, found),
        banner.durability(config.store or StoreConfig(root=config.data)),
        *tls_option.fact(config.tls),
        banner.access(hosts, config),
        *banner.audit(config),
        *after,
    ]
    return Banner(
        boot=[*boot, boot_line(config, address)],
        ready={**ready, **({"http": http} if http else {})},
        facts=facts,
        next_steps=banner.next_steps(";".join(config.name_servers), found=found, tls=config.tls)
        if config.name_servers
        else (),
    )


def boot_line(config: BrokerConfig, address: str) -> str:
    """Say that it runs, in the words that RocketMQ's scripts look for."""
    known_as = advertised_address(config.advertise, address)
    line = f"The broker[{config.name}, {known_as}] boot success. serializeType=JSON"
    if config.name_servers:
        line += f" and name server is {';'.join(config.name_servers)}"
    return line
