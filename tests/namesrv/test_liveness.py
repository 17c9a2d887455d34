"""Who stopped beating."""

from __future__ import annotations

from rocketpipe.namesrv.liveness import DEFAULT_TIMEOUT_MS, LONGEST_TIMEOUT_MS, Liveness


def silent(alive: Liveness[str], now_ms: int) -> list[str]:
    return [found.address for found in alive.take_silent(now_ms)]


def test_a_broker_may_be_silent_for_two_minutes_and_no_longer() -> None:
    alive: Liveness[str] = Liveness()
    alive.registered("h:1", "peer", None, 0)
    assert silent(alive, DEFAULT_TIMEOUT_MS) == []
    assert silent(alive, DEFAULT_TIMEOUT_MS + 1) == ["h:1"]
    assert len(alive) == 0


def test_its_own_timeout_counts() -> None:
    alive: Liveness[str] = Liveness()
    alive.registered("h:1", "peer", 10_000, 0)
    alive.registered("h:2", "peer", 20_000, 0)
    assert silent(alive, 10_001) == ["h:1"]
    assert silent(alive, 20_001) == ["h:2"]


def test_a_timeout_out_of_all_reason_is_bounded() -> None:
    alive: Liveness[str] = Liveness()
    alive.registered("h:1", "peer", -5, 0)
    alive.registered("h:2", "peer", 1 << 62, 0)
    assert silent(alive, 1) == []
    assert silent(alive, 2) == ["h:1"]
    assert silent(alive, LONGEST_TIMEOUT_MS + 1) == ["h:2"]


def test_a_beat_begins_the_time_anew_and_watches_no_stranger() -> None:
    alive: Liveness[str] = Liveness()
    alive.registered("h:1", "peer", 1000, 0)
    alive.beat("h:1", 900)
    alive.beat("stranger:1", 900)
    assert silent(alive, 1900) == []
    (found,) = alive.take_silent(1901)
    assert (found.address, found.silent_ms, found.peer) == ("h:1", 1001, "peer")


def test_a_lost_connection_takes_the_brokers_that_registered_on_it_last() -> None:
    alive: Liveness[str] = Liveness()
    alive.registered("h:1", "first", None, 0)
    alive.registered("h:2", "first", None, 0)
    alive.registered("h:1", "second", None, 0)
    assert alive.take_lost("first") == ["h:2"]
    assert alive.take_lost("first") == []
    assert alive.take_lost("second") == ["h:1"]


def test_who_is_forgotten_is_neither_silent_nor_lost() -> None:
    alive: Liveness[str] = Liveness()
    alive.registered("h:1", "peer", 1, 0)
    alive.forget("h:1")
    alive.forget("h:1")
    assert silent(alive, 1000) == []
    assert alive.take_lost("peer") == []
    assert alive._by_peer == {}
