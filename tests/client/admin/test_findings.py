"""What a doctor makes of facts, those that are missing included."""

from __future__ import annotations

import pytest

from rocketpipe.client.admin import findings
from rocketpipe.client.admin.findings import Level

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("ratio", "level"),
    [
        ("0.10", Level.OK),
        ("0.75", Level.WARNING),
        ("0.91", Level.PROBLEM),
        (None, Level.UNKNOWN),
        ("-1.0", Level.UNKNOWN),
        ("full", Level.UNKNOWN),
    ],
)
def test_a_disk_is_judged_by_what_brokers_do_at_that_point(ratio: str | None, level: Level) -> None:
    facts = {} if ratio is None else {"commitLogDiskRatio": ratio}
    assert findings.disk("b", facts, {}).level is level


def test_a_broker_that_is_set_to_make_room_later_is_judged_by_that() -> None:
    facts = {"commitLogDiskRatio": "0.80"}
    assert findings.disk("b", facts, {"diskMaxUsedSpaceRatio": "85"}).level is Level.OK
    assert findings.disk("b", facts, {"diskMaxUsedSpaceRatio": "70"}).level is Level.WARNING
    assert findings.disk("b", facts, {"diskSpaceWarningLevelRatio": "80"}).level is Level.PROBLEM


@pytest.mark.parametrize(
    ("ahead_ms", "level", "word"),
    [
        (0, Level.OK, "agrees"),
        (-5_500, Level.OK, "agrees"),
        (8_000, Level.WARNING, "8 s ahead of"),
        (-8_000, Level.WARNING, "7 s behind"),
        (3_600_000, Level.PROBLEM, "3600 s ahead of"),
        (-3_600_000, Level.PROBLEM, "3599 s behind"),
    ],
)
def test_a_clock_is_compared_to_ours(ahead_ms: int, level: Level, word: str) -> None:
    up_s = 90_061  # a day, an hour, a minute and a second
    facts = {
        "bootTimestamp": str(NOW_MS + ahead_ms - up_s * 1000),
        "runtime": "[ 1 days, 1 hours, 1 minutes, 1 seconds ]",
    }
    found = findings.clock_skew("b", facts, NOW_MS, NOW_MS)
    assert (found.level, word in found.detail) == (level, True), found


def test_a_difference_that_a_slow_answer_explains_is_none() -> None:
    facts = {"bootTimestamp": str(NOW_MS), "runtime": "[ 0 days, 0 hours, 0 minutes, 8 seconds ]"}
    assert findings.clock_skew("b", facts, NOW_MS, NOW_MS + 60_000).level is Level.OK
    assert findings.clock_skew("b", facts, NOW_MS, NOW_MS + 1_000).level is Level.WARNING


def test_a_clock_that_is_not_told_is_unknown() -> None:
    facts = {"bootTimestamp": "1", "runtime": "a while"}
    assert findings.clock_skew("b", facts, NOW_MS, NOW_MS).level is Level.UNKNOWN


def test_what_waits_is_counted_and_what_is_late_is_told() -> None:
    facts = {
        "scheduleMessageOffset_1": "3,5",
        "scheduleMessageOffset_2": "0,1",
        "timerReadBehind": "0",
        "timerCongestNum": "7",
    }
    assert findings.delayed("b", facts).detail == "3 by level, 7 by time"
    late = findings.delayed("b", facts | {"timerReadBehind": "90"})
    assert late.level is Level.WARNING
    assert "90 s late" in late.detail
    assert findings.delayed("b", {}).level is Level.UNKNOWN
    partly = findings.delayed("b", {"scheduleMessageOffset_1": "?", "timerReadBehind": "0"})
    assert partly.detail == "unknown by level, unknown by time"


def test_queues_far_behind_the_log_are_told() -> None:
    assert findings.dispatch("b", {"dispatchBehindBytes": "0"}).level is Level.OK
    assert findings.dispatch("b", {"dispatchBehindBytes": str(1 << 30)}).level is Level.WARNING
    assert findings.dispatch("b", {}).level is Level.UNKNOWN


@pytest.mark.parametrize(
    ("records", "files", "level"), [(0, 0, Level.OK), (0, 2, Level.WARNING), (1, 2, Level.PROBLEM)]
)
def test_damage_that_a_broker_met_is_told(records: int, files: int, level: Level) -> None:
    facts = {"damagedRecords": str(records), "damagedFiles": str(files)}
    assert findings.damage("b", facts).level is level
    assert findings.damage("b", {}).level is Level.UNKNOWN


def test_a_broker_that_is_read_only_is_told_with_the_way_back() -> None:
    found = findings.broker_permission("b", {"brokerPermission": "4"})
    assert (found.level, "written" in found.detail) == (Level.WARNING, True)
    assert "--set brokerPermission=6" in (found.remedy or "")
    assert findings.broker_permission("b", {"brokerPermission": "6"}).level is Level.OK
    assert findings.broker_permission("b", None).level is Level.UNKNOWN


