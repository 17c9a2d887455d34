"""Prints what servers can be told, from the classes that hold it.

python -m tools.docs.configuration > docs/reference/configuration.md
"""

from __future__ import annotations

import dataclasses
import enum
import sys
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rocketpipe.broker.config.config import NOT_READ_YET, PROFILES, BrokerConfig
from rocketpipe.broker.config.loading import DEFAULT_DATA, STORE_SETTINGS
from rocketpipe.broker.config.replica_settings import REPLICATION_SETTINGS
from rocketpipe.config.setting import Setting, settings_of
from rocketpipe.namesrv.config import PROFILES as NAMESRV_PROFILES
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.remoting.tls_loading import TLS_SETTINGS

HEAD = """\
<!-- Printed by tools/docs/configuration.py: change it there. -->
# Configuration

```sh
rocketpipe serve                                   # NameServer and broker in one process
rocketpipe namesrv -c namesrv.conf -p 9876
rocketpipe broker -c broker.conf -n 127.0.0.1:9876
```

Each says what it is when it serves: addresses, profile, where data lives and how much is there,
what an acknowledged message survives, who can reach it. The last line begins with `ready` and names
the addresses that it really has: a port of 0 takes a free one. A pipe gets the lines of RocketMQ's
servers first, and no colours; `-o json` makes it one line of JSON. The log goes to standard error:
from `info` on, or from `warning` on if that is a terminal. SIGTERM and SIGINT stop in order; a
second one ends at once. `--help` lists the flags.

| exit code | means |
|---|---|
| 0 | stopped by a signal |
| 1 | could not serve: a port is taken, a store cannot be opened |
| 2 | a flag, a file or a value is wrong; the line says which, where, and what is expected |

## Where settings come from

The last of these that says something counts:

1. the defaults below, then what the profile says;
2. TOML files, named `*.toml` after `-c`, then RocketMQ's `.conf` files as they are; `-c` may be
   given several times;
3. the environment: `NAMESRV_ADDR`, and `ROCKETPIPE_` with a key or our name in capitals, such as
   `ROCKETPIPE_LISTEN_PORT` or `ROCKETPIPE_PORT` (with `serve`, it speaks to the broker alone);
4. flags.

`rocketpipe config show --origin` prints every setting that would be in force and where it comes
from (`--for serve|broker|namesrv`; `--print-config` after a server does the same for its very
flags), and `rocketpipe config check FILE` says everything that is wrong with a file: problems,
which make its exit code 1, then warnings and notes. A key that nobody knows is named with the
nearest one, a value that does not count as it was written with what counts, and keys of RocketMQ
that have no effect here in one line. What this broker cannot keep is refused: access control
(`aclEnable`, `authenticationEnabled`, `authorizationEnabled`), RocketMQ's own ways to have a master
elected (`enableDLegerCommitLog`, `enableControllerMode`: set `zookeeperAddr` instead),
`duplicationEnable`, another `storeType`, and a `storePathCommitLog` outside of `storePathRootDir`.

In TOML, keys are RocketMQ's or ours, at the top or in a table for each server:

```toml
[broker]
brokerName = "broker-a"
auto_create_topics = false

[store]
fileReservedTime = 48

[namesrv]
listenPort = 9876
```

## Profiles

`--profile dev|prod`, `profile` in a file, or `ROCKETPIPE_PROFILE`. `serve` is `dev` by itself, for
trying things; `broker` and `namesrv` are `prod`, for deployments. A profile is the weakest word:
whatever else is said counts more.

| key | `dev` | `prod` |
|---|---|---|
{profiles}
With `prod`, `rocketpipe topic create` and `rocketpipe group create` come first; the tools' own
groups are always there. With `dev`, the key-values of a `namesrv` last as long as it runs.

## How values are written

Durations are milliseconds where the unit says ms, and may be written `500ms`, `30s`, `5m`, `2h` or
`1d`; sizes are bytes, or `64k`, `4m`, `1g`. Lists are separated by `;`.

## Who can reach a server

There is no access control yet. Servers listen on 127.0.0.1, and refuse any other address unless
`--insecure` is added. `brokerIP1` (`--advertise HOST[:PORT]`) is what clients are told to connect
to, if that is not where the broker listens.
"""

BROKER = """
## Broker

Without `storePathRootDir`, `rocketpipe broker` keeps its data in `{data}`, as RocketMQ does. *Live*
settings are meant to be changed while the broker runs.{idle}

"""

