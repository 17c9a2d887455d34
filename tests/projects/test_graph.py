"""The parts of a pipeline, and what comes of what."""

from __future__ import annotations

from rocketpipe.projects.graph import Dataset, Flow, Graph, Kind, read_names

SQL = """
-- CREATE STREAMING TABLE not_this AS SELECT 1 FROM nowhere;
CREATE STREAMING TABLE paid AS SELECT city FROM STREAM(orders) WHERE city != 'a;b FROM c';
CREATE OR REFRESH MATERIALIZED VIEW `cities` PARTITIONED BY (city) AS
  SELECT * FROM shop.paid JOIN towns ON true;
CREATE STREAMING TABLE all_orders;
CREATE FLOW more AS INSERT INTO all_orders BY NAME SELECT * FROM STREAM paid;
"""


def test_statements_of_sql_make_datasets_and_flows() -> None:
    graph = Graph()
    graph.add_sql(SQL)
    assert {name: each.kind for name, each in graph.datasets.items()} == {
        "paid": Kind.TABLE,
        "cities": Kind.VIEW,
        "all_orders": Kind.TABLE,
    }
    assert graph.flows["paid"] == Flow("paid", "paid", ("orders",))
    assert graph.flows["cities"].inputs == ("paid", "towns")
    assert graph.inputs(graph.flows["cities"]) == ("paid",)
    assert graph.flows["more"] == Flow("more", "all_orders", ("paid",))
    assert read_names("SELECT 1 FROM a, b JOIN `x`.c") == ("a", "c")


def test_topics_and_groups_come_through_temporary_views() -> None:
    graph = Graph(
        {
            "raw": Dataset("raw", Kind.TEMPORARY),
            "paid": Dataset("paid", Kind.TABLE),
            "out": Dataset("out", Kind.SINK, "dear"),
        },
        {
            "raw": Flow("raw", "raw", (), ("orders",), "shop-raw"),
            "paid": Flow("paid", "paid", ("raw",)),
            "to_out": Flow("to_out", "out", ("paid",)),
        },
    )
    assert graph.topics_of(graph.flows["paid"]) == ("orders",)
    assert graph.groups_of(graph.flows["paid"]) == ("shop-raw",)
    assert graph.topics_of(graph.flows["to_out"]) == ()
    assert [flow.name for flow in graph.kept_flows()] == ["paid", "to_out"]
    assert (graph.source_topics(), graph.sink_topics()) == (["orders"], ["dear"])
    again = Graph.of_json(graph.to_json())
    assert (again.datasets, again.flows) == (graph.datasets, graph.flows)


def test_what_comes_of_itself_is_found() -> None:
    graph = Graph()
    graph.add_sql("CREATE MATERIALIZED VIEW a AS SELECT * FROM b;")
    assert graph.cycle() == ()
    graph.add_sql("CREATE MATERIALIZED VIEW b AS SELECT * FROM c;")
    graph.add_sql("CREATE MATERIALIZED VIEW c AS SELECT * FROM b;")
    assert graph.cycle() == ("b", "c", "b")
