"""``rocketpipe serve --brokers N``: a NameServer here, N brokers as children, and one banner."""

from __future__ import annotations

import argparse
import dataclasses
import logging
from contextlib import AsyncExitStack
from typing import Any, Final

from rocketpipe.broker.config.advertise import local_address
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.loading import LoadedBroker
from rocketpipe.cli.serving import (
    banner,
    console_option,
    hints,
    http_option,
    process,
    settings,
    tls_option,
)
from rocketpipe.cli.serving.banner import Banner, Fact, Found
from rocketpipe.cli.serving.broker import OwnNameServer, boot_line
from rocketpipe.cli.serving.fleet import cores, directory
from rocketpipe.cli.serving.fleet.commands import Commands
from rocketpipe.cli.serving.fleet.fleet import Fleet
from rocketpipe.cli.serving.fleet.health import FleetHealth
from rocketpipe.clock import SystemClock
from rocketpipe.errors import ConfigError
from rocketpipe.health.bearer import BearerToken
from rocketpipe.store import roster
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.roster import Member, MemberState, Roster

#: Of several brokers the worst counts.
_FOUND: Final = (Found.NEW, Found.STOPPED, Found.CRASHED)


def serve_fleet(
    options: argparse.Namespace, loaded: LoadedBroker, wished: Roster, own: OwnNameServer
) -> int:
    """Run those brokers until a signal says stop; give the exit code.

    Raises:
        ConfigError: They cannot be run so.
        StoreLocked: Somebody else has the directory.
        NoBrokerStarts: None of them could be started.
    """
    config = loaded.config
    _refuse_replicas(loaded)
    _warn_of_name(loaded, wished)
    level = logging.getLevelName(logging.getLogger().getEffectiveLevel()).lower()
    commands = Commands(options, config, wished, log_level=level)
    names = [member.name for member in wished.brokers]
    pinned = cores.placement(len(names), cores.allowed() if options.pin_cores else [])
    clock = SystemClock()

    async def start(stack: AsyncExitStack) -> list[str]:
        placement = dict(zip(names, pinned, strict=True))
        outgoing = config.tls.outgoing if config.tls else None
        inner = config.inner_client() if config.authenticates else None
        sign = inner.sign if inner is not None else None
        fleet = Fleet(config.data, wished, commands, clock, placement, outgoing, sign)
        token = options.http_token_file
        health = FleetHealth(fleet, clock, BearerToken(token) if token is not None else None)
        tls = await tls_option.opened(stack, config.tls)
        later = http_option.later(options)
        http = await http_option.opened_for(stack, options, health, tls, later)
        name_server = await stack.enter_async_context(own.serving())
        directory.settle(config, wished)
        await stack.enter_async_context(fleet.serving(local_address(name_server)))
        console = await console_option.opened_beside(
            stack,
            later,
            http=http,
            name_servers=local_address(name_server),
            data=config.data,
            told=health,
            tls=outgoing or False,
            is_https=banner.enforces(config.tls),
            inner=config.inner_client() if config.authentication else None,
        )
        health.started = True
        served = dataclasses.replace(config, name_servers=(local_address(name_server),))
        hosts = [own.host, config.host, *([options.http[0]] if options.http else [])]
        facts = [
            banner.version(),
            Fact("NameServer", name_server, "name_servers", [name_server]),
            _brokers(fleet, config),
            banner.cores(len(names), cores.usable(), pinned),
            *banner.http(http, config.tls),
            *console,
            banner.profile(config),
            _data(fleet, config),
            banner.durability(config.store or StoreConfig(root=config.data)),
            *tls_option.fact(config.tls),
            banner.access(hosts, config),
            *banner.audit(config),
            *hints.faster(),
        ]
        told = Banner(
            boot=[own.boot_line(name_server), *_boot_lines(fleet, served)],
            ready={
                "namesrv": name_server,
                **_serving(fleet),
                **({"http": http} if http else {}),
            },
            facts=facts,
            next_steps=banner.next_steps(name_server, found=_found(fleet), tls=config.tls),
        )
        if own.secured is not None:
            own.secured.tell_clients(name_server)
            told = banner.secured(told, own.secured, name_server)
        return told.lines(options.output)

    with roster.claimed(config.data):
        return process.serve_until_signal(start)


def _refuse_replicas(loaded: LoadedBroker) -> None:
    if loaded.config.replication is None:
        return
    said = [key for key in ("zookeeperAddr", "brokerRole") if loaded.choice.given(key)]
    origin = loaded.choice.origin(said[0]) if said else directory.FLAG
    raise ConfigError(
        origin,
        "several brokers in one directory have no replicas: run each with `rocketpipe broker`, "
        "with its replicas, or leave --brokers and the role out",
    )


def _warn_of_name(loaded: LoadedBroker, wished: Roster) -> None:
    given = loaded.choice.given("brokerName")
    if given is not None and given.text != wished.prefix:
        names = ", ".join(member.name for member in wished.brokers)
        settings.warn(
            [
                f"{given.origin}: {given.name}={given.text!r} is not used, as the brokers of "
                f"{loaded.config.data} keep their names: {names}"
            ]
        )


def _serving(fleet: Fleet) -> dict[str, str]:
    """The addresses of those that serve, by name."""
    return {
        name: fleet.address(name) for name, child in fleet.children.items() if child.ready.is_set()
    }


def _brokers(fleet: Fleet, config: BrokerConfig) -> Fact:
    serving = _serving(fleet)
    words = [
        f"{name} {serving[name]}{_state(member)}" if name in serving else f"{name} DOES NOT START"
        for name, member in fleet.members.items()
    ]
    return Fact(
        "Brokers",
        f"{', '.join(words)} ({config.cluster})",
        "brokers",
        {name: serving.get(name) for name in fleet.members},
        alarming=len(serving) < len(words),
    )


def _state(member: Member) -> str:
    return "" if member.state is MemberState.SERVING else " (draining)"


def _data(fleet: Fleet, config: BrokerConfig) -> Fact:
    """What all of them have in the directory; a topic is at most of them, so it counts once."""
    told = _told(fleet)
    return banner.data_of(
        config.data,
        _found(fleet),
        topics=max(each["data"]["topics"] for each in told),
        messages=sum(each["data"]["messages"] for each in told),
        size=sum(each["data"]["bytes"] for each in told),
    )


def _found(fleet: Fleet) -> Found:
    found = (Found[each["data"]["found"].upper()] for each in _told(fleet))
    return max(found, key=_FOUND.index)


def _told(fleet: Fleet) -> list[dict[str, Any]]:
    """What each that serves said when it was ready."""
    return [child.told for child in fleet.children.values() if child.ready.is_set()]


def _boot_lines(fleet: Fleet, config: BrokerConfig) -> list[str]:
    return [
        boot_line(
            dataclasses.replace(config, name=told["name"], advertise=None),
            told.get("advertised", told["broker"]),
        )
        for told in _told(fleet)
    ]
