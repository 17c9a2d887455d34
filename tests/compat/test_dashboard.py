"""What Apache's Dashboard asks of a cluster, by the classes that it asks with, unmodified.

The Dashboard itself is a web page over ``DefaultMQAdminExt`` of rocketmq-tools, in the version that
its build names. So these calls, with what its controllers give them, are made of our servers.
"""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest
from tests.compat.clients.installing import java_program
from tests.console.test_console import GUARDED, SECRET

from rocketpipe.testing.servers import serving

pytestmark = pytest.mark.compat

#: The one that Dashboard 2.1 is built with.
VERSION = "5.3.3"
WITHIN_S = 240

#: What each call gives; those without an entry only have to succeed.
GIVEN = {
    "examineBrokerClusterInfo": "[broker-a]",
    "getBrokerConfig": "broker-a",
    "putKVConfig": "v{k=v}",
    "fetchAllTopicList": "true",
    "fetchTopicsByCLuster": "true",
    "examineTopicRouteInfo": "2",
    "examineTopicConfig": "2",
    "getAllTopicConfig": "true",
    "getUserTopicConfig": "[orders, payments]",
    "getTopicClusterList": "[DefaultCluster]",
    "examineProducerConnectionInfo": "1",
    "examineTopicStats": "10",
    "viewMessage": "body 0",
    "viewMessage by offset id": "A0",
    "queryMessage": "1A3",
    "offsets": "0 true 0 true",
    "pull": "2 FOUND true",
    "createAndUpdateSubscriptionGroupConfig": "3",
    "examineConsumeStats": "0",
    "examineConsumeStats of a topic": "2",
    "examineConsumerConnectionInfo": "CONSUME_PASSIVELY CLUSTERING [%RETRY%billing, orders]",
    "getConsumerRunningInfo": "2",
    "consumeMessageDirectly": "CR_SUCCESS",
    "messageTrackDetail": "[billing CONSUMED]",
    "queryTopicConsumeByWho": "[billing]",
    "queryConsumeTimeSpan": "2",
    "getConsumeStatus": "1 2",
    "fetchConsumeStatsInBroker": "true",
    "getAllSubscriptionGroup": "true",
    "getUserSubscriptionGroup": "true",
    "viewBrokerStatsData": "true",
    "resetOffsetByTimestamp": "2",
    "resetOffsetByTimestampOld": "2",
    "behind after a reset": "10",
    "updateConsumeOffset": "0",
    "resetOffsetNew": "10",
    "updateBrokerConfig": "false",
    "wipeWritePermOfBroker": "true",
    "addWritePermOfBroker": "true",
    "cleanExpiredConsumerQueue": "true true",
    "cleanUnusedTopic": "true true",
    "updateColdDataFlowCtrGroupConfig": "true",
    "deleteSubscriptionGroup": "false",
    "deleteTopic": "false",
}
USERS = {
    "createUser": "Normal",
    "listUser": "true",
    "updateUser": "disable",
    "createAcl": "Topic:orders",
    "updateAcl": "Deny",
    "deleteAcl": "null",
    "deleteUser": "true",
}


def asked(name_server: str, scratch: Path, *who: str) -> dict[str, tuple[str, str]]:
    """What every call gave: ok or failed, and the rest."""
    java, place = java_program("Dashboard", "rocketmq-tools", VERSION)
    done = subprocess.run(
        [
            str(java),
            *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *(f"-Duser.home={scratch}", f"-Djava.io.tmpdir={scratch}"),
            *("-cp", f"{place}/classes:{place}/jars/*", "Dashboard", name_server, *who),
        ],
        cwd=scratch,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    lines = [line.split("\t") for line in done.stdout.splitlines() if line.count("\t") == 2]
    assert lines, done.stdout + done.stderr
    return {name: (state, base64.b64decode(text).decode()) for name, state, text in lines}


def test_its_pages_and_buttons_work_on_ours(tmp_path: Path) -> None:
    with serving(tmp_path) as servers:
        found = asked(servers.name_server, tmp_path)
    failed = {name: text for name, (state, text) in found.items() if state != "ok"}
    assert failed == {}
    other = {name: found[name][1] for name, wanted in GIVEN.items() if found[name][1] != wanted}
    assert other == {}


def test_its_pages_of_users_and_rights_work_on_ours(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text(GUARDED)
    with serving(tmp_path, ["-c", str(tmp_path / "broker.conf")]) as servers:
        found = asked(servers.name_server, tmp_path, "root", SECRET)
    assert found == {name: ("ok", wanted) for name, wanted in USERS.items()}
