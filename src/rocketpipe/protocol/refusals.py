"""What the remark of a refusal says beside its code, where replicas share a broker's name.

    14  not the leader of broker-a leader=10.0.0.7:10911     nothing was stored; who leads is named
    14  … its group has no leader now                        nothing was stored; it may pass
    1   in-sync replicas not enough                          nothing was stored; it may pass

RocketMQ's own brokers name no leader, and their clients read past it.
"""

from __future__ import annotations

import re
from typing import Final

from rocketpipe.protocol.codes import ResponseCode

#: What the remark of a follower says while nobody leads; who may have stored something does not.
NO_LEADER: Final = "its group has no leader now"
#: How the remark of a broker begins that has too few replicas to take a send.
IN_SYNC_NOT_ENOUGH: Final = "in-sync replicas not enough"
#: What a follower says of a leader that lacks some of what was acknowledged.
ACKNOWLEDGED_WOULD_GO: Final = "something acknowledged would go"

_LEADER: Final = re.compile(
    r"(?:^|[\s;,(])leader=(\[[0-9A-Fa-f:.%]{2,64}\]|[A-Za-z0-9._-]{1,255}):([0-9]{1,5})(?![0-9A-Za-z:.])"
)


def naming_leader(remark: str, address: str | None) -> str:
    """The remark of who does not lead, with the address of who does if that is known."""
    return f"{remark} leader={address}" if address else remark


def leader_in(remark: str) -> str | None:
    """The address that a remark names as the leader's; None if it names none that could be one."""
    found = _LEADER.search(remark)
    if found is None or not 0 < int(found[2]) < 1 << 16:
        return None
    return f"{found[1]}:{found[2]}"


def stored_nothing(code: int, remark: str) -> bool:
    """Whether a refusal says for sure that nothing was stored: the same send is no duplicate."""
    if code == ResponseCode.SERVICE_NOT_AVAILABLE:
        return NO_LEADER in remark or leader_in(remark) is not None
    return lacks_replicas(code, remark)


def lacks_replicas(code: int, remark: str) -> bool:
    """Whether a send was refused because too few replicas are there now."""
    return code == ResponseCode.SYSTEM_ERROR and IN_SYNC_NOT_ENOUGH in remark
