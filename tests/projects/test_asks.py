"""What a run is to do beyond what is new, kept until it is done."""

from __future__ import annotations

import pytest

from rocketpipe.projects import asks
from rocketpipe.projects.asks import Ask
from rocketpipe.projects.errors import PipelineError
from rocketpipe.projects.folder import Folder


def test_a_backfill_that_is_killed_is_the_next_runs(shop: Folder) -> None:
    shop.own.mkdir(exist_ok=True)
    below = shop.checkpoints("out", "to_out", is_sink=True)
    assert below is not None
    asks.keep(shop, Ask(starts={"to_out": 77, "raw": 77}, checkpoint=str(below / "1")))
    assert not below.exists()  # nothing is half done
    for _ in range(2):
        assert asks.with_kept(shop, Ask()) == Ask(starts={"to_out": 77, "raw": 77})
        asks.settle(shop, ["paid", "cities"])  # of a run that failed elsewhere, or was stopped
    assert [place.name for place in below.iterdir()] == ["1"]
    asks.settle(shop, ["to_out"])
    assert asks.with_kept(shop, Ask(dry=True)) == Ask(dry=True)


def test_a_backfill_that_has_not_ended_is_not_forgotten_for_another(shop: Folder) -> None:
    shop.own.mkdir(exist_ok=True)
    asks.keep(shop, Ask(full_refresh=("paid",), starts={"paid": 1}))
    with pytest.raises(PipelineError, match="a backfill of paid was begun and has not ended"):
        asks.keep(shop, Ask(full_refresh=("cities",), starts={"cities": 2}))
    asks.keep(shop, Ask(full_refresh=("paid",), starts={"paid": 3}))  # the same, from another time
    assert asks.with_kept(shop, Ask()).starts == {"paid": 3}


def test_what_is_kept_and_cannot_be_read_is_told(shop: Folder) -> None:
    shop.own.mkdir(exist_ok=True)
    asks.keep(shop, Ask(full_refresh=("paid",), starts={"paid": 1}))
    assert asks.with_kept(shop, Ask(full_refresh=("all",))).full_refresh == ("all", "paid")
    (shop.own / "backfill.json").write_text("{")
    with pytest.raises(PipelineError, match="says which backfill was begun, and cannot be read"):
        asks.with_kept(shop, Ask())
    asks.forget(shop)
    assert asks.with_kept(shop, Ask()) == Ask()
