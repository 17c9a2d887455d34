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
from rocketpipe.client.admin.clients import ClientAdmin as AsyncClientAdmin
from rocketpipe.client.admin.dead_letters import DeadLetterAdmin as AsyncDeadLetterAdmin
from rocketpipe.client.admin.groups import GroupAdmin as AsyncGroupAdmin
from rocketpipe.client.admin.messages import MessageAdmin as AsyncMessageAdmin
from rocketpipe.client.admin.name_servers import NameServerAdmin as AsyncNameServerAdmin
from rocketpipe.client.admin.offsets import OffsetAdmin as AsyncOffsetAdmin
from rocketpipe.client.admin.progress import ProgressAdmin as AsyncProgressAdmin
from rocketpipe.client.admin.topics import TopicAdmin as AsyncTopicAdmin
from rocketpipe.client.admin.waiting import WaitingAdmin as AsyncWaitingAdmin


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
    """Lists brokers, shows how they fare, changes their settings and has them clean up."""

    all = waits(AsyncBrokerAdmin.all)
    clusters = waits(AsyncBrokerAdmin.clusters)
    topics = waits(AsyncBrokerAdmin.topics)
    stop_writes = waits(AsyncBrokerAdmin.stop_writes)
    allow_writes = waits(AsyncBrokerAdmin.allow_writes)
    runtime = waits(AsyncBrokerAdmin.runtime)
    stats = waits(AsyncBrokerAdmin.stats)
    settings = waits(AsyncBrokerAdmin.settings)
    change = waits(AsyncBrokerAdmin.change)
    clean_queues = waits(AsyncBrokerAdmin.clean_queues)
    clean_topics = waits(AsyncBrokerAdmin.clean_topics)
    delete_expired = waits(AsyncBrokerAdmin.delete_expired)


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
    trace = waits(AsyncMessageAdmin.trace)


class OffsetAdmin(Face[AsyncOffsetAdmin]):
    """Shows and moves how far groups have come."""

    ends = waits(AsyncOffsetAdmin.ends)
    at_time = waits(AsyncOffsetAdmin.at_time)
    oldest_ms = waits(AsyncOffsetAdmin.oldest_ms)
    of_group = waits(AsyncOffsetAdmin.of_group)
    known_of_group = waits(AsyncOffsetAdmin.known_of_group)
    commit = waits(AsyncOffsetAdmin.commit)
    move_to_time = waits(AsyncOffsetAdmin.move_to_time)
    move_to_ends = waits(AsyncOffsetAdmin.move_to_ends)


class WaitingAdmin(Face[AsyncWaitingAdmin]):
    """Lists what waits at brokers."""

    transactions = waits(AsyncWaitingAdmin.transactions)
    timed = waits(AsyncWaitingAdmin.timed)


class ProgressAdmin(Face[AsyncProgressAdmin]):
    """Shows how far groups have come, and has them go on elsewhere."""

    of_group = waits(AsyncProgressAdmin.of_group)
    spans = waits(AsyncProgressAdmin.spans)
    topics_of = waits(AsyncProgressAdmin.topics_of)
    groups_of = waits(AsyncProgressAdmin.groups_of)
    subscription = waits(AsyncProgressAdmin.subscription)
    reset = waits(AsyncProgressAdmin.reset)
    clone = waits(AsyncProgressAdmin.clone)


class ClientAdmin(Face[AsyncClientAdmin]):
    """Finds clients at their brokers, and asks them through these."""

    consumers = waits(AsyncClientAdmin.consumers)
    producers = waits(AsyncClientAdmin.producers)
    all_producers = waits(AsyncClientAdmin.all_producers)
    running_info = waits(AsyncClientAdmin.running_info)
    consume_directly = waits(AsyncClientAdmin.consume_directly)
    places = waits(AsyncClientAdmin.places)


class DeadLetterAdmin(Face[AsyncDeadLetterAdmin]):
    """Finds what groups have given up, and gives it to them again."""

    groups = waits(AsyncDeadLetterAdmin.groups)
    letters = waits(AsyncDeadLetterAdmin.letters)
    replay = waits(AsyncDeadLetterAdmin.replay)
    replayed = waits(AsyncDeadLetterAdmin.replayed)


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
        self.dead_letters = DeadLetterAdmin(inner.dead_letters, life)
        self.progress = ProgressAdmin(inner.progress, life)
        self.clients = ClientAdmin(inner.clients, life)
        self.waiting = WaitingAdmin(inner.waiting, life)
