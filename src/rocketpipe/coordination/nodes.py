"""What a group keeps with its coordinator: five kinds of node, JSON in each.

    /rocketpipe/<cluster>/<group>/
        epoch           {"epoch": 3, "leader": 2, "successor": null}
        isr             {"members": [1, 2], "epoch": 3}
        leader          {"id": 2, "address": …, "ha": …, "epoch": 3}            ephemeral
        replicas/<id>   {"address": …, "ha": …, "end": …, "epoch": …, "clean": …, "version": …, "full": …}  ephemeral
        ids/id-<n>      whom replica id n + 1 was given to

Others may read them; whoever writes them has the versions to check.
"""  # noqa: E501

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from rocketpipe.coordination.coordinator import CoordinatorAway, Leader, Member

ROOT: Final = "/rocketpipe"
#: A node of ours is a few hundred bytes; ZooKeeper's own limit is 1 MiB.
MOST_BYTES: Final = 64 << 10


class EpochNode(msgspec.Struct, frozen=True):
    epoch: int = 0
    leader: int | None = None
    successor: int | None = None


class InSyncNode(msgspec.Struct, frozen=True):
    members: list[int] = []
    epoch: int = 0


class LeaderNode(msgspec.Struct, frozen=True):
    id: int
    address: str
    ha: str
    epoch: int

    @classmethod
    def of(cls, leader: Leader) -> LeaderNode:
        return cls(leader.id, leader.address, leader.ha_address, leader.epoch)

    def leader(self) -> Leader:
        return Leader(id=self.id, epoch=self.epoch, address=self.address, ha_address=self.ha)


class MemberNode(msgspec.Struct, frozen=True):
    address: str
    ha: str
    end: int = 0
    epoch: int = 0
    clean: bool = False
    version: str = ""
    full: bool = False

    @classmethod
    def of(cls, me: Member) -> MemberNode:
        place = me.address, me.ha_address
        return cls(*place, me.log_end, me.last_epoch, me.clean, me.version, me.full)

    def member(self, id_: int) -> Member:
        return Member(
            id=id_,
            address=self.address,
            ha_address=self.ha,
            log_end=self.end,
            last_epoch=self.epoch,
            clean=self.clean,
            version=self.version,
            full=self.full,
        )


N = TypeVar("N", bound=msgspec.Struct)

encode = msgspec.json.encode


def decode(path: str, data: bytes, kind: type[N]) -> N:
    """What a node holds.

    Raises:
        CoordinatorAway: It is not what we keep there; nothing can be decided by it.
    """
    try:
        if len(data) > MOST_BYTES:
            raise ValueError(f"{len(data)} bytes")
        return msgspec.json.decode(data, type=kind)
    except (ValueError, msgspec.DecodeError) as error:
        raise CoordinatorAway(
            f"{path} holds something that is not RocketPipe's: {error}; look at it, and delete it "
            "if nobody needs it"
        ) from error
