"""What a server says of itself when it serves: on a terminal, into a pipe, or as JSON.

A terminal gets it in colours and in lines that fit. A pipe gets RocketMQ's boot lines, then the
same facts, one a line. Both end with the line that begins with ``ready``. JSON is one line.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from rocketpipe import compiled
from rocketpipe._version import __version__
from rocketpipe.auth.config import AuthConfig
from rocketpipe.broker.config.advertise import is_loopback
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.replication import BrokerRole
from rocketpipe.cli.terminal.printing import has_colours, painted
from rocketpipe.client.admin.findings import counted
from rocketpipe.model.names import is_dlq_topic, is_retry_topic
from rocketpipe.remoting.tls_settings import TlsConfig
from rocketpipe.store.config import FlushMode, StoreConfig
from rocketpipe.store.layout import StoreLayout

if TYPE_CHECKING:  # a NameServer has no broker, and need not wait for one to be loaded
    from rocketpipe.broker.core import Core
    from rocketpipe.cli.serving.secure import Secured

_LABEL_WIDTH: Final = 12
_LEAST_WIDTH: Final = 40
_MOST_WIDTH: Final = 120


class Found(StrEnum):
    """What was in a data directory before the server began."""

    NEW = "new"
    STOPPED = "after a stop in order"
    CRASHED = "recovered after a crash"


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of the banner: a label and words for people, a key and a value for programs."""

    label: str
    text: str
    key: str
    value: Any
    #: Whether somebody should look.
    alarming: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Banner:
    """Everything that is said when servers are ready."""

    #: RocketMQ's own lines, which its users' scripts wait for.
    boot: Sequence[str]
    #: The addresses of the last line, by the name of the server.
    ready: Mapping[str, str]
    facts: Sequence[Fact]
    #: Two commands to try next.
    next_steps: Sequence[str] = field(default=())
    #: Lines that are to be copied as they are, by what they are written in.
    examples: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def lines(self, form: str = "text", out: TextIO | None = None) -> list[str]:
        """The lines to print: ``json``, or ``text`` as ``out`` can show it."""
        out = out or sys.stdout
        if form == "json":
            facts = {fact.key: fact.value for fact in self.facts}
            told = {"event": "ready", **self.ready, **facts, "next": list(self.next_steps)}
            if self.examples:
                told["examples"] = {name: list(some) for name, some in self.examples.items()}
            return [json.dumps(told, ensure_ascii=False)]
        if out.isatty():
            shown = self._for_people(colours=has_colours(out))
        else:
            shown = [*self.boot, *(f"{fact.label}: {fact.text}" for fact in self.facts)]
            for name, some in self.examples.items():
                shown += [f"{name}: {line}" for line in some]
            shown += [f"Try: {step}" for step in self.next_steps]
        return [*shown, "ready " + " ".join(f"{name}={at}" for name, at in self.ready.items())]

    def _for_people(self, *, colours: bool) -> list[str]:
        columns = shutil.get_terminal_size().columns
        wide = min(max(columns, _LEAST_WIDTH), _MOST_WIDTH)
        lines = [""]
        for fact in self.facts:
            style = "warn" if fact.alarming else None
            lines += _entry(fact.label, fact.text, wide, style, colours=colours)
        for name, some in {**self.examples, "Try": self.next_steps}.items():
            for number, line in enumerate(some):
                # Not wrapped: it is to be copied.
                label = f"{'' if number else name:<{_LABEL_WIDTH}}"
                style = "good" if name == "Try" else None
                lines.append(
                    f"  {painted(label, 'head', colours=colours)}"
                    f"{painted(line, style, colours=colours)}"
                )
        return [*lines, ""]


def _entry(label: str, text: str, wide: int, style: str | None, *, colours: bool) -> list[str]:
    wrapped = textwrap.wrap(
        text, wide - _LABEL_WIDTH - 2, break_long_words=False, break_on_hyphens=False
    )
    lines = []
    for number, part in enumerate(wrapped or [""]):
        name = painted(f"{'' if number else label:<{_LABEL_WIDTH}}", "head", colours=colours)
        lines.append(f"  {name}{painted(part, style, colours=colours)}")
    return lines


