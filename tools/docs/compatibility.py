"""Prints which of RocketMQ's requests are served, from the code that serves them.

python -m tools.docs.compatibility > docs/reference/compatibility.md
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.catalog import UNSERVED, Peer, priority, typed_requests
from rocketpipe.remoting.router import handled_requests

ROOMS = {
    "broker": "rocketpipe.broker",
    "NameServer": "rocketpipe.namesrv",
    "client": "rocketpipe.client",
}

CONCERNS = {
    "sending": "Sending",
    "pulling": "Pulling",
    "popping": "Popping",
    "offsets": "Offsets",
    "clients": "Clients and groups at work",
    "callbacks": "What brokers ask of clients",
    "transactions": "Transactions",
    "staging": "Staged sends, which are RocketPipe's own",
    "lookups": "Finding messages",
    "topics": "Topics",
    "groups": "Groups",
    "routes": "Routes",
    "membership": "Brokers of one name",
    "replication": "Copies, and who leads them",
    "kv": "Key-values",
    "namesrv": "A NameServer's settings",
    "brokers": "A broker's settings, numbers and cleaning",
    "progress": "How far groups have come",
    "running": "Clients as they run",
}

HEAD = """\
# Compatibility

Which of RocketMQ's requests RocketPipe answers. Codes and names are those of RocketMQ 5.3; codes 50
to 53 exist in 4.9 only. This page is printed from the code (`python -m tools.docs.compatibility`),
and a test compares the two.

- **served by …**: a handler of that server answers it.
- **typed**: read and written in full, held against the header and body classes of RocketMQ 5.3.3;
  no server answers it yet.
- **refused**: known by name; the answer is code 3, REQUEST_CODE_NOT_SUPPORTED.

Priorities: P0 plain producing and consuming; P1 ordered, transactional, delayed, popped and
broadcast messages; P2 administration; P3 rare.
"""


def served_requests() -> dict[RequestCode, str]:
    """Which server answers a code, from the marks on its handlers' methods."""
    served: dict[RequestCode, list[str]] = {}
    for server, room in ROOMS.items():
        for kind in _handled_in(room):
            for code in kind.codes:
                servers = served.setdefault(code, [])
                if server not in servers:  # in two roles, perhaps
                    servers.append(server)
    return {code: ", ".join(servers) for code, servers in served.items()}


def _handled_in(room: str) -> Iterator[type[Request[Any]]]:
    package = importlib.import_module(room)
    names = [found.name for found in pkgutil.walk_packages(package.__path__, f"{room}.")]
    for module in [package, *map(importlib.import_module, names)]:
        for _, group in inspect.getmembers(module, inspect.isclass):
            if group.__module__ == module.__name__:
                yield from handled_requests(group)


def page(served: Mapping[RequestCode, str]) -> str:
    """The whole page, given which server answers which code."""
    typed = list(typed_requests())
    counts = (
        f"Of {len(RequestCode)} codes {len(served)} are served, "
        f"{sum(len(kind.codes) for kind in typed) - len(served)} more are typed and "
        f"{len(UNSERVED)} are refused.\n"
    )
    return "\n".join([HEAD, counts, *_typed_sections(typed, served), *_refused_sections()])


def _typed_sections(
    typed: list[type[Request[Any]]], served: Mapping[RequestCode, str]
) -> Iterator[str]:
    for concern, title in CONCERNS.items():
        rows = sorted(
            (code, kind)
            for kind in typed
            if kind.__module__.endswith(f".{concern}")
            for code in kind.codes
        )
        yield f"## {title}\n"
        yield from _table(
            ("code", "RocketMQ's name", f"`{concern}.`", "priority", "status"),
            [
                (
                    str(int(code)),
                    code.name,
                    f"`{kind.__name__}`",
                    f"P{priority(code)}",
                    f"served by {served[code]}" if code in served else "typed",
                )
                for code, kind in rows
            ],
        )


def _refused_sections() -> Iterator[str]:
    yield "## Refused\n"
    for peer in Peer:
        known = sorted((row for row in UNSERVED if row.answered_by is peer), key=_by_priority)
        if not known:
            continue
        yield f"### In RocketMQ answered by: {peer}\n"
        yield from _table(
            ("code", "RocketMQ's name", "priority", "why not here"),
            [
                (str(int(row.code)), row.code.name, f"P{priority(row.code)}", row.why)
                for row in known
            ],
        )


def _by_priority(row: Any) -> tuple[int, int]:
    return priority(row.code), row.code


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


if __name__ == "__main__":
    sys.stdout.write(page(served_requests()))
