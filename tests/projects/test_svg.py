"""The picture of a pipeline."""

from __future__ import annotations

from xml.etree import ElementTree

from rocketpipe.projects.graph import Dataset, Flow, Graph, Kind
from rocketpipe.projects.svg import draw

GRAPH = Graph(
    {
        "paid": Dataset("paid", Kind.TABLE),
        "cities": Dataset("cities", Kind.VIEW),
        "out": Dataset("out", Kind.SINK, "dear<orders"),
    },
    {
        "paid": Flow("paid", "paid", (), ("orders",)),
        "cities": Flow("cities", "cities", ("paid",)),
        "to_out": Flow("to_out", "out", ("paid",)),
    },
)


def test_it_has_each_part_with_its_rows_and_a_line_for_each_flow() -> None:
    picture = draw(GRAPH, {"paid": 1234, "cities": None}, {"orders": 5678}, frozenset({"out"}))
    root = ElementTree.fromstring(picture)
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == [
        *("orders", "topic · 5,678 messages"),
        *("paid", "table · 1,234 rows"),
        *("cities", "materialized view"),
        *("out", "topic dear<orders"),
    ]
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) == 3
    assert 'class="sink failed"' in picture
    places = {each.get("x") for each in root.iter("{http://www.w3.org/2000/svg}rect")}
    assert len(places) == 3


def test_a_cycle_is_drawn_and_nothing_is_an_empty_picture() -> None:
    graph = Graph()
    graph.add_sql("CREATE MATERIALIZED VIEW a AS SELECT * FROM b;")
    graph.add_sql("CREATE MATERIALIZED VIEW b AS SELECT * FROM a;")
    assert draw(graph, {}, {}).count("<path") == 2
    assert draw(Graph(), {}, {}).startswith("<svg")