def add_flag(parser: argparse.ArgumentParser) -> None:
    """Add ``-o``, by which a program asks for the banner as one line of JSON."""
    parser.add_argument(
        "-o",
        "--output",
        choices=["text", "json"],
        default="text",
        help="say that it is ready in words (default), or in one line of JSON",
    )


def version() -> Fact:
    """Which version runs, on what, and with which twin of the hot functions."""
    python, engine = platform.python_version(), compiled.describe()
    return Fact(
        "RocketPipe",
        f"{__version__} on {platform.python_implementation()} {python}; engine: {engine}",
        "rocketpipe",
        {"version": __version__, "engine": engine, "python": python},
    )


def found_in(root: Path) -> Found:
    """What a directory has, asked before a server opens it."""
    layout = StoreLayout(root)
    if not layout.commit_log.is_dir():
        return Found.NEW
    crashed = layout.abort.exists() or layout.failed.exists()
    return Found.CRASHED if crashed else Found.STOPPED


def data(core: Core, found: Found) -> Fact:
    """Where data lives, and how much is in it."""
    store, table = core.store, core.tables.topics
    users = {
        name
        for name in table.all()
        if not (table.is_system(name) or is_retry_topic(name) or is_dlq_topic(name))
    }
    topics = len(users)
    messages = sum(
        store.max_offset(topic, queue) - store.min_offset(topic, queue)
        for topic, queue in store.queues()
        if topic in users
    )
    size = store.positions.written - store.first_offset
    return data_of(core.config.data, found, topics=topics, messages=messages, size=size)


def data_of(root: Path, found: Found, *, topics: int, messages: int, size: int) -> Fact:
    """The same, in numbers that are known."""
    content = (
        f"{counted(topics, 'topic')}, {counted(messages, 'message')}, {size_text(size)}; "
        f"{found.value}"
    )
    return Fact(
        "Data",
        f"{root.absolute()} ({'new' if found is Found.NEW else content})",
        "data",
        {
            "directory": str(root.absolute()),
            "found": found.name.lower(),
            "topics": topics,
            "messages": messages,
            "bytes": size,
        },
        alarming=found is Found.CRASHED,
    )


def durability(store: StoreConfig) -> Fact:
    """What an acknowledged message survives."""
    if store.flush is FlushMode.SYNC:
        text = "sync: what was acknowledged is on the disk, and survives a power cut"
    else:
        lost = (
            f"{store.flush_interval_ms} ms or {size_text(store.flush_bytes)}, with a slow disk up "
            f"to {size_text(store.unflushed_bytes)}"
        )
        text = (
            "async: what was acknowledged survives a kill of this process; a power cut may take "
            f"the last {lost} (with --flush sync, nothing)"
        )
    kept = f"; kept for {store.reserved_hours} hours"
    return Fact("Durability", text + kept, "durability", store.flush.value)


def profile(config: BrokerConfig) -> Fact:
    """Which profile is in force, and what it means for those who come with a new name."""
    made = [
        word
        for word, allowed in (
            ("topics", config.auto_create_topics),
            ("groups", config.auto_create_groups),
        )
        if allowed
    ]
    who = "topics and groups are made by operators"
    if made:
        who = f"{' and '.join(made)} are made when first used"
    return Fact("Profile", f"{config.profile}: {who}", "profile", config.profile)


def access(hosts: Iterable[str], config: AuthConfig) -> Fact:
    """Who may do what: those who are known, or everybody who reaches a port."""
    outside = sorted({host for host in hosts if not is_loopback(host)})
    if config.authenticates:
        rights = "what they were granted" if config.authorizes else "everything"
        told = {"control": True, "reachable": "other machines" if outside else "this machine"}
        return Fact("Access", f"known users, who may do {rights}", "access", told)
    if not outside:
        text = "no access control; only this machine reaches the ports"
        return Fact("Access", text, "access", {"control": False, "reachable": "this machine"})
    text = (
        f"NO ACCESS CONTROL, and other machines reach {', '.join(outside)}: whoever does may read, "
        "write and delete everything. Let a firewall decide who that is"
    )
    told = {"control": False, "reachable": "other machines"}
    return Fact("Access", text, "access", told, alarming=True)


