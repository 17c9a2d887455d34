"""What a pipeline consists of: topics, tables, views and sinks, and the flows between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

# What a statement may say before the name of what it makes, or adds to.
_MAKES: Final = re.compile(
    r"CREATE\s+(?:OR\s+REFRESH\s+)?(?P<kind>STREAMING\s+TABLE|MATERIALIZED\s+VIEW|TEMPORARY\s+VIEW"
    r"|FLOW)\s+(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>[`\w.-]+)",
    re.IGNORECASE,
)
_INTO: Final = re.compile(r"\bINSERT\s+INTO\s+(?P<name>[`\w.-]+)", re.IGNORECASE)
_FROM: Final = re.compile(
    r"\b(?:FROM|JOIN)\s+(?:STREAM\s*\(\s*|STREAM\s+)?(?P<name>[`\w][`\w.-]*)", re.IGNORECASE
)
_NOT_CODE: Final = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'", re.DOTALL)


class Kind(StrEnum):
    """What a part of a pipeline is."""

    TABLE = "table"
    VIEW = "materialized view"
    TEMPORARY = "temporary view"
    SINK = "sink"


_KINDS: Final = {
    "STREAMING TABLE": Kind.TABLE,
    "MATERIALIZED VIEW": Kind.VIEW,
    "TEMPORARY VIEW": Kind.TEMPORARY,
}


@dataclass(frozen=True, slots=True)
class Dataset:
    """A table, view or sink; of a sink that is a topic, the topic."""

    name: str
    kind: Kind
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class Flow:
    """A query whose rows go into a dataset."""

    name: str
    target: str
    inputs: tuple[str, ...] = ()
    #: Topics it reads itself, and patterns of their names.
    topics: tuple[str, ...] = ()
    #: In whose name it reads them.
    group: str | None = None


@dataclass(slots=True)
class Graph:
    """All parts of a pipeline, by name."""

    datasets: dict[str, Dataset] = field(default_factory=dict)
    flows: dict[str, Flow] = field(default_factory=dict)

    def add_sql(self, text: str) -> None:
        """Add what the statements of a file of definitions make."""
        for statement in statements(text):
            made = _MAKES.search(statement)
            if made is None:
                continue
            name, kind = plain(made["name"]), " ".join(made["kind"].upper().split())
            body = statement[made.end() :]
            inputs = tuple(dict.fromkeys(plain(each["name"]) for each in _FROM.finditer(body)))
            target = name
            if kind == "FLOW":
                into = _INTO.search(body)
                target = plain(into["name"]) if into else name
            else:
                self.datasets[name] = Dataset(name, _KINDS[kind])
                if not inputs:  # a table that flows are added to
                    continue
            self.flows[name] = Flow(name, target, inputs)

    def inputs(self, flow: Flow) -> tuple[str, ...]:
        """The datasets of this pipeline that a flow reads."""
        return tuple(name for name in flow.inputs if name in self.datasets)

    def topics_of(self, flow: Flow) -> tuple[str, ...]:
        """The topics that a flow reads, itself or through temporary views."""
        found = dict.fromkeys(flow.topics)
        for view in self._views_of(flow):
            found |= dict.fromkeys(view.topics)
        return tuple(found)

    def groups_of(self, flow: Flow) -> tuple[str, ...]:
        """In whose name a flow reads topics."""
        readers = [flow, *self._views_of(flow)]
        return tuple(dict.fromkeys(each.group for each in readers if each.group and each.topics))

    def kept_flows(self) -> list[Flow]:
        """The flows that run: those of temporary views are parts of others."""
        return [
            flow for flow in self.flows.values() if self.kind_of(flow.target) is not Kind.TEMPORARY
        ]

    def kind_of(self, name: str) -> Kind | None:
        """What a dataset is, if it is one of this pipeline."""
        found = self.datasets.get(name)
        return found.kind if found else None

    def cycle(self) -> tuple[str, ...]:
        """Datasets that come of themselves, in their order; empty if none do."""
        above: dict[str, list[str]] = {}
        for flow in self.flows.values():
            above.setdefault(flow.target, []).extend(self.inputs(flow))
        done: set[str] = set()
        for start in above:
            found = _cycle_from(start, above, [], done)
            if found:
                return found
        return ()

    def source_topics(self) -> list[str]:
        """Every topic that is read."""
        return sorted({topic for flow in self.flows.values() for topic in flow.topics})

    def sink_topics(self) -> list[str]:
        """Every topic that is written."""
        return sorted({each.topic for each in self.datasets.values() if each.topic})

    def to_json(self) -> dict[str, Any]:
        """As a value that can be written down."""
        return {
            "datasets": [asdict(each) for each in self.datasets.values()],
            "flows": [asdict(each) for each in self.flows.values()],
        }

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> Graph:
        """What ``to_json`` gave."""
        datasets = [
            Dataset(each["name"], Kind(each["kind"]), each.get("topic"))
            for each in value.get("datasets", ())
        ]
        flows = [
            Flow(
                each["name"],
                each["target"],
                tuple(each.get("inputs", ())),
                tuple(each.get("topics", ())),
                each.get("group"),
            )
            for each in value.get("flows", ())
        ]
        return cls({each.name: each for each in datasets}, {each.name: each for each in flows})

    def _views_of(self, flow: Flow) -> list[Flow]:
        """The flows of temporary views that a flow reads, and of those that these read."""
        found: dict[str, Flow] = {}
        todo = list(self.inputs(flow))
        while todo:
            name = todo.pop()
            view = self.flows.get(name)
            if name not in found and view and self.kind_of(name) is Kind.TEMPORARY:
                found[name] = view
                todo.extend(self.inputs(view))
        return list(found.values())


def statements(text: str) -> Iterator[str]:
    """The statements of a file of SQL, without comments and with texts emptied."""
    for part in _NOT_CODE.sub(lambda found: "''" if found[0][0] == "'" else " ", text).split(";"):
        if part.strip():
            yield part.strip()


def read_names(query: str) -> tuple[str, ...]:
    """The names that a query of SQL reads from."""
    return tuple(
        dict.fromkeys(
            plain(each["name"]) for part in statements(query) for each in _FROM.finditer(part)
        )
    )


def plain(name: str) -> str:
    """The name of a dataset without its catalogue, database and quotes."""
    return name.replace("`", "").rpartition(".")[2]


def _cycle_from(
    name: str, above: Mapping[str, Sequence[str]], path: list[str], done: set[str]
) -> tuple[str, ...]:
    if name in path:
        return (*path[path.index(name) :], name)
    if name in done:
        return ()
    path.append(name)
    for each in above.get(name, ()):
        found = _cycle_from(each, above, path, done)
        if found:
            return found
    path.pop()
    done.add(name)
    return ()
