"""Searches for garbage that leave out what is there to stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from rocketpipe.cli.serving.collecting import LONG_S, ShortCollections, short_collections


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.enable()
    gc.unfreeze()
    gc.freeze()  # as tests/conftest.py leaves it


def test_nothing_is_searched_until_servers_have_started_and_then_what_is_there_is_left_out() -> (
    None
):
    before = list(gc.callbacks)
    with short_collections() as started:
        assert not gc.isenabled()
        kept = [[number] for number in range(1000)]
        started()
        assert gc.isenabled()
        assert gc.get_freeze_count() > len(kept)
    assert gc.isenabled()
    assert gc.callbacks == before
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize(
    ("generation", "took_s", "frozen"),
    [(2, 2 * LONG_S, True), (2, LONG_S / 2, False), (1, 2 * LONG_S, False)],
)
def test_what_a_long_search_found_alive_is_not_looked_at_again(
    generation: int, took_s: float, frozen: bool
) -> None:
    times = iter((10.0, 10.0 + took_s))
    watch = ShortCollections(lambda: next(times))
    watch("start", {"generation": generation})
    watch("stop", {"generation": generation})
    assert (gc.get_freeze_count() > 0) is frozen


def test_a_server_that_fails_to_start_leaves_everything_as_it_was() -> None:
    with pytest.raises(OSError, match="taken"), short_collections():
        raise OSError("the port is taken")
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