def audit(config: AuthConfig) -> list[Fact]:
    """Where it stands who did what, if that is a file of its own."""
    if config.audit_file is None or not config.authenticates:
        return []
    path = str(config.audit_file.expanduser().absolute())
    return [Fact("Audit", path, "audit", path)]


def advertised(known_as: str, address: str) -> list[Fact]:
    """Where clients are told to connect, if that is not where the broker listens."""
    if known_as == address:
        return []
    return [
        Fact("Advertised", f"{known_as}, where clients are told to connect", "advertised", known_as)
    ]


def group(config: BrokerConfig, place: str) -> list[Fact]:
    """What the broker is among those of its name; slaves connect to ``place``."""
    replication = config.replication
    if replication is None:
        return []
    told = {"role": None, "ha": place, "elected": replication.elected, "waits": replication.waits}
    if replication.elected:
        text = f"a leader is elected by {';'.join(replication.zookeepers)}"
    else:
        role = replication.role or BrokerRole.ASYNC_MASTER
        told["role"] = role.value
        text = role.value
        if role is BrokerRole.SLAVE:
            text += f" {config.broker_id} of {config.name}; follows "
            text += replication.master or "the master that the NameServers know"
    if replication.waits:
        text += (
            "; sends are answered when every in-sync replica has them, and refused with fewer than "
            f"{replication.min_in_sync} copies"
        )
        if not replication.elected:
            text += " (RocketMQ 5 waits for none unless told inSyncReplicas)"
    elif replication.role is not BrokerRole.SLAVE:
        text += "; sends do not wait for replicas"
    if replication.elected or replication.role is not BrokerRole.SLAVE:
        text += f"; slaves connect to {place}"
    return [Fact("Replication", text, "replication", told)]


def cores(brokers: int, usable: int, pinned: Sequence[int | None] = ()) -> Fact:
    """How much of the machine its brokers can use, and how to have them use more."""
    used = min(brokers, usable)
    text = f"{counted(brokers, 'broker')} on {used} of {counted(usable, 'core')}"
    kept = [core for core in pinned if core is not None]
    if kept:
        text += f", kept on {', '.join(map(str, kept))}"
    if used < usable:
        text += "; `rocketpipe serve --brokers auto` uses all of them"
    return Fact("Cores", text, "cores", {"brokers": brokers, "usable": usable, "kept_on": kept})


def http(address: str | None, tls: TlsConfig | None = None) -> list[Fact]:
    """The port for those who watch, if there is one."""
    if address is None:
        return []
    url = f"http{'s' if enforces(tls) else ''}://{address}"
    return [Fact("HTTP", f"{url} /healthz /readyz /metrics /version", "url", url)]


def enforces(tls: TlsConfig | None) -> bool:
    """Whether only who speaks TLS is answered."""
    return tls is not None and tls.mode == "enforcing"


def next_steps(
    name_servers: str,
    *,
    found: Found = Found.NEW,
    ours: bool = True,
    tls: TlsConfig | None = None,
) -> list[str]:
    """Two commands to try: first steps in a new place, and a look around in an old one."""
    flag = "" if name_servers == "127.0.0.1:9876" else f" -n '{name_servers}'"
    if enforces(tls):
        flag += " --ca-file CA.pem"
    if not ours:
        return [f"rocketpipe broker -n '{name_servers}'", f"rocketpipe cluster list{flag}"]
    if found is Found.NEW:
        return [
            f"rocketpipe topic create orders --queues 4{flag}",
            f"rocketpipe message send orders 'order 1' --tag paid --key A1{flag}",
        ]
    return [f"rocketpipe topic list --stats{flag}", f"rocketpipe doctor{flag}"]


def secured(told: Banner, made: Secured, name_server: str) -> Banner:
    """The same, with what ``--secure`` has set up and how clients get in."""
    return replace(
        told,
        facts=[*told.facts, *made.facts()],
        examples=made.examples(name_server),
        next_steps=made.next_steps(),
    )


def size_text(count: int) -> str:
    """Bytes as people say them."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}".replace(".0 ", " ")
