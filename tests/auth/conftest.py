"""A gate with a few users, and a peer that asks."""

from __future__ import annotations

from typing import Any, cast

import pytest

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.gate import Gate
from rocketpipe.auth.needs import Surroundings
from rocketpipe.auth.policy import Action, Entry, Part, Policy, Resource
from rocketpipe.auth.secret import Secret
from rocketpipe.auth.subject import User, UserStatus, UserType
from rocketpipe.auth.users import PolicyTable, UserTable
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.testing.clock import ManualClock


class FakePeer:
    """As much of a connection as a gate looks at."""

    def __init__(self, address: str = "10.0.0.7:5000") -> None:
        self.address = address
        self.visit: Any = None
        self.closed = False

    def close(self) -> None:
        self.closed = True


def credentials(name: str) -> Credentials:
    return Credentials(name, Secret(f"the-secret-of-{name}"))


def user(name: str, **facts: Any) -> User:
    return User(name=name, secret=credentials(name).secret, **facts)


def granting(name: str, **resources: str) -> Policy:
    """``granting("bob", Topic="orders:Pub")``: a resource and its actions each."""
    entries = []
    for kind, text in resources.items():
        for each in text.split():
            what, _, actions = each.partition(":")
            entries.append(
                Entry(
                    resource=Resource.parse(f"{kind}:{what}"),
                    actions=frozenset(map(Action, actions.split(","))),
                )
            )
    return Policy(subject=f"User:{name}", entries={Part.CUSTOM: tuple(entries)})


def make_gate(clock: ManualClock | None = None, **options: Any) -> Gate:
    return Gate(
        UserTable.in_memory(
            user("root", type=UserType.SUPER),
            user("writer"),
            user("reader"),
            user("operator"),
            user("nobody"),
            user("gone", type=UserType.SUPER, status=UserStatus.DISABLE),
        ),
        PolicyTable.in_memory(
            granting("writer", Topic="orders:Pub", Group="app:Pub"),
            granting("reader", Topic="orders:Sub", Group="readers:Sub"),
            granting("operator", Topic="*:All", Group="*:All", Cluster="*:All"),
        ),
        around=options.pop("around", Surroundings(cluster="DefaultCluster")),
        clock=clock or ManualClock(),
        **options,
    )


@pytest.fixture
def gate() -> Gate:
    return make_gate()


@pytest.fixture
def peer() -> PeerConnection:
    return cast("PeerConnection", FakePeer())
