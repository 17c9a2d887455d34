"""Apache's own pairs: a master and its slave, as in its samples 2m-2s-async and 2m-2s-sync."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from benchmarks.broker.generator import Unavailable
from benchmarks.broker.running import free_port
from benchmarks.replication.groups import Ground, Replica
from tests.compat.support.apache import NEWEST, Apache, find_apache


def apaches(ground: Ground, name: str, role: str) -> list[Replica]:
    """A master with that role and its slave, with a heap of 1 GiB each.

    A SYNC_MASTER of 5.x waits for nobody by default: with ``inSyncReplicas=2`` it waits for its
    slave, as ours does. The slave finds its master through the NameServer.

    Raises:
        Unavailable: If there is no Java, or Maven cannot fetch the jars.
    """
    try:
        found = find_apache(NEWEST)
    except pytest.skip.Exception as error:
        raise Unavailable(str(error)) from error
    copies = 2 if role == "SYNC_MASTER" else 1
    return [
        _apache(ground, found, name, role, {"brokerId": 0, "inSyncReplicas": copies}),
        _apache(ground, found, name, "SLAVE", {"brokerId": 1}),
    ]


def _apache(
    ground: Ground, found: Apache, name: str, role: str, more: Mapping[str, object]
) -> Replica:
    directory, port = ground.directory / f"{name}-{role}", free_port()
    directory.mkdir(parents=True)
    settings = {
        "brokerClusterName": "DefaultCluster",
        "brokerName": name,
        "brokerRole": role,
        "flushDiskType": "ASYNC_FLUSH",
        "namesrvAddr": ground.name_server,
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "bindAddress": "127.0.0.1",
        "listenPort": port,
        "haListenPort": port + 1,
        "storePathRootDir": directory / "store",
        "storePathCommitLog": directory / "store" / "commitlog",
        # As in ``broker.peers``: it may be slow, but shall not refuse.
        "waitTimeMillsInSendQueue": 10_000,
        "osPageCacheBusyTimeOutMills": 10_000,
        "diskMaxUsedSpaceRatio": 95,
        "diskSpaceCleanForciblyRatio": 98,
        "diskSpaceWarningLevelRatio": 99,
        **more,
    }
    conf = directory / "broker.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = [
        *(str(found.java), "-server", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC"),
        *(f"-Duser.home={directory}", f"-Djava.io.tmpdir={directory}"),
        f"-Drocketmq.home.dir={directory}",
        "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
        "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
        *("-cp", f"{found.jars}/*", "org.apache.rocketmq.broker.BrokerStartup", "-c", str(conf)),
    ]
    return Replica(port, directory, command)
