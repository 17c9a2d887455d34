"""What a broker does while it follows: it is read, and sends others to the leader.

    pulls, lookups, who is there, how it fares      answered from what is confirmed here
    consumer offsets that are committed             passed on to the leader
    sends, for a while after a planned switch       passed on to the leader
    everything else                                 14, with the leader's address

Tables come from the leader. A group that comes for the first time is known here alone, until the
leader tells of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar

from rocketpipe.auth.auditing.audit import CHANGES_OF_USERS
from rocketpipe.auth.handlers import PlainAclHandlers, UserHandlers
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.core import Core
from rocketpipe.broker.delivery.pull_plan import PullRules
from rocketpipe.broker.features.administration.feature import administration
from rocketpipe.broker.features.cold_reads.feature import cold_reads
from rocketpipe.broker.handlers.clients import ClientHandlers
from rocketpipe.broker.handlers.follower_pulling import LEADER_ID, FollowerPullHandlers
from rocketpipe.broker.handlers.groups import GroupHandlers
from rocketpipe.broker.handlers.lookups import LookupHandlers
from rocketpipe.broker.handlers.offsets import OffsetHandlers
from rocketpipe.broker.handlers.passing_on import PassOn
from rocketpipe.broker.handlers.replication import ReplicationHandlers
from rocketpipe.broker.handlers.topics import TopicStatsHandlers
from rocketpipe.broker.roles.duties import (
    Role,
    client_handlers,
    count_answer,
    pull_handlers,
    topic_handlers,
    user_handlers,
)
from rocketpipe.coordination.coordinator import Leader
from rocketpipe.errors import RemoteProtocolError, RequestRejected
from rocketpipe.protocol.codes import Language, RequestCode, ResponseCode
from rocketpipe.protocol.command import Command, refusal
from rocketpipe.protocol.refusals import NO_LEADER, naming_leader
from rocketpipe.protocol.request import Request, from_command
from rocketpipe.protocol.requests import (
    brokers,
    clients,
    groups,
    lookups,
    offsets,
    progress,
    pulling,
    running,
    sending,
    topics,
)
from rocketpipe.remoting.connection import Answer, PeerConnection
from rocketpipe.remoting.router import Ask, Router, handled_requests

ReplyT = TypeVar("ReplyT")

#: What a follower answers by itself.
SERVED: Final[frozenset[type[Request[Any]]]] = frozenset(
    {
        pulling.PullMessage,
        lookups.QueryMessage,
        lookups.ViewMessageById,
        clients.Heartbeat,
        clients.UnregisterClient,
        clients.GetConsumerListByGroup,
        clients.CheckClientConfig,
        offsets.QueryConsumerOffset,
        offsets.GetMinOffset,
        offsets.GetMaxOffset,
        offsets.SearchOffsetByTimestamp,
        offsets.GetEarliestStoreTime,
        topics.GetAllTopicConfig,
        topics.GetTopicConfig,
        topics.GetBrokerSystemTopics,
        topics.GetTopicStats,
        groups.GetGroupConfig,
        groups.GetAllGroupConfig,
        progress.GetConsumeStats,
        progress.QueryConsumeTimeSpan,
        progress.QueryGroupsOfTopic,
        progress.QueryTopicsOfGroup,
        progress.QuerySubscriptionOfGroup,
        progress.QueryCorrectionOffset,
        progress.QueryConsumeQueue,
        running.GetConsumerConnections,
        running.GetProducerConnections,
        running.GetAllProducers,
        running.GetRunningInfo,
        running.GetOffsetsOfClients,
        brokers.GetBrokerConfig,
        brokers.UpdateBrokerConfig,
        brokers.GetBrokerRuntimeInfo,
        brokers.ViewBrokerStats,
        brokers.GetBrokerConsumeStats,
        brokers.GetAllConsumerOffsets,
        brokers.GetAllDelayOffsets,
        brokers.DeleteExpiredLog,
        brokers.SetLogReadMode,
        brokers.LimitColdReads,
        brokers.UnlimitColdReads,
        brokers.GetColdReads,
    }
)
#: What only the leader's tables can take, and reaches them from here.
PASSED_ON: Final[tuple[type[Request[Any]], ...]] = (offsets.UpdateConsumerOffset,)
#: What is passed on too for a while after a planned switch.
SENDS: Final[tuple[type[Request[Any]], ...]] = (
    sending.SendMessage,
    sending.SendMessageBack,
)

_NO_READS: Final = "[REJECTREQUEST]this broker is a slave, and its slaveReadEnable is off"
_LIVE: Final = (
    *("permission", "property_filter", "lite_pull", "long_polling", "short_polling_ms"),
    *("notify_consumers", "on_damage", "min_in_sync", "slave_read"),
)


def not_leading(leader: Leader | None) -> tuple[int, str]:
    """What those are told who want something that only a leader does.

    Clients look into the remark: either says that nothing was stored here.
    """
    remark = "service not available now: this broker is not the master of its name"
    if leader is None:
        return ResponseCode.SERVICE_NOT_AVAILABLE, f"{remark}, and {NO_LEADER}"
    return ResponseCode.SERVICE_NOT_AVAILABLE, naming_leader(remark, leader.address)


@contextmanager
def follower_role(
    core: Core,
    leader: Callable[[], Leader | None],
    passes_sends: Callable[[], bool],
    *,
    me: int,
) -> Iterator[Role]:
    """Build what a follower serves on a core; at the end of the block none of it is left.

    ``me`` is the id under which clients know it.
    """
    store, tables, clock = core.store, core.tables, core.clock
    with core.arrivals.temporary(), core.settings.temporary(), core.pins.temporary():
        features = [administration(core), cold_reads(core)]
        knowing = client_handlers(core, leads=False)
        topics_answered = topic_handlers(core)
        core.settings.watch(partial(_reconfigure, core, knowing), *_LIVE)
        pulls = pull_handlers(core, FollowerPullHandlers)
        pulls.suggested = lambda: me if leader() is None else LEADER_ID
        router = Router(
            pulls,
            OffsetHandlers(store, tables.offsets, tables.topics, tables.groups),
            LookupHandlers(store),
            knowing,
            topics_answered,
            TopicStatsHandlers(tables.topics, store, core.config.name, core.stats.topic_rate),
            GroupHandlers(tables.groups, tables.offsets, clock, tables.settled),
            *(handlers for feature in features for handlers in feature.handlers),
            ReplicationHandlers(
                core.config.cluster, core.config.name, core.address, core.group, clock
            ),
            *user_handlers(core),
            guard=core.gate,
            timed=partial(count_answer, core.stats.counts),
        )
        yield Role(
            router=router,
            answer=_answers(core, router, leader, passes_sends),
            ask=_asks(core, router, leader),
            fast_path=None,
            features=features,
            clients=knowing,
            topics=topics_answered,
        )


def _answers(
    core: Core,
    router: Router,
    leader: Callable[[], Leader | None],
    passes_sends: Callable[[], bool],
) -> Answer:
    pass_on = PassOn(core.caller, leader)
    pulls = frozenset(map(int, pulling.PullMessage.codes))
    alone = (ReplicationHandlers, UserHandlers, PlainAclHandlers)
    # Users change where the leader is: a follower has those that stand in the log.
    own = {kind for each in alone for kind in handled_requests(each)} - CHANGES_OF_USERS
    served = codes_of([*SERVED, *own])
    passed = _by_code(PASSED_ON)
    sends = _by_code(SENDS)
    known = frozenset(map(int, RequestCode))

    async def answer(command: Command, peer: PeerConnection) -> Command:
        code = command.code
        replication = core.settings.now.replication
        if code in pulls and replication is not None and not replication.slave_read:
            return refusal(command, ResponseCode.SYSTEM_BUSY, _NO_READS)
        if code in served or code not in known:
            return await router.answer(command, peer)
        kind = passed.get(code) or (sends.get(code) if passes_sends() else None)
        if core.gate is not None:
            try:
                by = core.gate.admit(command, peer)
                if kind is not None:
                    core.gate.allow(by, from_command(kind, command))
            except RequestRejected as error:
                return refusal(command, error.code, error.remark)
            except RemoteProtocolError as error:
                return refusal(command, ResponseCode.SYSTEM_ERROR, str(error))
        if kind is not None and leader() is not None:
            return await pass_on.answer(kind, command)
        return refusal(command, *not_leading(leader()))

    return answer


def _asks(core: Core, router: Router, leader: Callable[[], Leader | None]) -> Ask:
    """Answer what is asked from within this process: what is not served here is the leader's."""
    served = SERVED.union(handled_requests(ReplicationHandlers))

    async def ask(
        asked: Request[ReplyT], peer: PeerConnection, by: Any, language: Language | None
    ) -> ReplyT:
        replication = core.settings.now.replication
        if isinstance(asked, pulling.PullMessage) and not (
            replication is None or replication.slave_read
        ):
            raise RequestRejected(ResponseCode.SYSTEM_BUSY, _NO_READS)
        if type(asked) in served:
            return await router.ask(asked, peer, by, language)
        raise RequestRejected(*not_leading(leader()))

    return ask


def codes_of(kinds: Iterable[type[Request[Any]]]) -> frozenset[int]:
    """The codes of requests."""
    return frozenset(int(code) for kind in kinds for code in kind.codes)


def _by_code(kinds: tuple[type[Request[Any]], ...]) -> Mapping[int, type[Request[Any]]]:
    return {int(code): kind for kind in kinds for code in kind.codes}


def _reconfigure(core: Core, clients: ClientHandlers, config: BrokerConfig) -> None:
    """Tell everyone who goes by a setting that can change; who leads next looks by itself."""
    core.planner.rules = PullRules.of(config)
    clients.set_rules(notify=config.notify_consumers, property_filter=config.property_filter)
    core.store.damaged.skip = config.on_damage == "skip"
    core.registrar.reconfigure(config)