def test_versions_are_mixed_the_same_or_not_told() -> None:
    assert findings.versions({"a": "V5", "b": "V5"}).level is Level.OK
    assert findings.versions({"a": "V5", "b": "V4"}).level is Level.WARNING
    assert findings.versions({"a": "V5", "b": None}).level is Level.UNKNOWN


def test_name_servers_agree_or_not() -> None:
    assert findings.agreement("x", {"a": 1, "b": 1}).level is Level.OK
    apart = findings.agreement("x", {"a": 1, "b": 2, "c": 1})
    assert (apart.level, apart.detail) == (Level.PROBLEM, "b and a know it differently")
    assert findings.agreement("x", {"a": 1}).level is Level.UNKNOWN


def test_topics_that_are_closed_are_told_with_where() -> None:
    (fine,) = findings.topic_permissions({"t": {"a": 6, "b": 7}})
    assert fine.level is Level.OK
    partly, nowhere = findings.topic_permissions({"t": {"a": 6, "b": 4}, "u": {"a": 2}})
    assert (partly.what, partly.detail) == ("topic t", "may not be written at b")
    assert (nowhere.what, nowhere.detail) == ("topic u", "may not be read anywhere")
    (only,) = findings.topic_permissions({"t": {"a": 6, "b": 4}, "u": {"a": 2}}, {"b"})
    assert only == nowhere, "it is not t that keeps writers away from b"


def test_members_that_want_different_things_are_a_problem() -> None:
    everything = findings.wants_of([("orders", "TAG", "*"), ("%RETRY%shop", "TAG", "*")])
    paid = findings.wants_of([("orders", "TAG", "paid")])
    apart = findings.subscriptions("shop", {"a": everything, "b": paid})
    assert apart.level is Level.PROBLEM
    assert apart.detail == "a wants orders where *; b wants orders where paid"
    assert findings.subscriptions("shop", {"a": paid, "b": paid}).level is Level.OK
    other: findings.Wants = frozenset({("stock", "TAG", "*")})
    nothing: findings.Wants = frozenset()
    popping = {"a": everything, "b": other, "c": nothing}
    assert findings.subscriptions("shop", popping, pops=True).level is Level.OK
    assert findings.subscriptions("shop", popping).level is Level.PROBLEM
    torn = findings.subscriptions("shop", popping | {"d": paid}, pops=True)
    assert torn.level is Level.PROBLEM
    assert "stock" not in torn.detail
    assert findings.subscriptions("shop", {"a": paid, "b": None}).level is Level.UNKNOWN


@pytest.mark.parametrize(
    ("lag", "members", "level"),
    [
        (0, 0, Level.OK),
        (100, 1, Level.OK),
        (101, 1, Level.WARNING),
        (1, 0, Level.WARNING),
        (None, 2, Level.UNKNOWN),
        (None, None, Level.UNKNOWN),
    ],
)
def test_a_group_keeps_up_or_not(lag: int | None, members: int | None, level: Level) -> None:
    assert findings.group_lag("g", lag, members, 100).level is level


def test_the_lag_of_a_group_that_broadcasts_is_unknown() -> None:
    assert findings.group_lag("g", 0, 2, 100, broadcast=True).level is Level.UNKNOWN


def test_dead_letters_are_told_with_the_way_to_replay_them() -> None:
    found = findings.dead_letters("shop", 3, 1)
    assert found.detail == "3 messages, 1 of them replayed"
    assert "dlq replay shop --all" in (found.remedy or "")
    assert findings.dead_letters("shop", 2000, None).level is Level.WARNING
    assert findings.dead_letters("shop", 3, 3).level is Level.OK
    assert findings.dead_letters("shop", 0, 0).level is Level.OK
    assert findings.dead_letters("shop", None, None).level is Level.UNKNOWN


def test_transactions_are_forgotten_when_they_are_old_or_many() -> None:
    assert findings.transactions([], 10).level is Level.OK
    assert findings.transactions([5_000], 10).level is Level.OK
    assert findings.transactions([findings.OPEN_LONG_MS], 10).level is Level.WARNING
    many = findings.transactions([1] * 10, 10)
    assert (many.level, many.detail.startswith("10 or more")) == (Level.WARNING, True)
    assert findings.transactions(None, 10).level is Level.UNKNOWN


def test_users_are_looked_after_everywhere() -> None:
    (fine,) = findings.users(["root", "ops"], {}, [])
    assert (fine.level, fine.detail) == (Level.OK, "2 are enabled")
    missing = {f"user-{number}": ["broker-b"] for number in range(5)}
    found = list(findings.users(["root"], missing, ["NameServer n"]))
    assert [each.level for each in found] == [
        *[Level.WARNING] * 4,
        Level.UNKNOWN,
        Level.PROBLEM,
    ]
    assert "root alone" in found[0].detail
    assert found[1].detail == "is not known at broker-b"
    assert found[-1].what == "access to NameServer n"
