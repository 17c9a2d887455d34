"""What definitions say on its way to Spark: completed with what all of a pipeline's topics share.

A read or a sink of format ``rocketpipe`` need not repeat where the NameServers are. A stream that
does not say where it starts starts with the oldest message, and is shown as a consumer group of the
pipeline's name and the flow's. All of it stays Spark's: only options are added.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from pyspark.pipelines.flow import Flow as PipelineFlow
from pyspark.pipelines.output import MaterializedView, StreamingTable, TemporaryView
from pyspark.pipelines.source_code_location import SourceCodeLocation
from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
from pyspark.sql import SparkSession
from pyspark.sql.connect import proto

from rocketpipe.projects.expectations import (
    QUARANTINE,
    Checked,
    kept_rows,
    quarantine_of,
    quarantined_rows,
    rules_of,
    sql_parts,
)
from rocketpipe.projects.graph import Dataset, Flow, Graph, Kind, plain, read_names

FORMAT: Final = "rocketpipe"
LONGEST_GROUP: Final = 120

_STARTS: Final = ("startingoffsets", "startingtimestamp")
_KINDS: Final = {
    proto.OutputType.TABLE: Kind.TABLE,
    proto.OutputType.MATERIALIZED_VIEW: Kind.VIEW,
    proto.OutputType.TEMPORARY_VIEW: Kind.TEMPORARY,
    proto.OutputType.SINK: Kind.SINK,
}


class Registry(SparkConnectGraphElementRegistry):
    """Hands definitions to Spark, and remembers what they make."""

    def __init__(
        self,
        spark: SparkSession,
        graph_id: str,
        *,
        pipeline: str,
        name_servers: str | None,
        starts: Mapping[str, int],
    ) -> None:
        """``starts`` has flows that are to begin at a time, in ms since 1970."""
        super().__init__(spark, graph_id)
        self._client = _Completing(self._client, self._complete)
        self._pipeline = pipeline
        self._name_servers = name_servers
        self._flow_starts = dict(starts)
        self.graph = Graph()

    def register_flow(self, flow: PipelineFlow) -> None:
        """Hand a flow over, and one for its rows in quarantine if it has such rules."""
        rules, rows = rules_of(flow.func)
        super().register_flow(flow)
        if any(rule.action == QUARANTINE for rule in rules):
            self._add_quarantine(flow, lambda: quarantined_rows(rows(), rules))

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        """Hand a file of SQL over; statements with rules read through views that have them."""
        plain_sql, checked = sql_parts(sql_text)
        for statement in checked:
            self._add_checked(statement, file_path)
            plain_sql += f";\n{statement.head} {_selecting(statement)}"
        if plain_sql.strip(" ;\n"):
            self.graph.add_sql(plain_sql)
            super().register_sql(plain_sql, file_path)

    def _add_checked(self, statement: Checked, file: Path) -> None:
        """A view of the query without its rules, and one with them, beside which bad rows go."""
        name = plain(statement.name)
        location = SourceCodeLocation(str(file), None)
        rows, view = _rows_view(name), _checked_view(name)
        text = f"CREATE TEMPORARY VIEW {rows} AS {statement.query}"
        self.graph.add_sql(text)
        super().register_sql(text, file)
        is_stream = _is_stream(statement)
        spark = self._spark

        def query() -> Any:
            return spark.readStream.table(rows) if is_stream else spark.read.table(rows)

        checked = PipelineFlow(
            name=view,
            target=view,
            spark_conf={},
            source_code_location=location,
            func=lambda: kept_rows(query(), statement.rules),
        )
        self.register_output(TemporaryView(name=view, comment=None, source_code_location=location))
        super().register_flow(checked)
        if any(rule.action == QUARANTINE for rule in statement.rules):
            named = replace(checked, target=name)
            self._add_quarantine(named, lambda: quarantined_rows(query(), statement.rules))

    def _add_quarantine(self, flow: PipelineFlow, rows: Callable[[], Any]) -> None:
        name = quarantine_of(plain(flow.target))
        place = flow.source_code_location
        kind: Any = StreamingTable
        if self.graph.kind_of(plain(flow.target)) is Kind.VIEW:
            kind = MaterializedView
        self.register_output(
            kind(
                name=name,
                comment=f"rows that break rules of {plain(flow.target)}",
                source_code_location=place,
                table_properties={},
                partition_cols=None,
                cluster_by=None,
                schema=None,
                format=None,
            )
        )
        super().register_flow(
            PipelineFlow(
                name=name, target=name, spark_conf={}, source_code_location=place, func=rows
            )
        )

    def _complete(self, command: Any) -> None:
        asked = command.pipeline_command
        which = asked.WhichOneof("command_type")
        if which == "define_output":
            self._complete_output(asked.define_output)
        elif which == "define_flow":
            self._complete_flow(asked.define_flow)

    def _complete_output(self, output: Any) -> None:
        name, topic = plain(output.output_name), None
        kind = _KINDS.get(output.output_type, Kind.TABLE)
        if kind is Kind.SINK and output.sink_details.format.lower() == FORMAT:
            options = output.sink_details.options
            self._add(options, "nameServer", self._name_servers)
            self._add(options, "topic", name)
            topic = _option(options, "topic")
        self.graph.datasets[name] = Dataset(name, kind, topic)

    def _complete_flow(self, flow: Any) -> None:
        name = plain(flow.flow_name)
        inputs: dict[str, None] = {}
        topics: dict[str, None] = {}
        group: str | None = None
        for part in _parts(flow):
            match part.DESCRIPTOR.full_name:
                case "spark.connect.Read.NamedTable":
                    inputs[plain(part.unparsed_identifier)] = None
                case "spark.connect.SQL":
                    inputs |= dict.fromkeys(read_names(part.query))
                case "spark.connect.Read" if part.data_source.format.lower() == FORMAT:
                    group = self._complete_read(name, part) or group
                    topics |= dict.fromkeys(_topics(part.data_source.options))
        if flow.WhichOneof("details") == "auto_cdc_flow_details":
            inputs[plain(flow.auto_cdc_flow_details.source)] = None
        target = plain(flow.target_dataset_name)
        self.graph.flows[name] = Flow(name, target, tuple(inputs), tuple(topics), group)

    def _complete_read(self, flow: str, read: Any) -> str | None:
        options = read.data_source.options
        if _option(options, "path") is None:
            self._add(options, "nameServer", self._name_servers)
        if not read.is_streaming:
            return None
        if flow in self._flow_starts:
            for name in [each for each in options if each.lower() in _STARTS]:
                del options[name]
            options["startingTimestamp"] = str(self._flow_starts[flow])
        elif not any(name.lower() in _STARTS for name in options):
            options["startingOffsets"] = "earliest"
        if _option(options, "path") is None:
            self._add(options, "groupId", group_of(self._pipeline, flow))
        return _option(options, "groupId")

    @staticmethod
    def _add(options: MutableMapping[str, str], name: str, value: str | None) -> None:
        if value is not None and _option(options, name) is None:
            options[name] = value


def group_of(pipeline: str, flow: str) -> str:
    """The consumer group whose progress a flow's is shown as."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", f"{pipeline}-{flow}")[:LONGEST_GROUP]


