"""Who may have how many files and connections open."""

from __future__ import annotations

import resource

import pytest

from rocketpipe import descriptors


@pytest.mark.parametrize("limit", [64, 256, 512, 1024, 65_536, 1 << 20])
def test_the_shares_fit_together_and_leave_some(
    monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    shares = descriptors.shares()
    taken = shares.store_files + shares.log_files + shares.connections
    assert min(shares.store_files, shares.log_files, shares.connections) >= 1
    if limit >= 128:
        assert taken <= limit - 40


def test_without_a_limit_there_is_plenty(monkeypatch: pytest.MonkeyPatch) -> None:
    infinite = resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda _: (infinite, infinite))
    assert descriptors.shares().connections > 100_000


def test_the_limit_is_raised_as_far_as_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [256, 4096]

    def change(_: int, wanted: tuple[int, int]) -> None:
        now[:] = wanted

    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(now))
    monkeypatch.setattr(resource, "setrlimit", change)
    assert descriptors.raise_limit() == 4096
    assert now == [4096, 4096]


def test_a_limit_that_cannot_be_raised_is_lived_with(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int, wanted: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert descriptors.raise_limit() == 256