REPLICATION = """
## Replicas

For a broker that has any, in the same file: that is, if `brokerRole`, `haListenPort`,
`haMasterAddress` or `zookeeperAddr` is given. The samples of RocketMQ in `conf/2m-noslave`,
`conf/2m-2s-async` and `conf/2m-2s-sync` run as they are. Two things are not as with RocketMQ 5:

* A `SYNC_MASTER` waits: for every slave that is in sync. RocketMQ 5 waits for none, unless
  `inSyncReplicas` is more than 1; that key has no effect here.
* With fewer than `minInSyncReplicas` copies, 2 by default, it refuses sends. With 1 it stores what
  is sent while no slave is there, and answers SLAVE_NOT_AVAILABLE.

Where `zookeeperAddr` is set, the brokers of one name elect a leader; `brokerId` is then given out,
and `brokerId=-1` and `brokerRole=SLAVE` of RocketMQ's samples say nothing. Keys of RocketMQ that
have no effect here (`inSyncReplicas`, `allAckInSyncStateSet`, `enableAutoInSyncReplicas`,
`totalReplicas`, `haFlowControlEnable`, `offsetCheckInSlave`, `syncFromLastFile`, `asyncLearner`,
`enableSlaveActingMaster`, `enableRemoteEscape`, `lockInStrictMode`, `controllerAddr`,
`brokerElectionPriority`) are named at the start with what happens instead, unless that is what they
ask for.

"""

STORE = """
## Store

For a broker, in the same file. Sizes are those of new files: a directory that has files is opened
with the sizes they have. `--small-files` makes them small where no size is given.

"""

TLS = """
## TLS

For a broker and for a NameServer, in the same file, in RocketMQ's `tls.properties`
(`--tls-config FILE`), or by `--tls-cert`, `--tls-key`, `--tls-mode`, `--tls-client-ca` and
`--tls-ca`. With `serve` they are for both, and for the HTTP port. How to set it up is in
[TLS](../how-to/tls.md).

There is no `tls.test.mode.enable`: no server makes a certificate for itself.
`tls.server.authClient` has no effect: a client certificate that is shown is always checked. A
key's password may stand in a file of its own; it is shown nowhere.

"""

NAMESRV = """
## NameServer

*Live* settings may be changed while it runs. With `serve`, `kvConfigPath` is
`namesrv/kvConfig.json` in the data directory.

"""


def main() -> None:
    """Print the page."""
    out = [HEAD.format(profiles="".join(_profiles()))]
    out += [BROKER.format(data=DEFAULT_DATA, idle=_idle()), *_table(settings_of(BrokerConfig))]
    out += [REPLICATION, *_table(REPLICATION_SETTINGS)]
    out += [STORE, *_table(STORE_SETTINGS)]
    out += [TLS, *_table(TLS_SETTINGS)]
    out += [NAMESRV, *_table(settings_of(NamesrvConfig))]
    sys.stdout.write("".join(out))


def _profiles() -> Iterable[str]:
    broker = {one.key: one for one in (*settings_of(BrokerConfig), *STORE_SETTINGS)}
    namesrv = {one.key: one for one in settings_of(NamesrvConfig)}
    for profiles, settings, server in (
        (PROFILES, broker, ""),
        (NAMESRV_PROFILES, namesrv, " of a `namesrv`"),
    ):
        for key in dict.fromkeys(key for changes in profiles.values() for key in changes):
            cells = [
                f"`{changes[key]}`" if key in changes else _default(settings[key]) or "none"
                for changes in (profiles["dev"], profiles["prod"])
            ]
            yield f"| `{key}`{server} | {' | '.join(cells)} |\n"


def _idle() -> str:
    keys = (one.key for one in settings_of(BrokerConfig) if one.attribute in NOT_READ_YET)
    named = ", ".join(f"`{key}`" for key in keys)
    return f" These have no effect yet: {named}." if named else ""


def _table(settings: Iterable[Setting]) -> Iterable[str]:
    yield "| key | ours | takes | default | live | |\n|---|---|---|---|---|---|\n"
    for one in settings:
        keys = ", ".join(f"`{key}`" for key in (one.key, *one.aliases))
        live = "live" if one.live else ""
        cells = (keys, f"`{one.attribute}`", _takes(one), _default(one), live, one.help)
        yield f"| {' | '.join(cells)} |\n"


def _takes(one: Setting) -> str:
    inner = [kind for kind in typing.get_args(one.type) if kind is not type(None)]
    optional = type(None) in typing.get_args(one.type)
    kind: Any = inner[0] if optional else one.type
    if kind is bool:
        return "true, false"
    if kind is int:
        return _number(one)
    if kind is Path:
        return "path"
    if kind is str:
        return "text"
    if typing.get_origin(kind) is tuple:
        return "list"
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return ", ".join(f"`{choice.value}`" for choice in kind)
    return ", ".join(f"`{choice}`" for choice in typing.get_args(kind))


def _number(one: Setting) -> str:
    unit = one.unit or "number"
    if one.least is not None and one.most is not None:
        return f"{unit}, {one.least} to {one.most}"
    return unit if one.least is None else f"{unit}, from {one.least}"


def _default(one: Setting) -> str:
    if one.default is dataclasses.MISSING:
        return ""
    text = one.write(one.default)
    return f"`{text}`" if text else ""


if __name__ == "__main__":
    main()
