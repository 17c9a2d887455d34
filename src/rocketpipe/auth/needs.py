"""What each request needs: one table, by request.

A request that is not in the table is served by nobody: see ``unlisted``. Topics that belong to a
group (``%RETRY%…``, ``%DLQ%…``) count as that group, and an application of staged sends counts as a
group that publishes. Topics in which brokers keep what waits for its time, its transaction or its
acknowledgement are the cluster's: who could write there could write anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rocketpipe.auth.policy import Action, Kind, Wanted
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.ids import OffsetId, RecallHandle
from rocketpipe.model.names import (
    AUTO_CREATE_TOPIC,
    DLQ_PREFIX,
    TRACE_TOPIC,
    group_of_retry,
    is_dlq_topic,
    is_inner_topic,
    is_retry_topic,
    retry_topic,
    topic_of_pop_retry,
)
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests import (
    brokers,
    clients,
    groups,
    kv,
    lookups,
    membership,
    offsets,
    popping,
    progress,
    pulling,
    replication,
    routes,
    running,
    sending,
    staging,
    topics,
    transactions,
    users,
)

#: Key-values that every client of ours looks up: names of brokers, and how far queues reached.
_KNOWN_TO_ALL: Final = frozenset({staging.HOMES_NAMESPACE, kv.DRAINED_NAMESPACE})
_LOOKS: Final = frozenset({Action.SUB, Action.GET, Action.LIST})
_CLUSTER_GET: Final = (Action.GET,)
_CLUSTER_LIST: Final = (Action.LIST, Action.GET)
_CLUSTER_UPDATE: Final = (Action.UPDATE,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a need may depend on beside the request."""

    cluster: str = ""
    #: The topic of the message at a place in the log, for its readers; None if there is none.
    topic_at: Callable[[int], str | None] = lambda _: None


#: What a request of one kind is about to do.
Need: TypeAlias = Callable[[Any, Surroundings], Iterable[Wanted]]


def topic_wanted(topic: str, *actions: Action) -> Wanted:
    """What it takes to do this to a topic; the topics of a group count as the group."""
    if is_retry_topic(topic):
        return Wanted(Kind.GROUP, group_of_retry(topic), _of_group(actions))
    if is_dlq_topic(topic):
        return Wanted(Kind.GROUP, topic.removeprefix(DLQ_PREFIX), _of_group(actions))
    return Wanted(Kind.TOPIC, topic, frozenset(actions))


def _of_group(actions: Iterable[Action]) -> frozenset[Action]:
    # Whoever reads for a group writes to its retry topic as well.
    return frozenset(Action.SUB if each is Action.PUB else each for each in actions)


def group_wanted(group: str, *actions: Action) -> Wanted:
    """What it takes to do this to a group."""
    return Wanted(Kind.GROUP, group, frozenset(actions))


def publishing(topic: str) -> list[Wanted]:
    """What a send needs; everybody who is known may write traces."""
    return [] if topic == TRACE_TOPIC else [topic_wanted(topic, Action.PUB)]


def reading(topic: str, group: str, *actions: Action) -> list[Wanted]:
    """What it takes to read a topic for a group; its retry topics are the group's own."""
    actions = actions or (Action.SUB,)
    wanted = [group_wanted(group, *actions)]
    if topic and not is_own_retry(topic, group):
        wanted.append(topic_wanted(topic, *actions))
    return wanted


def is_own_retry(topic: str, group: str) -> bool:
    """Whether a topic is where this group, and it alone, reads again what failed."""
    return topic == retry_topic(group) or topic.startswith(f"{retry_topic(group)}+")


def _topic(*actions: Action) -> Need:
    return lambda asked, _: [topic_wanted(asked.topic, *actions)]


def _group(field: str, *actions: Action) -> Need:
    return lambda asked, _: [group_wanted(getattr(asked, field), *actions)]


def _both(group: str, *actions: Action) -> Need:
    def wanted(asked: Any, _: Surroundings) -> list[Wanted]:
        return reading(asked.topic or "", getattr(asked, group), *actions)

    return wanted


