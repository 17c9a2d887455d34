"""Which broker serves which topic: the rules of registration, each by itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketpipe.errors import InvalidName
from rocketpipe.model.route import BrokerQueues, QueueMapping
from rocketpipe.model.topic import DataVersion, TopicSettings
from rocketpipe.namesrv.config import LiveSettings, NamesrvConfig
from rocketpipe.namesrv.route_table import Announcement, RegistrationRefused, RouteTable

FIRST = DataVersion(counter=1, timestamp=1)
SECOND = DataVersion(counter=2, timestamp=2)


def route_table(**settings: Any) -> RouteTable:
    return RouteTable(LiveSettings(NamesrvConfig(**settings)))


def topics(*names: str, queues: int = 4, perm: int = 6, flag: int = 0) -> dict[str, TopicSettings]:
    return {
        name: TopicSettings(
            name=name, read_queues=queues, write_queues=queues, perm=perm, sys_flag=flag
        )
        for name in names
    }


def told(
    name: str = "broker-a",
    broker_id: int = 0,
    address: str | None = None,
    *,
    has: dict[str, TopicSettings] | None = None,
    version: DataVersion = FIRST,
    **more: Any,
) -> Announcement:
    return Announcement(
        cluster=more.pop("cluster", "c"),
        name=name,
        broker_id=broker_id,
        address=address or f"{name}.{broker_id}:10911",
        topics=topics("t", "u") if has is None else has,
        version=version,
        **more,
    )


def addresses(table: RouteTable, topic: str = "t") -> dict[int, str]:
    route = table.route(topic)
    assert route is not None
    (broker,) = route.brokers
    return broker.addresses


def perm_of(table: RouteTable, topic: str = "t") -> int:
    route = table.route(topic)
    assert route is not None
    return route.queues[0].perm


def test_four_queues_on_each_of_two_brokers_are_eight() -> None:
    table = route_table()
    table.register(told("broker-b"))
    table.register(told("broker-a"))
    route = table.route("t")
    assert route is not None
    queues = route.writable_queues("t")
    assert [(queue.broker_name, queue.queue_id) for queue in queues] == [
        *(("broker-a", queue_id) for queue_id in range(4)),
        *(("broker-b", queue_id) for queue_id in range(4)),
    ]


def test_a_topic_that_no_broker_serves_has_no_route() -> None:
    table = route_table()
    table.register(told())
    assert table.route("other") is None


# Registration, rule by rule


def test_a_broker_that_is_not_known_cannot_begin_with_a_single_topic() -> None:
    table = route_table()
    with pytest.raises(RegistrationRefused, match=r"^register broker failed"):
        table.register(told(has=topics("t")))
    assert table.everyone().brokers == {}


def test_a_broker_that_is_known_may_register_one_topic_and_keeps_the_others() -> None:
    table = route_table()
    table.register(told())
    table.register(told(has=topics("new"), version=SECOND))
    assert table.topics() == {"t", "u", "new"}


def test_a_broker_without_topics_is_taken() -> None:
    table = route_table()
    assert table.register(told(has={})).taken
    assert table.topics() == frozenset()


def test_what_a_broker_said_last_of_a_topic_counts_when_its_version_changed() -> None:
    table = route_table()
    table.register(told())
    table.register(told(has=topics("t", "u", queues=8)))
    route = table.route("t")
    assert route is not None
    assert route.queues[0].write_queues == 4
    table.register(told(has=topics("t", "u", queues=8), version=SECOND))
    route = table.route("t")
    assert route is not None
    assert route.queues[0].write_queues == 8


def test_a_topic_that_is_missing_is_taken_though_the_version_did_not_change() -> None:
    table = route_table()
    table.register(told())
    table.delete_topic("t")
    assert table.route("t") is None
    table.register(told())
    assert table.route("t") is not None


def test_the_same_address_under_another_id_replaces_the_old_one() -> None:
    table = route_table()
    table.register(told(broker_id=1, address="h:1", acting_leader=False))
    outcome = table.register(told(broker_id=0, address="h:1"))
    assert [(gone.broker_id, gone.address) for gone in outcome.displaced] == [(1, "h:1")]
    assert addresses(table) == {0: "h:1"}


def test_a_leader_that_steps_down_can_still_be_read() -> None:
    table = route_table()
    table.register(told(address="h:1", version=DataVersion(state_version=3)))
    table.register(told(broker_id=2, address="h:1", has={}))
    assert addresses(table) == {2: "h:1"}
    assert table.topics() == {"t", "u"}
    table.register(told(address="h:2", version=DataVersion(state_version=4), has=topics("t", "v")))
    assert addresses(table) == {0: "h:2", 2: "h:1"}
    assert "v" in table.topics()
    table.unregister("h:2")
    assert addresses(table) == {2: "h:1"}, "its follower is left to read from"
    table.unregister("h:1")
    assert table.topics() == frozenset()


def test_a_follower_that_takes_over_is_the_leader_and_the_old_one_is_gone() -> None:
    table = route_table()
    table.register(told(address="h:1", version=DataVersion(state_version=1)))
    table.register(told(broker_id=1, address="h:2", has={}))
    outcome = table.register(told(address="h:2", version=DataVersion(state_version=2)))
    assert {gone.address for gone in outcome.displaced} == {"h:1", "h:2"}
    assert addresses(table) == {0: "h:2"}
    assert not table.register(told(address="h:1", version=DataVersion(state_version=1))).taken
    assert addresses(table) == {0: "h:2"}


def test_the_same_address_under_another_name_replaces_the_old_one() -> None:
    table = route_table()
    table.register(told("old", address="h:1"))
    table.register(told("new", address="h:1"))
    assert set(table.everyone().brokers) == {"new"}


def test_another_process_under_the_same_id_takes_its_place_and_starts_anew() -> None:
    table = route_table()
    table.register(told(address="h:1", has=topics("old", "t")))
    outcome = table.register(told(address="h:2"))
    assert outcome.fresh
    assert [gone.address for gone in outcome.displaced] == ["h:1"]
    assert table.topics() == {"t", "u"}
    assert addresses(table) == {0: "h:2"}
    assert table.member("h:1") is None


def test_an_older_process_does_not_push_out_a_newer_one_of_the_same_id() -> None:
    table = route_table()
    newer = DataVersion(state_version=2)
    table.register(told(address="h:1", version=newer))
    outcome = table.register(told(address="h:2", version=DataVersion(state_version=1)))
    assert not outcome.taken
    assert addresses(table) == {0: "h:1"}
    assert table.member("h:2") is None
    assert table.register(told(address="h:3", version=newer)).taken


def test_a_follower_without_acting_leaders_says_nothing_about_topics() -> None:
    table = route_table()
    table.register(told(broker_id=1))
    assert table.topics() == frozenset()
    assert table.members("broker-a") == {1: "broker-a.1:10911"}


def test_the_leaders_word_counts_and_not_its_followers() -> None:
    table = route_table()
    table.register(told(broker_id=0))
    table.register(told(broker_id=1, acting_leader=True, has=topics("t", "v", queues=2)))
    route = table.route("t")
    assert route is not None
    assert route.queues[0].write_queues == 4
    assert table.route("v") is None
    assert addresses(table) == {0: "broker-a.0:10911", 1: "broker-a.1:10911"}


def test_without_a_leader_the_follower_with_the_smallest_id_is_believed() -> None:
    table = route_table()
    table.register(told(broker_id=1, acting_leader=False, has=topics("t", "u", queues=2)))
    table.register(told(broker_id=2, acting_leader=False, has=topics("v", "w")))
    assert table.topics() == {"t", "u"}
    assert perm_of(table) == 6


def test_topics_of_a_follower_that_stands_in_cannot_be_written() -> None:
    table = route_table()
    table.register(told(broker_id=1, acting_leader=True))
    assert perm_of(table) == 4
    table.register(told(broker_id=0, acting_leader=True))
    assert perm_of(table) == 6


def test_topics_left_out_stay_unless_the_settings_say_otherwise() -> None:
    table = route_table()
    table.register(told(has=topics("t", "u", "v")))
    table.register(told(version=SECOND))
    assert table.topics() == {"t", "u", "v"}
    table = route_table(delete_unnamed_topics=True)
    table.register(told(has=topics("t", "u", "v")))
    table.register(told(version=SECOND))
    assert table.topics() == {"t", "u"}


def test_a_registration_with_static_topics_deletes_none() -> None:
    table = route_table(delete_unnamed_topics=True)
    table.register(told(has=topics("t", "u", "v")))
    table.register(told(version=SECOND, mappings={"t": QueueMapping(topic="t")}))
    assert table.topics() == {"t", "u", "v"}


def test_a_follower_is_told_its_leader_and_a_leader_itself() -> None:
    table = route_table()
    assert table.register(told(broker_id=1)).leader is None
    table.register(told(broker_id=0, ha_address="h:10912"))
    leader = table.register(told(broker_id=1)).leader
    assert leader is not None
    assert (leader.address, leader.ha_address) == ("broker-a.0:10911", "h:10912")


def test_who_gets_the_smallest_id_is_noticed() -> None:
    table = route_table()
    assert not table.register(told(broker_id=2)).smallest_changed
    assert table.register(told(broker_id=1)).smallest_changed
    assert not table.register(told(broker_id=1)).smallest_changed
    assert not table.register(told(broker_id=3)).smallest_changed


def test_a_name_of_another_cluster_is_refused_but_a_broker_may_move() -> None:
    table = route_table()
    table.register(told(address="h:1"))
    with pytest.raises(RegistrationRefused, match="is taken in cluster c"):
        table.register(told(address="h:2", cluster="d"))
    table.register(told(address="h:1", cluster="d"))
    assert table.everyone().clusters == {"d": ("broker-a",)}


@pytest.mark.parametrize("evil", ["../../etc/x", "a/b", "a b", "", "x" * 128, "a\nb", "ü"])
def test_a_name_that_no_topic_may_have_is_left_out_and_named_once(evil: str) -> None:
    table = route_table()
    has = {**topics("t"), evil: TopicSettings(name=evil)}
    assert table.register(told(has=has)).left_out == (evil,)
    assert table.register(told(has=has)).left_out == ()
    assert table.topics() == {"t"}


def test_topics_named_after_the_broker_may_have_dots_as_host_names_do() -> None:
    table = route_table()
    own = ("h.example", "c.x", "rmq_sys_REVIVE_LOG_c.x", "c.x_REPLY_TOPIC")
    retried = "%RETRY%group+topic"
    table.register(told("h.example", cluster="c.x", has=topics(*own, retried)))
    assert table.topics() == {*own, retried}


# Bounds


def test_no_more_brokers_are_kept_than_the_settings_say() -> None:
    table = route_table(max_brokers=2)
    table.register(told("a"))
    table.register(told("b"))
    with pytest.raises(RegistrationRefused, match=r"keeps 2 brokers .* raise maxBrokers"):
        table.register(told("c"))
    table.register(told("a", version=SECOND))
    table.unregister("b.0:10911")
    table.register(told("c"))


def test_no_more_topics_are_kept_than_the_settings_say_and_nothing_changes_on_refusal() -> None:
    table = route_table(max_topic_routes=3)
    table.register(told("a"))
    with pytest.raises(RegistrationRefused, match="keeps 3 topics of brokers, has 2"):
        table.register(told("b"))
    assert set(table.everyone().brokers) == {"a"}
    table.register(told("a", has=topics("t", "u", "v"), version=SECOND))
    with pytest.raises(RegistrationRefused, match="raise maxTopicRoutes"):
        table.add_topic("w", table.route("t").queues)  # type: ignore[union-attr]


# Going


def test_a_broker_that_goes_takes_its_topics_along_with_the_last_of_its_name() -> None:
    table = route_table()
    table.register(told(broker_id=0))
    table.register(told(broker_id=1))
    gone = table.unregister("broker-a.0:10911")
    assert gone is not None
    assert gone.broker_id == 0
    assert addresses(table) == {1: "broker-a.1:10911"}
    table.unregister("broker-a.1:10911")
    assert table.route("t") is None
    assert table.everyone().clusters == {}
    assert table.unregister("broker-a.1:10911") is None


def test_without_a_leader_nothing_can_be_written_where_followers_stand_in() -> None:
    table = route_table()
    table.register(told(broker_id=0, acting_leader=True))
    table.register(told(broker_id=1, acting_leader=True))
    table.unregister("broker-a.0:10911")
    assert perm_of(table) == 4
    table.register(told(broker_id=0, acting_leader=True))
    assert perm_of(table) == 6


def test_a_follower_is_shown_as_leader_only_if_the_settings_and_its_name_want_it() -> None:
    for wanted, acting, shown in [(True, True, 0), (True, False, 1), (False, True, 1)]:
        table = route_table(acting_leaders=wanted)
        table.register(told(broker_id=0, acting_leader=acting))
        table.register(told(broker_id=1, acting_leader=acting))
        table.unregister("broker-a.0:10911")
        assert addresses(table) == {shown: "broker-a.1:10911"}


def test_of_several_followers_the_smallest_stands_in_and_membership_topics_show_the_truth() -> None:
    table = route_table(acting_leaders=True)
    sync = "rmq_sys_SYNC_BROKER_MEMBER_broker-a"
    for number in (2, 1):
        table.register(told(broker_id=number, acting_leader=True, has=topics("t", sync)))
    assert addresses(table) == {0: "broker-a.1:10911", 2: "broker-a.2:10911"}
    assert addresses(table, sync) == {1: "broker-a.1:10911", 2: "broker-a.2:10911"}


# What operators change


def test_write_permission_is_wiped_until_it_is_added_or_the_topic_changes() -> None:
    table = route_table()
    table.register(told(has=topics("t", "u", perm=7)))
    assert table.wipe_write_perm("broker-a") == 2
    assert perm_of(table) == 5
    table.register(told(has=topics("t", "u", "new", perm=7), version=SECOND))
    assert perm_of(table) == 5
    assert table.add_write_perm("broker-a") == 3
    assert perm_of(table) == 6
    assert table.wipe_write_perm("nobody") == 0


def test_a_route_is_deleted_in_one_cluster_or_in_all() -> None:
    table = route_table()
    table.register(told("a"))
    table.register(told("b", cluster="d"))
    assert table.delete_topic("t", "d") == 1
    route = table.route("t")
    assert route is not None
    assert [broker.broker_name for broker in route.brokers] == ["a"]
    assert table.delete_topic("u") == 2
    assert table.delete_topic("u") == 0
    assert table.topics() == {"t"}


def test_a_route_is_added_on_known_brokers_only() -> None:
    table = route_table()
    table.register(told("a"))
    queues = BrokerQueues(broker_name="a", read_queues=1, write_queues=1, perm=6)
    table.add_topic("new", (queues,))
    assert table.topics() == {"t", "u", "new"}
    stranger = BrokerQueues(broker_name="x", read_queues=1, write_queues=1, perm=6)
    with pytest.raises(RegistrationRefused, match="no broker named 'x' is registered"):
        table.add_topic("newer", (queues, stranger))
    assert "newer" not in table.topics()
    with pytest.raises(InvalidName):
        table.add_topic("../x", (queues,))


# What clients ask


def test_a_route_carries_mappings_filter_servers_and_the_zone() -> None:
    table = route_table()
    own = QueueMapping(topic="t", broker_name="broker-a", total_queues=8)
    others = QueueMapping(topic="u", broker_name="broker-b", total_queues=8)
    table.register(
        told(zone="z", filter_servers=("h:1234",), mappings={"t": own, "u": others, "x": own})
    )
    route = table.route("t")
    assert route is not None
    assert route.mapping_by_broker == {"broker-a": own}
    assert route.filter_servers == {"broker-a.0:10911": ("h:1234",)}
    assert route.brokers[0].zone_name == "z"
    other = table.route("u")
    assert other is not None
    assert other.mapping_by_broker is None


def test_topics_are_listed_by_cluster_by_unit_and_for_the_system() -> None:
    table = route_table()
    table.register(told("a", has={**topics("plain", "t"), **topics("unit", flag=1)}))
    table.register(told("b", cluster="d", has={**topics("sub", flag=2), **topics("both", flag=3)}))
    assert table.topics_of_cluster("c") == {"plain", "t", "unit"}
    assert table.topics_of_cluster("nowhere") == frozenset()
    assert table.unit_topics(unit=True, subscribed=None) == {"unit", "both"}
    assert table.unit_topics(unit=None, subscribed=True) == {"sub", "both"}
    assert table.unit_topics(unit=False, subscribed=True) == {"sub"}
    assert table.system_topics() == ({"a", "b", "c", "d"}, "a.0:10911")
    assert route_table().system_topics() == (frozenset(), None)


def test_every_broker_is_named_by_its_cluster() -> None:
    table = route_table()
    table.register(told("b"))
    table.register(told("a", broker_id=1))
    table.register(told("x", cluster="d"))
    everyone = table.everyone()
    assert everyone.clusters == {"c": ("a", "b"), "d": ("x",)}
    assert everyone.brokers["a"].addresses == {1: "a.1:10911"}


class Comings(RuleBasedStateMachine):
    """Whatever brokers do, the parts of the table agree."""

    def __init__(self) -> None:
        super().__init__()
        self.table = route_table()

    @rule(
        name=st.sampled_from("ab"),
        number=st.integers(0, 2),
        port=st.integers(1, 3),
        cluster=st.sampled_from("cd"),
        state=st.integers(0, 2),
        acting=st.sampled_from([None, False, True]),
        has=st.sets(st.sampled_from("tuvw")),
    )
    def register(
        self,
        name: str,
        number: int,
        port: int,
        cluster: str,
        state: int,
        acting: bool | None,
        has: set[str],
    ) -> None:
        announcement = told(
            name,
            number,
            f"h:{port}",
            cluster=cluster,
            version=DataVersion(state_version=state),
            acting_leader=acting,
            has=topics(*has),
        )
        try:
            outcome = self.table.register(announcement)
        except RegistrationRefused:
            return
        member = self.table.member(f"h:{port}")
        assert (member is not None) == outcome.taken
        if member is not None:
            assert (member.name, member.broker_id) == (name, number)

    @rule(port=st.integers(1, 3))
    def unregister(self, port: int) -> None:
        self.table.unregister(f"h:{port}")
        assert self.table.member(f"h:{port}") is None

    @invariant()
    def every_route_leads_to_a_broker(self) -> None:
        for topic in self.table.topics():
            route = self.table.route(topic)
            assert route is not None
            assert all(broker.addresses for broker in route.brokers)
        everyone = self.table.everyone()
        listed = sorted(
            address for broker in everyone.brokers.values() for address in broker.addresses.values()
        )
        assert listed == sorted(self.table._members)
        assert set(everyone.brokers) == {name for on in everyone.clusters.values() for name in on}
        queues = self.table._queues
        assert queues.count == sum(len(queues.of(topic)) for topic in queues.topics())


Comings.TestCase.settings = hypothesis_settings(max_examples=60, deadline=None)
TestComings = Comings.TestCase
