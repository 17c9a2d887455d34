"""What a follower is sent is counted by ticks and by seconds."""

from __future__ import annotations

from rocketpipe.broker.replication.leading.traffic import Traffic


def test_each_tick_has_its_share() -> None:
    traffic = Traffic(5_000, most_per_second=1_000, tick_ms=100)
    assert traffic.left == 100
    traffic.sent(70)
    assert traffic.left == 30
    traffic.sent(70)  # one that is waited for is not held back
    assert traffic.left == -40
    traffic.tick(5_100)
    assert traffic.left == 100


def test_the_smallest_share_is_a_byte() -> None:
    assert Traffic(0, most_per_second=1, tick_ms=100).left == 1


def test_a_second_is_told_when_it_is_over() -> None:
    traffic = Traffic(5_000, most_per_second=1_000, tick_ms=100)
    traffic.sent(300)
    traffic.tick(5_999)
    assert traffic.bytes_per_second == 0
    traffic.tick(6_500)
    assert traffic.bytes_per_second == 200
    traffic.tick(7_500)
    assert traffic.bytes_per_second == 0