def _receipt(
    asked: popping.AckMessage | popping.ChangeInvisibleTime, _: Surroundings
) -> list[Wanted]:
    # A receipt is good for what its own group popped: so the first form of the name will do, which
    # may be another group's as well, and whoever pulls from it has to be of that one.
    group = asked.consumer_group
    return reading(topic_of_pop_retry(asked.topic, group), group)


def _cluster(*actions: Action) -> Need:
    def wanted(asked: Any, around: Surroundings) -> list[Wanted]:
        return [Wanted(Kind.CLUSTER, around.cluster, frozenset(actions))]

    return wanted


def _route(asked: routes.GetRouteInfoByTopic, _: Surroundings) -> list[Wanted]:
    if asked.topic in (AUTO_CREATE_TOPIC, TRACE_TOPIC):
        return []
    return [topic_wanted(asked.topic, Action.PUB, Action.SUB, Action.GET)]


def _heartbeat(asked: clients.Heartbeat, _: Surroundings) -> list[Wanted]:
    # What producers may send is asked with each send: RocketMQ has no rights for their groups.
    return [
        wanted
        for consumer in asked.data.consumers
        for topic in [*(each.topic for each in consumer.subscriptions), ""]
        for wanted in reading(topic, consumer.group_name)
    ]


def _unregister(asked: clients.UnregisterClient, _: Surroundings) -> list[Wanted]:
    return [group_wanted(asked.consumer_group, Action.SUB)] if asked.consumer_group else []


def _claim(asked: clients.LockBatch | clients.UnlockBatch, _: Surroundings) -> list[Wanted]:
    group = asked.claim.consumer_group
    topics_claimed = {queue.topic for queue in asked.claim.queues} or {""}
    return [wanted for topic in topics_claimed for wanted in reading(topic, group)]


def _acks(asked: popping.BatchAckMessage, _: Surroundings) -> list[Wanted]:
    pairs = {(ack.topic, ack.consumer_group) for ack in asked.batch.acks}
    return [wanted for topic, group in pairs for wanted in reading(topic, group)]


def _view(asked: lookups.ViewMessageById, around: Surroundings) -> list[Wanted]:
    return _at(around, asked.offset, asked.topic, (Action.GET, Action.SUB))


def _end(asked: transactions.EndTransaction, around: Surroundings) -> list[Wanted]:
    return _at(around, asked.commit_log_offset, asked.topic, (Action.PUB,))


def _back(asked: sending.SendMessageBack, around: Surroundings) -> list[Wanted]:
    topic = around.topic_at(asked.offset)
    return reading(topic or "", asked.group)


def _resume(asked: transactions.ResumeChecks, around: Surroundings) -> list[Wanted]:
    return _at(around, _place_of(asked.msg_id), asked.topic, (Action.UPDATE,))


def _consume(asked: running.ConsumeDirectly, around: Surroundings) -> list[Wanted]:
    topic = around.topic_at(_place_of(asked.msg_id))
    wanted = reading(asked.topic or "", asked.consumer_group)
    return wanted + ([topic_wanted(topic, Action.SUB)] if topic else [])


def _at(
    around: Surroundings, place: int, named: str | None, actions: tuple[Action, ...]
) -> list[Wanted]:
    """What it takes to do this to the message at a place, whatever topic is said to be its."""
    found = around.topic_at(place)
    if found is None and not named:
        return [Wanted(Kind.CLUSTER, around.cluster, frozenset(actions))]
    return [topic_wanted(each, *actions) for each in {found, named} if each]


def _place_of(msg_id: str | None) -> int:
    try:
        return OffsetId.parse(msg_id or "").log_offset
    except (RocketPipeError, ValueError):
        return -1


def _recall(asked: sending.RecallMessage, _: Surroundings) -> list[Wanted]:
    try:
        topic = RecallHandle.parse(asked.recall_handle).topic
    except (RocketPipeError, ValueError):
        topic = asked.topic
    return [topic_wanted(each, Action.PUB) for each in {topic, asked.topic}]


