"""What operators call, by noun, blocking.

with Admin("127.0.0.1:9876") as admin:
    admin.topics.create("orders", queues=8)
"""

from __future__ import annotations

from rocketpipe.blocking.background import Life
from rocketpipe.blocking.session import Session, inner_of
from rocketpipe.blocking.wrapper import Blocking, Client, blocking
from rocketpipe.client.admin.access.plain_accounts import (
    PlainAccountAdmin as AsyncPlainAccountAdmin,
)
from rocketpipe.client.admin.access.policies import PolicyAdmin as AsyncPolicyAdmin
from rocketpipe.client.admin.access.users import UserAdmin as AsyncUserAdmin
from rocketpipe.client.admin.admin import Admin as AsyncAdmin
from rocketpipe.client.admin.brokers import BrokerAdmin as AsyncBrokerAdmin
from rocketpipe.client.admin.browsing import Browsing as AsyncBrowsing
from rocketpipe.client.admin.clients import ClientAdmin as AsyncClientAdmin
from rocketpipe.client.admin.dead_letters import DeadLetterAdmin as AsyncDeadLetterAdmin
from rocketpipe.client.admin.draining import DrainAdmin as AsyncDrainAdmin
from rocketpipe.client.admin.groups import GroupAdmin as AsyncGroupAdmin
from rocketpipe.client.admin.messages import MessageAdmin as AsyncMessageAdmin
from rocketpipe.client.admin.name_servers import NameServerAdmin as AsyncNameServerAdmin
from rocketpipe.client.admin.offsets import OffsetAdmin as AsyncOffsetAdmin
from rocketpipe.client.admin.progress import ProgressAdmin as AsyncProgressAdmin
from rocketpipe.client.admin.replicas import ReplicaAdmin as AsyncReplicaAdmin
from rocketpipe.client.admin.topics import TopicAdmin as AsyncTopicAdmin
from rocketpipe.client.admin.waiting import WaitingAdmin as AsyncWaitingAdmin


class TopicAdmin(Blocking[AsyncTopicAdmin]):
    """Creates, changes, deletes, lists and shows topics."""

    create = blocking(AsyncTopicAdmin.create)
    update = blocking(AsyncTopicAdmin.update)
    delete = blocking(AsyncTopicAdmin.delete)
    names = blocking(AsyncTopicAdmin.names)
    show = blocking(AsyncTopicAdmin.show)
    stats = blocking(AsyncTopicAdmin.stats)
    known_stats = blocking(AsyncTopicAdmin.known_stats)


class GroupAdmin(Blocking[AsyncGroupAdmin]):
    """Creates, changes, deletes, lists and shows groups of consumers."""

    create = blocking(AsyncGroupAdmin.create)
    update = blocking(AsyncGroupAdmin.update)
    delete = blocking(AsyncGroupAdmin.delete)
    names = blocking(AsyncGroupAdmin.names)
    show = blocking(AsyncGroupAdmin.show)
    members = blocking(AsyncGroupAdmin.members)
    may_read = blocking(AsyncGroupAdmin.may_read)
    let_read = blocking(AsyncGroupAdmin.let_read)


class BrokerAdmin(Blocking[AsyncBrokerAdmin]):
    """Lists brokers, shows how they fare, changes their settings and has them clean up."""

    all = blocking(AsyncBrokerAdmin.all)
    answering = blocking(AsyncBrokerAdmin.answering)
    clusters = blocking(AsyncBrokerAdmin.clusters)
    topics = blocking(AsyncBrokerAdmin.topics)
    stop_writes = blocking(AsyncBrokerAdmin.stop_writes)
    allow_writes = blocking(AsyncBrokerAdmin.allow_writes)
    runtime = blocking(AsyncBrokerAdmin.runtime)
    load = blocking(AsyncBrokerAdmin.load)
    stats = blocking(AsyncBrokerAdmin.stats)
    settings = blocking(AsyncBrokerAdmin.settings)
    settings_and_live = blocking(AsyncBrokerAdmin.settings_and_live)
    change = blocking(AsyncBrokerAdmin.change)
    clean_queues = blocking(AsyncBrokerAdmin.clean_queues)
    clean_topics = blocking(AsyncBrokerAdmin.clean_topics)
    delete_expired = blocking(AsyncBrokerAdmin.delete_expired)


