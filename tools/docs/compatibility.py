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
from rocketpipe.protocol.requests import (
    callbacks,
    clients,
    offsets,
    popping,
    pulling,
    routes,
    running,
    sending,
    transactions,
)
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
    "users": "Users and rights",
    "transactions": "Transactions",
    "staging": "Staged sends, which are RocketPipe's own",
    "lookups": "Finding messages",
    "topics": "Topics",
    "groups": "Groups",
    "routes": "Routes",
    "membership": "Brokers of one name",
    "replication": "Copies, and who leads them",
    "kv": "Key-values",
    "brokers": "A broker's settings, numbers and cleaning",
    "progress": "How far groups have come",
    "running": "Clients as they run",
}

#: Which RPCs of RocketMQ 5's other protocol come to which request, or bring its answer.
RPCS: dict[str, tuple[type[Request[Any]], ...]] = {
    "QueryRoute": (routes.GetRouteInfoByTopic,),
    "Heartbeat": (clients.Heartbeat,),
    "SendMessage": (sending.SendMessage,),
    "QueryAssignment": (clients.QueryAssignment,),
    "ReceiveMessage": (popping.PopMessage,),
    "AckMessage": (popping.AckMessage,),
    "ForwardMessageToDeadLetterQueue": (sending.SendMessageBack,),
    "PullMessage": (pulling.PullMessage,),
    "UpdateOffset": (offsets.UpdateConsumerOffset,),
    "GetOffset": (offsets.QueryConsumerOffset,),
    "QueryOffset": (
        offsets.GetMinOffset,
        offsets.GetMaxOffset,
        offsets.SearchOffsetByTimestamp,
    ),
    "EndTransaction": (transactions.EndTransaction,),
    "Telemetry": (
        callbacks.CheckTransactionState,
        running.GetRunningInfo,
        running.ConsumeDirectly,
    ),
    "NotifyClientTermination": (clients.UnregisterClient,),
    "ChangeInvisibleDuration": (popping.ChangeInvisibleTime,),
    "RecallMessage": (sending.RecallMessage,),
}
#: RPCs that are answered by a code that says no.
REFUSED_RPCS = {"SyncLiteSubscription": "UNSUPPORTED: there are no lite topics here"}

HEAD = """\
# Compatibility

Which of RocketMQ's requests RocketPipe answers. Codes and names are those of RocketMQ 5.3; codes 50
to 53 exist in 4.9 only. This page is printed from the code (`python -m tools.docs.compatibility`),
and a test compares the two.

- **served by …**: a handler of that server answers it.
- **typed**: read and written in full, held against the header and body classes of RocketMQ 5.3.3;
  no server answers it yet.
- **refused**: known by name; the answer is code 3, REQUEST_CODE_NOT_SUPPORTED.
- **gRPC**: the RPC of RocketMQ 5's other protocol that comes to the same
  ([how to](../how-to/grpc.md)). `SyncLiteSubscription` is refused, and what lite topics and
  priorities need; all others of its 17 RPCs are served.

Priorities: P0 plain producing and consuming; P1 ordered, transactional, delayed, popped and
broadcast messages; P2 administration; P3 rare.
"""

REPLICAS = """\
## Replicas beside Apache's

What `make compat` runs with unmodified brokers, tools and clients of RocketMQ:
"""

PROVEN = (
    (
        "its slave behind our master, `ASYNC_MASTER` and `SYNC_MASTER`",
        "5.5.0, 4.9.7",
        "the same log and consume queues, byte for byte; it asks for 21, 43, 45, 60, 61, 201 and "
        "402, and logs no error",
    ),
    (
        "our slave behind its master, plain dialect",
        "5.5.0, 4.9.7",
        "the same log and consume queues; topics, groups, places, delay levels and request modes "
        "within seconds; readers get the same bytes; made the master by hand, it goes on",
    ),
    (
        "our slave behind masters that its controller elects, dialect with epochs",
        "5.5.0",
        "the same, over elections; it is a learner, for whom nobody waits",
    ),
    (
        "its `mqadmin` and our elected group",
        "5.5.0, 5.3.3",
        "`haStatus`, `getBrokerEpoch`, `getSyncStateSet`, `getControllerMetaData`, `electMaster`, "
        "`clusterList`, `brokerStatus`, `topicStatus`",
    ),
    ("our `mqadmin` and its group", "5.5.0", "`haStatus`, `getBrokerEpoch`"),
    (
        "clients while the leader of our elected group is killed",
        "Java 5.5.0 and 4.9.8, Go 2.1.2, ali-ons, PyPI's",
        "nothing that was acknowledged is lost, and consumers go on",
    ),
)

DIFFERENCES = """\
What differs, or is not to be had:

- A plain master of Apache's gives a new slave its **last file** only. One of 4.9 that deletes a
  topic does away with its own queue of half messages too; ours keeps its copy.
- Apache's controller knows only who registers with it, which ours does not: it is never elected
  there. A slave of ours takes no orders whom to follow (906).
- Commands that ask for a controller (`-a`) are given the address of any replica; the leader answers
  for its own group. `electMaster` of 5.5.0 fails on what its own controller answers, and can read
  ours. `resetMasterFlushOffset` is refused by our followers, who have nothing to reset. Our
  `getSyncStateSet` and `electMaster` ask leaders, and so are nothing for Apache's groups.
- A client moves when it next asks for routes: Java every 30 s unless `pollNameServerInterval` says
  otherwise, Go every 30 s. Java before 5.0 does not look after a connection that was closed: a send
  that was under way waits for all of its `sendMsgTimeout`.
- Brokers before 5.0 do not know 351, 907, 1007 and lite pulls: operators' commands that need them
  do not work there; our consumers pull plainly.
"""


def served_requests() -> dict[RequestCode, str]:
    """Which server answers a code, from the marks on its handlers' methods."""
    served: dict[RequestCode, list[str]] = {}
    # Users are answered about by either server: its room is below theirs.
    rooms = [*ROOMS.items(), ("broker", "rocketpipe.auth"), ("NameServer", "rocketpipe.auth")]
    for server, room in rooms:
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
    replicas = (REPLICAS, *_table(("", "version", "what holds"), list(PROVEN)), DIFFERENCES)
    sections = (*replicas, *_typed_sections(typed, served), *_refused_sections())
    return "\n".join([HEAD, counts, *sections])


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
            ("code", "RocketMQ's name", f"`{concern}.`", "priority", "status", "gRPC"),
            [
                (
                    str(int(code)),
                    code.name,
                    f"`{kind.__name__}`",
                    f"P{priority(code)}",
                    f"served by {served[code]}" if code in served else "typed",
                    ", ".join(name for name, kinds in RPCS.items() if kind in kinds),
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