def _topic_list(asked: topics.UpdateAndCreateTopicList, _: Surroundings) -> list[Wanted]:
    return [topic_wanted(each.name, Action.CREATE) for each in asked.wanted.topics]


def _group_list(asked: groups.UpdateAndCreateGroupList, _: Surroundings) -> list[Wanted]:
    return [group_wanted(each.name, Action.UPDATE) for each in asked.wanted.groups]


def _question(asked: clients.QueryAssignment, _: Surroundings) -> list[Wanted]:
    return reading(asked.question.topic, asked.question.consumer_group)


def _mode(asked: clients.SetMessageRequestMode, _: Surroundings) -> list[Wanted]:
    return [group_wanted(asked.mode.consumer_group, Action.UPDATE)]


def _subscription(asked: clients.CheckClientConfig, _: Surroundings) -> list[Wanted]:
    return reading(asked.check.subscription.topic, asked.check.group)


def _staged(asked: staging.StageMessages, _: Surroundings) -> list[Wanted]:
    return [*publishing(asked.topic), group_wanted(asked.application, Action.PUB)]


def _commit(asked: staging.CommitStages, _: Surroundings) -> list[Wanted]:
    # Before the first batch it is asked whether this can be done here at all.
    return [] if asked.batch < 0 else [group_wanted(asked.application, Action.PUB)]


def _clone(asked: progress.CloneGroupOffset, _: Surroundings) -> list[Wanted]:
    wanted = reading(asked.topic or "", asked.dest_group, Action.UPDATE)
    return [*wanted, group_wanted(asked.src_group, Action.GET, Action.UPDATE)]


def _correction(asked: progress.QueryCorrectionOffset, _: Surroundings) -> list[Wanted]:
    compared = [name.strip() for name in (asked.filter_groups or "").split(",") if name.strip()]
    wanted = reading(asked.topic, asked.compare_group, Action.GET)
    return [*wanted, *(group_wanted(name, Action.GET) for name in compared)]


def _consume_queue(asked: progress.QueryConsumeQueue, _: Surroundings) -> list[Wanted]:
    wanted = [topic_wanted(asked.topic or "", Action.GET)]
    return (
        [*wanted, group_wanted(asked.consumer_group, Action.GET)]
        if asked.consumer_group
        else wanted
    )


def _put_value(asked: kv.PutKeyValue, around: Surroundings) -> list[Wanted]:
    # Who stages sends writes down which broker decides, once for a cluster.
    homes = asked.namespace == staging.HOMES_NAMESPACE
    actions = {Action.UPDATE, Action.PUB} if homes else {Action.UPDATE}
    return [Wanted(Kind.CLUSTER, around.cluster, frozenset(actions))]


def _get_value(asked: kv.GetKeyValue | kv.GetKeyValues, around: Surroundings) -> list[Wanted]:
    if asked.namespace in _KNOWN_TO_ALL:
        return []
    return [Wanted(Kind.CLUSTER, around.cluster, frozenset(_CLUSTER_GET))]


def _send(asked: sending.SendMessage | sending.SendReply, _: Surroundings) -> list[Wanted]:
    return publishing(asked.topic)


_get_cluster: Final = _cluster(*_CLUSTER_GET)
_list_cluster: Final = _cluster(*_CLUSTER_LIST)
_update_cluster: Final = _cluster(*_CLUSTER_UPDATE)
_application: Final = _group("application", Action.PUB)

