from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.errors import InvalidName
from rocketpipe.model import names

LEGAL = st.text("abcXYZ019_-|", min_size=1, max_size=40)


def _refused(check: Callable[[str], None], name: str) -> InvalidName | None:
    try:
        check(name)
    except InvalidName as error:
        return error
    return None


def test_topics_are_legal_where_apache_5_3_3_takes_them(apache: dict[str, Any]) -> None:
    assert len(apache["legal_topics"]) == 15
    for name, legal in apache["legal_topics"].items():
        # From 5.3.4 on, retry and dead letter topics may have 255 characters.
        if name.startswith(("%RETRY%", "%DLQ%")) and 127 < len(name) <= 255:
            assert not legal
            legal = True
        assert (_refused(names.check_topic, name) is None) == legal, name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "blank"),
        ("  ", "blank"),
        ("a.b", "'.' at 1"),
        ("orders\n", r"'\n' at 6"),
        ("té", "'é' at 1"),
        ("%RETRY%g+t", "'+' at 8"),
        ("x" * 128, "128 characters"),
        ("%RETRY%" + "x" * 249, "256 characters"),
    ],
)
def test_an_illegal_topic_is_refused_with_the_reason(name: str, reason: str) -> None:
    error = _refused(names.check_topic, name)
    assert error is not None
    assert reason in error.reason
    assert error.kind == "topic"


def test_a_very_long_name_makes_no_long_message() -> None:
    error = _refused(names.check_topic, "x" * 1_000_000)
    assert len(str(error)) < 400


@given(st.text(max_size=300))
def test_only_the_known_characters_pass(name: str) -> None:
    if _refused(names.check_topic, name) is None:
        assert set(name) <= set(
            "%|_-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
        )


def test_groups_end_at_120_characters() -> None:
    names.check_group("g" * 120)
    with pytest.raises(InvalidName, match="121 characters, more than 120"):
        names.check_group("g" * 121)


def test_the_default_groups_are_nobodys_own() -> None:
    names.check_group("DEFAULT_PRODUCER")
    with pytest.raises(InvalidName, match="choose your own"):
        names.check_producer_group("DEFAULT_PRODUCER")
    with pytest.raises(InvalidName, match="choose your own"):
        names.check_consumer_group("DEFAULT_CONSUMER")
    names.check_producer_group("DEFAULT_CONSUMER")
    names.check_consumer_group("my_group")


def test_system_topics_are_those_of_apache_5_3_3(apache: dict[str, Any]) -> None:
    assert set(apache["system_topics"]) == names.SYSTEM_TOPICS
    assert set(apache["not_sendable"]) == names.NOT_SENDABLE - {
        names.STAGING_TOPIC,
        names.TABLES_TOPIC,
    }
    assert names.is_system_topic("rmq_sys_anything")
    assert not names.is_system_topic("orders")


def test_topics_that_only_brokers_write_are_not_sendable() -> None:
    for topic in names.NOT_SENDABLE:
        with pytest.raises(InvalidName, match="only brokers"):
            names.check_sendable(topic)
    names.check_sendable("orders")
    names.check_sendable("TBW102")
    with pytest.raises(InvalidName, match="blank"):
        names.check_sendable("")


def test_predefined_and_system_groups_are_told_apart() -> None:
    assert len(names.PREDEFINED_GROUPS) == 14
    assert names.is_predefined_group("TOOLS_CONSUMER")
    assert names.is_predefined_group("CID_RMQ_SYS_TRANS")
    assert not names.is_predefined_group("CID_RMQ_SYS_REVIVE_GROUP")
    assert names.is_system_group("CID_RMQ_SYS_REVIVE_GROUP")
    assert not names.is_system_group("TOOLS_CONSUMER")


def test_derived_names_have_the_wire_form() -> None:
    assert names.retry_topic("g") == "%RETRY%g"
    assert names.dlq_topic("g") == "%DLQ%g"
    assert names.reply_topic("DefaultCluster") == "DefaultCluster_REPLY_TOPIC"
    assert names.revive_topic("c") == "rmq_sys_REVIVE_LOG_c"
    assert names.sync_member_topic("b") == "rmq_sys_SYNC_BROKER_MEMBER_b"
    assert names.pop_retry_topic("t", "g") == "%RETRY%g_t"
    assert names.pop_retry_topic_v2("t", "g") == "%RETRY%g+t"


def test_names_tell_what_they_are() -> None:
    assert names.is_retry_topic("%RETRY%g")
    assert not names.is_retry_topic("RETRY%g")
    assert names.is_dlq_topic("%DLQ%g")
    assert names.is_pop_retry_v2("%RETRY%g+t")
    assert not names.is_pop_retry_v2("%RETRY%g_t")
    assert not names.is_pop_retry_v2("a+b")


@given(LEGAL, LEGAL)
def test_a_pop_retry_topic_leads_back_to_its_topic(topic: str, group: str) -> None:
    assert names.topic_of_pop_retry(names.pop_retry_topic(topic, group), group) == topic
    second = names.pop_retry_topic_v2(topic, group)
    assert names.topic_of_pop_retry(second, group) == topic
    assert names.group_of_retry(second) == group
    assert names.group_of_retry(names.retry_topic(group)) == group


def test_other_topics_stay_as_they_are() -> None:
    assert names.topic_of_pop_retry("orders", "g") == "orders"
    assert names.topic_of_pop_retry("%RETRY%g", "g") == "%RETRY%g"
    assert names.topic_of_pop_retry("%RETRY%other_t", "g") == "%RETRY%other_t"


def test_namespaces_are_wrapped_and_unwrapped_as_by_apache_5_3_3(apache: dict[str, Any]) -> None:
    assert len(apache["namespaces"]) == 84
    for case in apache["namespaces"]:
        name, namespace = case["name"], case["namespace"]
        assert names.with_namespace(name, namespace) == case["wrapped"], case
        assert names.without_namespace(name, namespace) == case["without"], case
        assert names.without_any_namespace(name) == case["without_any"], case
        assert names.namespace_of(name) == case["namespace_of"], case


@given(st.sampled_from(["", "%RETRY%", "%DLQ%"]), LEGAL, LEGAL)
def test_wrapping_twice_is_wrapping_once_and_comes_undone(
    prefix: str, bare: str, namespace: str
) -> None:
    wrapped = names.with_namespace(prefix + bare, namespace)
    assert names.with_namespace(wrapped, namespace) == wrapped
    if not names.is_system_topic(wrapped):
        assert names.without_namespace(wrapped, namespace) == prefix + bare


@pytest.mark.parametrize(
    "name", ["broker-a", "h.example.org", "DefaultCluster", "a%b|c_1", "x" * 127]
)
def test_brokers_and_clusters_may_be_named_like_hosts(name: str) -> None:
    names.check_broker(name)


@pytest.mark.parametrize(
    "name", ["", " ", ".", "..", "../x", "a/b", "a\\b", ".x", "a\nb", "ü", "x" * 128]
)
def test_a_broker_is_not_named_like_a_path(name: str) -> None:
    with pytest.raises(InvalidName, match="cluster"):
        names.check_broker(name, "cluster")
