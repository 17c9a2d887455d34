"""A pipeline from the beginning, or a flow from a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rocketpipe.projects import asks, lock, resetting
from rocketpipe.projects.asks import Ask
from rocketpipe.projects.errors import PipelineError, UnknownFlow
from rocketpipe.projects.folder import Folder
from rocketpipe.projects.graph import Dataset, Flow, Graph, Kind

GRAPH = Graph(
    {
        "raw": Dataset("raw", Kind.TEMPORARY),
        "paid": Dataset("paid", Kind.TABLE),
        "cities": Dataset("cities", Kind.VIEW),
        "out": Dataset("out", Kind.SINK, "dear"),
    },
    {
        "raw": Flow("raw", "raw", (), ("orders",)),
        "paid": Flow("paid", "paid", ("raw",)),
        "cities": Flow("cities", "cities", ("paid",)),
        "to_out": Flow("to_out", "out", ("raw",)),
    },
)


def test_a_reset_removes_what_the_pipeline_made_and_nothing_else(shop: Folder) -> None:
    assert resetting.what_goes(shop) == []
    with lock.held(shop):
        for place in ("storage/_checkpoints/x", "storage/tables/y", ".rocketpipe/runs"):
            (shop.root / place).mkdir(parents=True)
        (shop.root / "storage" / "mine").touch()
        assert len(resetting.what_goes(shop)) == 3
        resetting.reset(shop)
    assert [place.name for place in (shop.root / "storage").iterdir()] == ["mine"]
    assert resetting.what_goes(shop) == []
    with lock.held(replace(shop, name="another")):
        pass


def test_storage_that_is_elsewhere_is_not_removed(shop: Folder) -> None:
    with pytest.raises(PipelineError, match="is not on this machine"):
        resetting.what_goes(replace(shop, storage="s3a://lake/shop"))


def asked_after(shop: Folder, flow: Flow) -> Ask:
    """What the run after a backfill is asked to do."""
    with lock.held(shop):
        resetting.backfill(shop, GRAPH, flow, 77)
        return asks.with_kept(shop, Ask())


def test_a_table_is_emptied_and_read_again_through_its_views(shop: Folder) -> None:
    flow = resetting.find_flow(GRAPH, "paid")
    assert asked_after(shop, flow) == Ask(full_refresh=("paid",), starts={"paid": 77, "raw": 77})
    assert "is emptied" in resetting.consequence(GRAPH, flow, "then")


def test_a_sink_gets_a_query_that_is_new(shop: Folder) -> None:
    flow = resetting.find_flow(GRAPH, "to_out")
    below = shop.checkpoints("out", "to_out", is_sink=True)
    assert below is not None
    (below / "0").mkdir(parents=True)
    (below / "10").mkdir()
    assert asked_after(shop, flow) == Ask(starts={"to_out": 77, "raw": 77})
    assert sorted(place.name for place in below.iterdir()) == ["0", "10", "11"]
    assert "sends to out again" in resetting.consequence(GRAPH, flow, "then")


@pytest.mark.parametrize(
    ("name", "said"),
    [("payd", "did you mean 'paid'"), ("zzz", "there are cities, paid"), ("cities", "no topic")],
)
def test_a_flow_that_cannot_be_filled_is_told(name: str, said: str) -> None:
    with pytest.raises(UnknownFlow, match=said):
        resetting.find_flow(GRAPH, name)