NEEDS: Final[dict[type[Request[Any]], Need]] = {
    # Messages in, and out.
    sending.SendMessage: _send,
    sending.SendReply: _send,
    sending.SendMessageBack: _back,
    sending.RecallMessage: _recall,
    transactions.EndTransaction: _end,
    transactions.ResumeChecks: _resume,
    staging.StageMessages: _staged,
    staging.CommitStages: _commit,
    staging.PrepareStages: _application,
    staging.AskStages: _application,
    staging.SettleStages: _application,
    staging.ListStaged: _get_cluster,
    pulling.PullMessage: _both("consumer_group"),
    popping.PopMessage: _both("consumer_group"),
    popping.PeekMessage: _both("consumer_group"),
    popping.AckMessage: _receipt,
    popping.BatchAckMessage: _acks,
    popping.ChangeInvisibleTime: _receipt,
    popping.Notification: _both("consumer_group"),
    popping.PollingInfo: _both("consumer_group", Action.GET, Action.SUB),
    lookups.QueryMessage: _topic(Action.SUB, Action.GET),
    lookups.ViewMessageById: _view,
    # Clients, and their places.
    clients.Heartbeat: _heartbeat,
    clients.UnregisterClient: _unregister,
    clients.GetConsumerListByGroup: _group("consumer_group", Action.SUB, Action.GET),
    clients.CheckClientConfig: _subscription,
    clients.LockBatch: _claim,
    clients.UnlockBatch: _claim,
    clients.QueryAssignment: _question,
    clients.SetMessageRequestMode: _mode,
    clients.GetAllRequestModes: _get_cluster,
    offsets.QueryConsumerOffset: _both("consumer_group", Action.SUB, Action.GET),
    offsets.UpdateConsumerOffset: _both("consumer_group", Action.SUB, Action.UPDATE),
    offsets.SearchOffsetByTimestamp: _topic(Action.GET, Action.SUB),
    offsets.GetMaxOffset: _topic(Action.GET, Action.SUB),
    offsets.GetMinOffset: _topic(Action.GET, Action.SUB),
    offsets.GetEarliestStoreTime: _topic(Action.GET, Action.SUB),
    offsets.InvokeBrokerToResetOffset: _both("group", Action.UPDATE),
    # Topics and groups.
    topics.UpdateAndCreateTopic: _topic(Action.CREATE),
    topics.UpdateAndCreateTopicList: _topic_list,
    topics.DeleteTopic: _topic(Action.DELETE),
    topics.GetTopicConfig: _topic(Action.GET),
    topics.GetTopicStats: _topic(Action.GET),
    topics.GetAllTopicConfig: _list_cluster,
    topics.GetBrokerSystemTopics: _list_cluster,
    groups.UpdateAndCreateGroup: lambda asked, _: [
        group_wanted(asked.settings.name, Action.UPDATE)
    ],
    groups.UpdateAndCreateGroupList: _group_list,
    groups.GetGroupConfig: _group("group", Action.GET),
    groups.GetAllGroupConfig: _list_cluster,
    groups.DeleteGroup: _group("group_name", Action.DELETE),
    groups.UpdateGroupForbidden: _both("group", Action.UPDATE),
    progress.GetConsumeStats: _both("consumer_group", Action.GET),
    progress.QueryConsumeTimeSpan: _both("group", Action.GET),
    progress.QueryGroupsOfTopic: _topic(Action.GET),
    progress.QueryTopicsOfGroup: _group("group", Action.GET),
    progress.QuerySubscriptionOfGroup: _both("group", Action.GET),
    progress.CloneGroupOffset: _clone,
    progress.QueryCorrectionOffset: _correction,
    progress.QueryConsumeQueue: _consume_queue,
    running.GetConsumerConnections: _group("consumer_group", Action.GET),
    running.GetProducerConnections: _get_cluster,
    running.GetAllProducers: _get_cluster,
    running.GetOffsetsOfClients: _both("group", Action.GET),
    running.GetRunningInfo: _group("consumer_group", Action.GET),
    running.ConsumeDirectly: _consume,
    # Brokers.
    brokers.UpdateBrokerConfig: _update_cluster,
    brokers.GetBrokerConfig: _get_cluster,
    brokers.GetBrokerRuntimeInfo: _get_cluster,
    brokers.ViewBrokerStats: _get_cluster,
    brokers.GetBrokerConsumeStats: _get_cluster,
    brokers.GetAllConsumerOffsets: _get_cluster,
    brokers.GetAllDelayOffsets: _get_cluster,
    brokers.CleanExpiredQueues: _update_cluster,
    brokers.CleanUnusedTopics: _update_cluster,
    brokers.DeleteExpiredLog: _update_cluster,
    brokers.SetLogReadMode: _update_cluster,
    brokers.LimitColdReads: _update_cluster,
    brokers.UnlimitColdReads: _update_cluster,
    brokers.GetColdReads: _get_cluster,
    replication.ExchangeHaInfo: _update_cluster,
    replication.GetHaStatus: _get_cluster,
    replication.ResetMasterFlushOffset: _update_cluster,
    replication.GetEpochCache: _get_cluster,
    replication.GetTimerCheckPoint: _get_cluster,
    replication.GetTimerMetrics: _get_cluster,
    replication.GetController: _get_cluster,
    replication.GetSyncState: _get_cluster,
    replication.ElectMaster: _update_cluster,
    replication.LeadAnyway: _update_cluster,
    replication.ForgetReplica: _update_cluster,
    # NameServers.
    routes.GetRouteInfoByTopic: _route,
    routes.RegisterBroker: _update_cluster,
    routes.UnregisterBroker: _update_cluster,
    routes.GetBrokerClusterInfo: _list_cluster,
    routes.GetAllTopics: _list_cluster,
    routes.GetTopicsByCluster: _list_cluster,
    routes.GetSystemTopics: _list_cluster,
    routes.GetUnitTopics: _list_cluster,
    routes.GetUnitSubscribedTopics: _list_cluster,
    routes.GetUnitSubscribedPlainTopics: _list_cluster,
    routes.DeleteTopicInNamesrv: _update_cluster,
    routes.RegisterTopicInNamesrv: _update_cluster,
    routes.WipeWritePerm: _update_cluster,
    routes.AddWritePerm: _update_cluster,
    membership.QueryDataVersion: _get_cluster,
    membership.BrokerHeartbeat: _update_cluster,
    membership.GetBrokerMemberGroup: _get_cluster,
    membership.NotifyMinBrokerIdChange: _update_cluster,
    kv.PutKeyValue: _put_value,
    kv.GetKeyValue: _get_value,
    kv.DeleteKeyValue: _update_cluster,
    kv.GetKeyValues: _get_value,
    kv.UpdateNamesrvConfig: _update_cluster,
    kv.GetNamesrvConfig: _get_cluster,
    # Users and what they may do.
    users.CreateUser: _update_cluster,
    users.UpdateUser: _update_cluster,
    users.DeleteUser: _update_cluster,
    users.GetUser: _get_cluster,
    users.ListUsers: _get_cluster,
    users.CreateAcl: _update_cluster,
    users.UpdateAcl: _update_cluster,
    users.DeleteAcl: _update_cluster,
    users.GetAcl: _get_cluster,
    users.ListAcls: _get_cluster,
    users.UpdatePlainAccount: _update_cluster,
    users.DeletePlainAccount: _update_cluster,
    users.GetPlainAclVersion: _get_cluster,
    users.UpdateGlobalWhiteAddresses: _update_cluster,
}


def unlisted(kinds: Iterable[type[Request[Any]]]) -> list[type[Request[Any]]]:
    """Those requests of which nothing is said here: no server may answer them."""
    return [kind for kind in kinds if kind not in NEEDS]


def wants(asked: Request[Any], around: Surroundings) -> list[Wanted]:
    """What a request is about to do; all of it has to be allowed.

    Raises:
        KeyError: If nothing is said here of such a request.
    """
    return [_of_cluster(each, around) for each in NEEDS[type(asked)](asked, around)]


def _of_cluster(wanted: Wanted, around: Surroundings) -> Wanted:
    """Where brokers keep messages of all topics, rights on topics do not count."""
    if wanted.kind is not Kind.TOPIC or not is_inner_topic(wanted.name):
        return wanted
    actions = {Action.GET if each in _LOOKS else Action.UPDATE for each in wanted.actions}
    return Wanted(Kind.CLUSTER, around.cluster, frozenset(actions))
