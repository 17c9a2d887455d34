"""A picture of a pipeline: topics on the left, tables and views, sinks on the right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Final

from rocketpipe.projects.graph import Graph, Kind

_WIDE: Final = 190
_HIGH: Final = 46
_GAP_X: Final = 70
_GAP_Y: Final = 18
_EDGE: Final = 20
_LONGEST: Final = 24
_STYLE: Final = """\
text{font:13px system-ui,sans-serif;fill:#1b1f24}
.kind{font-size:11px;fill:#57606a}
rect{stroke:#57606a;fill:#f6f8fa}
.topic{fill:#ddf4ff}.sink{fill:#dafbe1}.failed{stroke:#cf222e;stroke-width:2}
path{fill:none;stroke:#8c959f}"""


@dataclass(frozen=True, slots=True)
class Node:
    """A box of the picture."""

    key: str
    name: str
    kind: str
    style: str
    rows: int | None = None
    failed: bool = False


def draw(
    graph: Graph,
    rows: Mapping[str, int | None],
    messages: Mapping[str, int],
    failed: frozenset[str] = frozenset(),
) -> str:
    """The picture as SVG; ``rows`` are of tables, ``messages`` of topics, where they are known."""
    nodes, edges = _parts(graph, rows, messages, failed)
    layers = _layers(nodes, edges)
    columns: dict[int, list[Node]] = {}
    for node in nodes.values():
        columns.setdefault(layers[node.key], []).append(node)
    places = {
        node.key: (
            _EDGE + column * (_WIDE + _GAP_X),
            _EDGE + row * (_HIGH + _GAP_Y),
        )
        for column, listed in columns.items()
        for row, node in enumerate(listed)
    }
    wide = 2 * _EDGE + max(columns, default=0) * (_WIDE + _GAP_X) + _WIDE
    high = 2 * _EDGE + max((len(each) for each in columns.values()), default=1) * (_HIGH + _GAP_Y)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" '
        f'width="{wide}" height="{high}">',
        f"<style>{_STYLE}</style>",
    ]
    for begin, end in edges:
        (x1, y1), (x2, y2) = places[begin], places[end]
        x1, y1, y2 = x1 + _WIDE, y1 + _HIGH // 2, y2 + _HIGH // 2
        bend = (x1 + x2) // 2
        lines.append(f'<path d="M{x1} {y1} C{bend} {y1} {bend} {y2} {x2} {y2}"/>')
    for node in nodes.values():
        lines.extend(_box(node, *places[node.key]))
    return "\n".join([*lines, "</svg>", ""])


def _box(node: Node, x: int, y: int) -> list[str]:
    name = node.name if len(node.name) <= _LONGEST else f"{node.name[: _LONGEST - 1]}…"
    count = "" if node.rows is None else f" · {node.rows:,} {_unit(node)}"
    style = f"{node.style} failed" if node.failed else node.style
    return [
        f'<g><title>{escape(node.name)}</title><rect class="{style}" x="{x}" y="{y}" rx="6" '
        f'width="{_WIDE}" height="{_HIGH}"/>',
        f'<text x="{x + 10}" y="{y + 20}">{escape(name)}</text>',
        f'<text class="kind" x="{x + 10}" y="{y + 36}">{escape(node.kind + count)}</text></g>',
    ]


def _unit(node: Node) -> str:
    return "messages" if node.style in ("topic", "sink") else "rows"


def _parts(
    graph: Graph,
    rows: Mapping[str, int | None],
    messages: Mapping[str, int],
    failed: frozenset[str],
) -> tuple[dict[str, Node], list[tuple[str, str]]]:
    nodes: dict[str, Node] = {}
    edges: dict[tuple[str, str], None] = {}
    for topic in graph.source_topics():
        nodes[f"topic {topic}"] = Node(
            f"topic {topic}", topic, "topic", "topic", messages.get(topic)
        )
    for each in graph.datasets.values():
        is_sink = each.kind is Kind.SINK
        kind = (
            f"topic {each.topic}"
            if each.topic and each.topic != each.name
            else ("topic" if each.topic else str(each.kind))
        )
        known = messages.get(each.topic) if each.topic else rows.get(each.name)
        style = "sink" if is_sink else "table"
        nodes[each.name] = Node(each.name, each.name, kind, style, known, each.name in failed)
    for flow in graph.flows.values():
        if flow.target not in nodes:
            continue
        for topic in flow.topics:
            edges[(f"topic {topic}", flow.target)] = None
        for name in graph.inputs(flow):
            if name != flow.target:
                edges[(name, flow.target)] = None
    return nodes, list(edges)


def _layers(nodes: Mapping[str, Node], edges: list[tuple[str, str]]) -> dict[str, int]:
    """How far right each box is: behind everything that it comes of."""
    layers = dict.fromkeys(nodes, 0)
    for _ in nodes:  # as often as the longest path can be, also if there is a cycle
        changed = False
        for begin, end in edges:
            if layers[end] <= layers[begin] and layers[begin] + 1 < len(nodes):
                layers[end] = layers[begin] + 1
                changed = True
        if not changed:
            break
    return layers
