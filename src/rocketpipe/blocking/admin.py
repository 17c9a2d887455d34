"""What operators call, by noun, blocking.

with Admin("127.0.0.1:9876") as admin:
    admin.topics.create("orders", queues=8)
"""

from __future__ import annotations

from rocketpipe.blocking.background import Life
from rocketpipe.blocking.face import Client, Face, waits
from rocketpipe.blocking.session import Session, inner_of
from rocketpipe.client.admin.admin import Admin as AsyncAdmin
from rocketpipe.client.admin.brokers import BrokerAdmin as AsyncBrokerAdmin
from rocketpipe.client.admin.groups import GroupAdmin as AsyncGroupAdmin
from rocketpipe.client.admin.messages import MessageAdmin as AsyncMessageAdmin
from rocketpipe.client.admin.name_servers import NameServerAdmin as AsyncNameServerAdmin
from rocketpipe.client.admin.offsets import OffsetAdmin as AsyncOffsetAdmin
from rocketpipe.client.admin.topics import TopicAdmin as AsyncTopicAdmin


class TopicAdmin(Face[AsyncTopicAdmin]):
    """Creates, changes, deletes, lists and shows topics."""

    create = waits(AsyncTopicAdmin.create)
    update = waits(AsyncTopicAdmin.update)
    delete = waits(AsyncTopicAdmin.delete)
    names = waits(AsyncTopicAdmin.names)
    show = waits(AsyncTopicAdmin.show)
    stats = waits(AsyncTopicAdmin.stats)


class GroupAdmin(Face[AsyncGroupAdmin]):
    """Creates, changes, deletes, lists and shows groups of consumers."""

    create = waits(AsyncGroupAdmin.create)
    update = waits(AsyncGroupAdmin.update)
    delete = waits(AsyncGroupAdmin.delete)
    names = waits(AsyncGroupAdmin.names)
    show = waits(AsyncGroupAdmin.show)
    members = waits(AsyncGroupAdmin.members)
    may_read = waits(AsyncGroupAdmin.may_read)
    let_read = waits(AsyncGroupAdmin.let_read)


class BrokerAdmin(Face[AsyncBrokerAdmin]):
    """Lists brokers, and has them take writes or not."""

    all = waits(AsyncBrokerAdmin.all)
    clusters = waits(AsyncBrokerAdmin.clusters)
    topics = waits(AsyncBrokerAdmin.topics)
    stop_writes = waits(AsyncBrokerAdmin.stop_writes)
    allow_writes = waits(AsyncBrokerAdmin.allow_writes)


class NameServerAdmin(Face[AsyncNameServerAdmin]):
    """Reads and changes what NameServers keep beside routes."""

    settings = waits(AsyncNameServerAdmin.settings)
    change = waits(AsyncNameServerAdmin.change)
    put = waits(AsyncNameServerAdmin.put)
    get = waits(AsyncNameServerAdmin.get)
    values = waits(AsyncNameServerAdmin.values)
    delete = waits(AsyncNameServerAdmin.delete)
    set_order = waits(AsyncNameServerAdmin.set_order)


class MessageAdmin(Face[AsyncMessageAdmin]):
    """Finds messages."""

    by_id = waits(AsyncMessageAdmin.by_id)
    by_unique_key = waits(AsyncMessageAdmin.by_unique_key)
    by_key = waits(AsyncMessageAdmin.by_key)
    at = waits(AsyncMessageAdmin.at)
    at_time = waits(AsyncMessageAdmin.at_time)


class OffsetAdmin(Face[AsyncOffsetAdmin]):
    """Shows and moves how far groups have come."""

    ends = waits(AsyncOffsetAdmin.ends)
    at_time = waits(AsyncOffsetAdmin.at_time)
    oldest_ms = waits(AsyncOffsetAdmin.oldest_ms)
    of_group = waits(AsyncOffsetAdmin.of_group)
    commit = waits(AsyncOffsetAdmin.commit)
    move_to_time = waits(AsyncOffsetAdmin.move_to_time)
    move_to_ends = waits(AsyncOffsetAdmin.move_to_ends)


class Admin(Client[AsyncAdmin]):
    """Looks after a cluster: ``with Admin("127.0.0.1:9876") as admin``."""

    def __init__(self, name_servers: str | Session) -> None:
        """Take NameServers, as ``a:9876;b:9876``, or a session to share.

        Raises:
            ValueError: If it is no such list.
            TypeError: If the session is one for asyncio.
        """
        inner, life = AsyncAdmin(inner_of(name_servers)), Life("the admin client")
        super().__init__(inner, life)
        self.topics = TopicAdmin(inner.topics, life)
        self.groups = GroupAdmin(inner.groups, life)
        self.brokers = BrokerAdmin(inner.brokers, life)
        self.name_servers = NameServerAdmin(inner.name_servers, life)
        self.messages = MessageAdmin(inner.messages, life)
        self.offsets = OffsetAdmin(inner.offsets, life)