def _rows_view(name: str) -> str:
    return f"{name}_all_rows"


def _checked_view(name: str) -> str:
    return f"{name}_kept_rows"


def _is_stream(statement: Checked) -> bool:
    return re.search(r"\bSTREAMING\s+TABLE\b", statement.head, re.IGNORECASE) is not None


def _selecting(statement: Checked) -> str:
    view = _checked_view(plain(statement.name))
    return f"SELECT * FROM {f'STREAM({view})' if _is_stream(statement) else view}"  # noqa: S608 - a name


class _Completing:
    """A Connect client that looks at commands before it sends them."""

    def __init__(self, client: Any, complete: Any) -> None:
        self._client = client
        self._complete = complete

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def execute_command(self, command: Any, *rest: Any, **more: Any) -> Any:
        self._complete(command)
        return self._client.execute_command(command, *rest, **more)


def _parts(message: Any) -> Iterator[Any]:
    """A message of Spark Connect, and all messages within it."""
    yield message
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        if descriptor.message_type.GetOptions().map_entry:
            values = [each for each in value.values() if hasattr(each, "ListFields")]
        elif hasattr(value, "ListFields"):
            values = [value]
        else:
            values = list(value)
        for each in values:
            yield from _parts(each)


def _option(options: Mapping[str, str], name: str) -> str | None:
    return {key.lower(): value for key, value in options.items()}.get(name.lower())


def _topics(options: Mapping[str, str]) -> list[str]:
    if listed := _option(options, "subscribe"):
        return [name.strip() for name in listed.split(",") if name.strip()]
    if pattern := _option(options, "subscribePattern"):
        return [f"/{pattern}/"]
    if queues := _option(options, "assign"):
        try:
            return list(cast("dict[str, Any]", json.loads(queues)))
        except ValueError:
            return []
    return []