class NameServerAdmin(Blocking[AsyncNameServerAdmin]):
    """Reads and changes what NameServers keep beside routes."""

    addresses = blocking(AsyncNameServerAdmin.addresses)
    known_topics = blocking(AsyncNameServerAdmin.known_topics)
    settings = blocking(AsyncNameServerAdmin.settings)
    change = blocking(AsyncNameServerAdmin.change)
    put = blocking(AsyncNameServerAdmin.put)
    get = blocking(AsyncNameServerAdmin.get)
    values = blocking(AsyncNameServerAdmin.values)
    delete = blocking(AsyncNameServerAdmin.delete)
    set_order = blocking(AsyncNameServerAdmin.set_order)


class MessageAdmin(Blocking[AsyncMessageAdmin]):
    """Finds messages."""

    by_id = blocking(AsyncMessageAdmin.by_id)
    by_unique_key = blocking(AsyncMessageAdmin.by_unique_key)
    by_key = blocking(AsyncMessageAdmin.by_key)
    at = blocking(AsyncMessageAdmin.at)
    at_time = blocking(AsyncMessageAdmin.at_time)
    trace = blocking(AsyncMessageAdmin.trace)


class Browsing(Blocking[AsyncBrowsing]):
    """Reads topics backwards."""

    newest = blocking(AsyncBrowsing.newest)


class OffsetAdmin(Blocking[AsyncOffsetAdmin]):
    """Shows and moves how far groups have come."""

    ends = blocking(AsyncOffsetAdmin.ends)
    at_time = blocking(AsyncOffsetAdmin.at_time)
    oldest_ms = blocking(AsyncOffsetAdmin.oldest_ms)
    of_group = blocking(AsyncOffsetAdmin.of_group)
    known_of_group = blocking(AsyncOffsetAdmin.known_of_group)
    commit = blocking(AsyncOffsetAdmin.commit)
    move_to_time = blocking(AsyncOffsetAdmin.move_to_time)
    move_to_ends = blocking(AsyncOffsetAdmin.move_to_ends)


class DrainAdmin(Blocking[AsyncDrainAdmin]):
    """Looks at brokers that are being emptied."""

    look = blocking(AsyncDrainAdmin.look)
    replayed = blocking(AsyncDrainAdmin.replayed)
    hand_over = blocking(AsyncDrainAdmin.hand_over)


class WaitingAdmin(Blocking[AsyncWaitingAdmin]):
    """Lists what waits at brokers, and decides transactions that nobody else will."""

    transactions = blocking(AsyncWaitingAdmin.transactions)
    decide = blocking(AsyncWaitingAdmin.decide)
    timed = blocking(AsyncWaitingAdmin.timed)


class ReplicaAdmin(Blocking[AsyncReplicaAdmin]):
    """Shows how the copies of a log stand, and has another lead."""

    all = blocking(AsyncReplicaAdmin.all)
    of_group = blocking(AsyncReplicaAdmin.of_group)
    ha_status = blocking(AsyncReplicaAdmin.ha_status)
    epochs = blocking(AsyncReplicaAdmin.epochs)
    in_sync = blocking(AsyncReplicaAdmin.in_sync)
    elect = blocking(AsyncReplicaAdmin.elect)


class ProgressAdmin(Blocking[AsyncProgressAdmin]):
    """Shows how far groups have come, and has them go on elsewhere."""

    of_group = blocking(AsyncProgressAdmin.of_group)
    known_of_group = blocking(AsyncProgressAdmin.known_of_group)
    spans = blocking(AsyncProgressAdmin.spans)
    topics_of = blocking(AsyncProgressAdmin.topics_of)
    groups_of = blocking(AsyncProgressAdmin.groups_of)
    subscription = blocking(AsyncProgressAdmin.subscription)
    reset = blocking(AsyncProgressAdmin.reset)
    clone = blocking(AsyncProgressAdmin.clone)


