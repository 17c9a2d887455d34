"""RocketMQ's own ``mqadmin`` and a group of ours that elects its leader.

Where a command asks for a controller, any replica will do.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from tests.broker.support.elected_group import ElectedGroup, elected_group
from tests.compat.clients.mqadmin import VERSION, Admin, started
from tests.compat.support.apache import BROKER, CLUSTER, NEWEST

from rocketpipe import Producer

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]


def check_shown(admin: Admin, group: ElectedGroup, leads: int) -> None:
    leader = group.replicas[leads].address
    others = {number: each.address for number, each in group.replicas.items() if number != leads}
    first = min(others)
    end = group.replicas[leads].log_end

    shown = admin.run(f"haStatus -c {CLUSTER}")
    assert f"#MasterAddr\t{leader}" in shown
    assert f"#MasterCommitLogMaxOffset\t{end}" in shown
    assert len(re.findall(rf"(?m)^127.0.0.1:\d+ +{end} +0 .* OK ", shown)) == 2
    shown = admin.run(f"haStatus -b {others[first]}")
    assert f"#CommitLogMaxOffset\t{end}" in shown
    assert f"#MasterAddr\t{group.replicas[leads].core.group.status().ha_address}" in shown

    shown = admin.run(f"getBrokerEpoch -b {BROKER}")
    entry = f"EpochEntry{{epoch=1, startOffset=0, endOffset={end}}}"
    assert shown.count(entry) == 3

    for asked in (leader, others[first]):
        shown = admin.run(f"getSyncStateSet -a {asked} -b {BROKER}")
        assert f"#MasterBrokerId\t{leads}" in shown
        assert f"#MasterAddr\t{leader}" in shown
        assert shown.count("InSyncReplica:") == 3
        assert shown.count("alive=true") == 3
    shown = admin.run(f"getControllerMetaData -a {others[first]}")
    assert f"#ControllerLeaderAddress\t{leader}" in shown

    shown = admin.run("clusterList")
    rows = {
        line.split()[2]: (line.split()[3], line.split()[-1])
        for line in shown.splitlines()
        if line.startswith(CLUSTER)
    }
    expected = {str(number): (address, "false") for number, address in others.items()}
    assert rows == {"0": (leader, "true"), **expected}
    assert re.search(rf"(?m)^commitLogMaxOffset +: {end}$", admin.run(f"brokerStatus -b {leader}"))
    assert re.search(r"(?m)^brokerActive +: false$", admin.run(f"brokerStatus -b {others[first]}"))
    assert len(re.findall(rf"(?m)^{BROKER} +\d +0 +\d", admin.run("topicStatus -t orders"))) == 4


@pytest.mark.parametrize("version", [NEWEST, VERSION])
async def test_its_commands_show_a_group_of_ours_and_have_another_lead(
    tmp_path: Path, version: str
) -> None:
    def commands(leads: int, wanted: int) -> str:
        with started(group.name_server, tmp_path, version=version) as admin:
            check_shown(admin, group, leads)
            asked = group.replicas[leads].address
            return admin.run(f"electMaster -a {asked} -b {wanted} -bn {BROKER} -c {CLUSTER}")

    async with elected_group(tmp_path) as group:
        for number in (1, 2, 3):
            await group.replica(number)
        leads = await group.leader()
        await group.in_sync(1, 2, 3)
        async with Producer(group.name_server) as producer:
            for number in range(20):
                await producer.send("orders", b"%d" % number)
        wanted = leads % 3 + 1
        shown = await asyncio.to_thread(commands, leads, wanted)
        assert "Exception" not in shown, shown
        assert f"#BrokerMasterAddr\t{group.replicas[wanted].address}" in shown, shown
        assert await group.leader() == wanted
