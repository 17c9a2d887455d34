"""Which peers take too long."""

from __future__ import annotations

from dataclasses import dataclass, field

from rocketpipe.remoting.peer_timeouts import PeerTimeouts, Watch


@dataclass(eq=False)
class Peer:
    reads: int = 0
    frames: int = 0
    is_slow: bool = False
    buffered_bytes: int = 0
    answering: list[object] = field(default_factory=list)


def looks(watch: Watch, peer: Peer, *moments_ms: int) -> list[str | None]:
    return [watch.overdue(peer, moment_ms) for moment_ms in moments_ms]


def test_a_peer_that_sends_no_request_goes_soon() -> None:
    watch, peer = Watch(PeerTimeouts()), Peer()
    assert looks(watch, peer, 0, 9_999) == [None, None]
    peer.reads, peer.buffered_bytes = 9, 9  # a byte a second is no request
    assert looks(watch, peer, 10_000) == ["it sent no request within 10000 ms"]


def test_a_peer_that_trickles_a_request_goes() -> None:
    watch, peer = Watch(PeerTimeouts()), Peer(reads=1, frames=1)
    assert looks(watch, peer, 0) == [None]
    moment_ms = 0
    for moment_ms in range(1000, 40_000, 1000):
        peer.reads += 1
        peer.buffered_bytes += 1
        reason = watch.overdue(peer, moment_ms)
        if reason is not None:
            break
    assert moment_ms == 31_000
    assert reason == "31 bytes of a request within 30000 ms"


def test_a_large_request_on_a_narrow_line_may_take_its_time() -> None:
    watch, peer = Watch(PeerTimeouts()), Peer(reads=1, frames=1)
    for moment_ms in range(0, 600_000, 1000):
        peer.reads += 1
        peer.buffered_bytes += 5000
        assert watch.overdue(peer, moment_ms) is None


def test_the_time_for_a_request_starts_with_each_request() -> None:
    watch, peer = Watch(PeerTimeouts()), Peer(reads=1, frames=1)
    for moment_ms in range(0, 600_000, 1000):
        peer.reads += 1
        peer.frames += 1
        peer.buffered_bytes = 3  # the start of the next one
        assert watch.overdue(peer, moment_ms) is None


def test_a_peer_that_does_not_take_its_answers_goes() -> None:
    watch, peer = Watch(PeerTimeouts(slow_reader_ms=5000)), Peer(reads=1, frames=1, is_slow=True)
    assert looks(watch, peer, 0, 4999) == [None, None]
    peer.is_slow = False
    assert looks(watch, peer, 6000) == [None]
    peer.is_slow = True
    assert looks(watch, peer, 7000, 11_999) == [None, None]
    assert looks(watch, peer, 12_000) == ["it did not take its answers for 5000 ms"]


def test_a_silent_peer_goes_unless_it_waits_for_an_answer() -> None:
    watch, peer = Watch(PeerTimeouts()), Peer(reads=1, frames=1)
    peer.answering.append("a pull that waits")
    assert looks(watch, peer, 0, 119_000, 240_000) == [None, None, None]
    peer.answering.clear()
    assert looks(watch, peer, 359_999) == [None]
    assert looks(watch, peer, 360_000) == ["it was silent for 120000 ms"]
    peer.reads += 1
    assert looks(watch, peer, 361_000) == [None]