class ClientAdmin(Blocking[AsyncClientAdmin]):
    """Finds clients at their brokers, and asks them through these."""

    consumers = blocking(AsyncClientAdmin.consumers)
    producers = blocking(AsyncClientAdmin.producers)
    all_producers = blocking(AsyncClientAdmin.all_producers)
    running_info = blocking(AsyncClientAdmin.running_info)
    consume_directly = blocking(AsyncClientAdmin.consume_directly)
    places = blocking(AsyncClientAdmin.places)


class DeadLetterAdmin(Blocking[AsyncDeadLetterAdmin]):
    """Finds what groups have given up, gives it to them again, or does away with it."""

    groups = blocking(AsyncDeadLetterAdmin.groups)
    count = blocking(AsyncDeadLetterAdmin.count)
    letters = blocking(AsyncDeadLetterAdmin.letters)
    ends = blocking(AsyncDeadLetterAdmin.ends)
    spans = blocking(AsyncDeadLetterAdmin.spans)
    purge = blocking(AsyncDeadLetterAdmin.purge)
    replay = blocking(AsyncDeadLetterAdmin.replay)
    replayed = blocking(AsyncDeadLetterAdmin.replayed)


class UserAdmin(Blocking[AsyncUserAdmin]):
    """Creates, lists, rotates, disables and deletes users, at every server that has some."""

    all = blocking(AsyncUserAdmin.all)
    all_with_servers = blocking(AsyncUserAdmin.all_with_servers)
    show = blocking(AsyncUserAdmin.show)
    find = blocking(AsyncUserAdmin.find)
    create = blocking(AsyncUserAdmin.create)
    rotate = blocking(AsyncUserAdmin.rotate)
    enable = blocking(AsyncUserAdmin.enable)
    disable = blocking(AsyncUserAdmin.disable)
    delete = blocking(AsyncUserAdmin.delete)
    set_type = blocking(AsyncUserAdmin.set_type)


class PolicyAdmin(Blocking[AsyncPolicyAdmin]):
    """Grants, revokes, lists and explains what users may do, at every server that has some."""

    all = blocking(AsyncPolicyAdmin.all)
    of = blocking(AsyncPolicyAdmin.of)
    grant = blocking(AsyncPolicyAdmin.grant)
    put = blocking(AsyncPolicyAdmin.put)
    revoke = blocking(AsyncPolicyAdmin.revoke)
    explain = blocking(AsyncPolicyAdmin.explain)


class PlainAccountAdmin(Blocking[AsyncPlainAccountAdmin]):
    """Makes and removes accounts as RocketMQ 4.9 has them, at brokers."""

    update = blocking(AsyncPlainAccountAdmin.update)
    delete = blocking(AsyncPlainAccountAdmin.delete)
    versions = blocking(AsyncPlainAccountAdmin.versions)
    set_white_addresses = blocking(AsyncPlainAccountAdmin.set_white_addresses)


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
        self.browsing = Browsing(inner.browsing, life)
        self.offsets = OffsetAdmin(inner.offsets, life)
        self.dead_letters = DeadLetterAdmin(inner.dead_letters, life)
        self.draining = DrainAdmin(inner.draining, life)
        self.progress = ProgressAdmin(inner.progress, life)
        self.clients = ClientAdmin(inner.clients, life)
        self.waiting = WaitingAdmin(inner.waiting, life)
        self.replicas = ReplicaAdmin(inner.replicas, life)
        self.users = UserAdmin(inner.users, life)
        self.policies = PolicyAdmin(inner.policies, life)
        self.plain_accounts = PlainAccountAdmin(inner.plain_accounts, life)
