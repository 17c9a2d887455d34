"""What is added to definitions on their way to Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("grpc")

from pyspark.sql.connect import proto

from rocketpipe.projects.graph import Dataset, Flow, Kind
from rocketpipe.projects.registry import Registry, group_of


class Sent:
    """Takes commands as a server of Spark Connect does."""

    def __init__(self) -> None:
        self.commands: list[Any] = []

    def execute_command(self, command: Any) -> None:
        self.commands.append(command)


@pytest.fixture
def sent() -> Sent:
    return Sent()


def registry(sent: Sent, **starts: int) -> Registry:
    spark: Any = SimpleNamespace(client=sent)
    return Registry(spark, "g", pipeline="shop", name_servers="a:9876", starts=starts)


def read(
    registry: Registry, flow: str, *, streaming: bool = True, **options: str
) -> dict[str, str]:
    """The options of a read as they reach Spark."""
    command = proto.Command()
    made = command.pipeline_command.define_flow
    made.flow_name = made.target_dataset_name = flow
    source = made.relation_flow_details.relation.project.input.read
    source.is_streaming = streaming
    source.data_source.format = "RocketPipe"
    source.data_source.options.update(options)
    registry._client.execute_command(command)
    return dict(source.data_source.options)


def test_a_read_gets_what_all_reads_of_the_pipeline_share(sent: Sent) -> None:
    ours = registry(sent)
    assert read(ours, "shop.orders", subscribe="orders, more") == {
        "subscribe": "orders, more",
        "nameServer": "a:9876",
        "startingOffsets": "earliest",
        "groupId": "shop-orders",
    }
    assert ours.graph.flows["orders"] == Flow(
        "orders", "orders", (), ("orders", "more"), "shop-orders"
    )
    assert len(sent.commands) == 1


def test_what_a_read_says_itself_stays(sent: Sent) -> None:
    ours = registry(sent)
    given = {
        "SUBSCRIBEPATTERN": "o.*",
        "NameServer": "b:1",
        "groupid": "g",
        "startingTimestamp": "5",
    }
    assert read(ours, "x", **given) == given
    assert ours.graph.flows["x"].topics == ("/o.*/",)
    assert read(ours, "y", subscribe="t", path="/store") == {
        "subscribe": "t",
        "path": "/store",
        "startingOffsets": "earliest",
    }
    assert read(ours, "z", streaming=False, assign='{"t": {"a": [0]}}') == {
        "assign": '{"t": {"a": [0]}}',
        "nameServer": "a:9876",
    }
    assert ours.graph.flows["z"].topics == ("t",)


def test_a_flow_that_is_filled_again_starts_at_its_time(sent: Sent) -> None:
    ours = registry(sent, orders=77)
    found = read(ours, "orders", subscribe="orders", startingoffsets="latest")
    assert found["startingTimestamp"] == "77"
    assert "startingoffsets" not in found


def test_a_sink_is_the_topic_of_its_name_unless_it_says_so(sent: Sent) -> None:
    ours = registry(sent)
    for name, options in (("dear", {}), ("out", {"Topic": "far", "nameserver": "b:1"})):
        command = proto.Command()
        output = command.pipeline_command.define_output
        output.output_name, output.output_type = name, proto.OutputType.SINK
        output.sink_details.format = "rocketpipe"
        output.sink_details.options.update(options)
        ours._client.execute_command(command)
    first, second = (
        dict(each.pipeline_command.define_output.sink_details.options) for each in sent.commands
    )
    assert first == {"topic": "dear", "nameServer": "a:9876"}
    assert second == {"Topic": "far", "nameserver": "b:1"}
    assert ours.graph.datasets["out"] == Dataset("out", Kind.SINK, "far")


def test_sql_is_handed_over_as_it_is_where_it_has_no_rules(sent: Sent) -> None:
    ours = registry(sent)
    text = "CREATE MATERIALIZED VIEW a AS SELECT 1 FROM b;"
    ours.register_sql(text, Path("a.sql"))
    (command,) = sent.commands
    assert command.pipeline_command.define_sql_graph_elements.sql_text == text
    assert ours.graph.kind_of("a") is Kind.VIEW


def test_groups_have_names_that_brokers_take() -> None:
    assert group_of("shop", "to dear.orders") == "shop-to_dear_orders"
    assert len(group_of("s" * 64, "f" * 200)) == 120
