"""What operators call, by noun; the command line and the console are made of it."""

from __future__ import annotations

from typing import Self

from rocketpipe.client.admin.access.plain_accounts import PlainAccountAdmin
from rocketpipe.client.admin.access.policies import PolicyAdmin
from rocketpipe.client.admin.access.servers import ClusterServers
from rocketpipe.client.admin.access.users import UserAdmin
from rocketpipe.client.admin.brokers import BrokerAdmin
from rocketpipe.client.admin.browsing import Browsing
from rocketpipe.client.admin.clients import ClientAdmin
from rocketpipe.client.admin.dead_letters import DeadLetterAdmin
from rocketpipe.client.admin.draining import DrainAdmin
from rocketpipe.client.admin.fleet import Fleet
from rocketpipe.client.admin.groups import GroupAdmin
from rocketpipe.client.admin.messages import MessageAdmin
from rocketpipe.client.admin.name_servers import NameServerAdmin
from rocketpipe.client.admin.offsets import OffsetAdmin
from rocketpipe.client.admin.progress import ProgressAdmin
from rocketpipe.client.admin.replicas import ReplicaAdmin
from rocketpipe.client.admin.topics import TopicAdmin
from rocketpipe.client.admin.waiting import WaitingAdmin
from rocketpipe.client.lifetime import Lifetime
from rocketpipe.client.session import Session


class Admin(Lifetime):
    """Looks after a cluster: ``async with Admin("127.0.0.1:9876") as admin``.

    ``await admin.topics.create("orders")``, ``await admin.offsets.of_group("billing", "orders")``.
    """

    def __init__(self, name_servers: str | Session) -> None:
        """Take NameServers, as ``a:9876;b:9876``, or a session to share.

        Raises:
            ValueError: If it is no such list.
        """
        self._session = Session.of(name_servers)
        self._is_open = False
        fleet = Fleet(self._session)
        self.topics = TopicAdmin(fleet)
        self.groups = GroupAdmin(fleet)
        self.brokers = BrokerAdmin(fleet)
        self.name_servers = NameServerAdmin(fleet)
        self.messages = MessageAdmin(fleet)
        self.browsing = Browsing(fleet)
        self.offsets = OffsetAdmin(fleet)
        self.dead_letters = DeadLetterAdmin(fleet, self.topics, self.messages, self.offsets)
        self.draining = DrainAdmin(fleet, self.dead_letters)
        self.progress = ProgressAdmin(fleet, self.offsets)
        self.clients = ClientAdmin(fleet)
        self.waiting = WaitingAdmin(fleet)
        self.replicas = ReplicaAdmin(fleet)
        everywhere = ClusterServers(fleet)
        self.users = UserAdmin(everywhere)
        self.policies = PolicyAdmin(everywhere, self.users)
        self.plain_accounts = PlainAccountAdmin(fleet)

    @property
    def is_open(self) -> bool:
        """Whether it can ask now."""
        return self._is_open

    async def __aenter__(self) -> Self:
        await self._session.__aenter__()
        self._is_open = True
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._is_open = False
        await self._session.__aexit__(*exc)
