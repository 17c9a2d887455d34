"""A pipeline's topics, as the cluster knows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe import Admin, Producer
from rocketpipe.projects import checking
from rocketpipe.projects.graph import Dataset, Flow, Graph, Kind
from rocketpipe.projects.records import Run
from rocketpipe.projects.topics import ends_of, lag_of, named
from rocketpipe.testing import cluster


def test_names_and_patterns_mean_topics_that_are_there() -> None:
    assert named(["b", "/a.*/", "nothing"], ["ab", "b", "aa", "ba"]) == ["b", "aa", "ab"]
    assert named(["%DLQ%a", "/.*a/"], ["a"], {"a", "%DLQ%a"}) == ["%DLQ%a", "a"]


def test_lag_is_what_lies_behind_the_last_batch() -> None:
    graph = Graph(
        {name: Dataset(name, Kind.TABLE) for name in ("paid", "other", "whole")},
        {
            "paid": Flow("paid", "paid", (), ("orders",), "shop-paid"),
            "other": Flow("other", "other", ("paid",)),
            "whole": Flow("whole", "whole", (), ("orders",)),
        },
    )
    run = Run.new("shop", 0)
    run.take_graph(graph)
    run.flows["paid"].ends = {"orders": {"a": {"0": 5, "1": 2}}}
    ends = {
        ("orders", "a", "0"): (0, 7),
        ("orders", "a", "1"): (4, 6),
        ("orders", "a", "2"): (1, 4),
    }
    assert lag_of(graph, graph.flows["paid"], run, ends) == 2 + 2 + 3
    assert lag_of(graph, graph.flows["paid"], run, {}) is None
    assert lag_of(graph, graph.flows["other"], run, ends) is None
    assert lag_of(graph, graph.flows["whole"], run, ends) is None


@pytest.mark.scenario
async def test_topics_that_are_not_there_are_told_with_the_nearest(tmp_path: Path) -> None:
    graph = Graph(
        {"out": Dataset("out", Kind.SINK, "dear")},
        {
            "a": Flow("a", "a", (), ("ordres", "orders", "/x.*/")),
            "b": Flow("b", "b", (), ("something-else",)),
            "c": Flow("c", "c", (), ("%DLQ%g",)),
        },
    )
    async with cluster(tmp_path) as servers:
        async with Producer(servers.name_server) as producer:
            await producer.send("orders", b"one")
        async with Admin(servers.name_server) as admin:
            await admin.topics.create("%DLQ%g", queues=1)
            assert await ends_of(admin, ["%DLQ%g"]) == {("%DLQ%g", "broker-a", "0"): (0, 0)}
            ends = await ends_of(admin, ["orders", "ordres"])
            found = ["flow a: UnknownTopic: there is no topic 'ordres'"]
            problems, notes = await checking.against_cluster(admin, graph, found)
            again, _ = await checking.against_cluster(admin, Graph(), ["[X] no such column"])
    assert sum(end - least for least, end in ends.values()) == 1
    assert problems == [
        "flow a: there is no topic 'ordres': did you mean 'orders'?",
        "flow a: no topic fits /x.*/",
        "flow b: there is no topic 'something-else': make it with `rocketpipe topic create "
        "something-else`",
    ]
    assert again == ["[X] no such column"]
    (note,) = notes
    assert note.startswith("sink out: topic 'dear' is new")
