"""What a job found, as one HTML file that needs no other: figures, plots and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

    from rocketpipe.jobs.outcome import Outcome

#: So many rows of a table are shown; all of them are in its file.
MOST_ROWS: Final = 200

#: How pages look, on light and on dark paper; `rocketpipe.jobs.plots` has no colours of its own.
STYLE: Final = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1f2430; --quiet: #697084;
  --rule: #dfe3ea; --card: #f6f7fa; --good: #1d7f4f; --bad: #b42318; --mark: #b42318;
  --s0: #2f6fdb; --s1: #d97b16; --s2: #1d9a6c; --s3: #8b54c9; --s4: #697084; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171d; --ink: #e6e9ef; --quiet: #99a1b3;
  --rule: #2e3440; --card: #1c2029; --good: #5cc98f; --bad: #ff8a7a; --mark: #ff8a7a;
  --s0: #77a7ff; --s1: #f2a65a; --s2: #57cfa0; --s3: #c09aef; --s4: #99a1b3; } }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 62rem; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: clamp(1.7rem, 5vw, 2.7rem); line-height: 1.15; letter-spacing: -.02em;
  margin: 0 0 .6rem; text-wrap: balance; } h1.bad { color: var(--bad); }
h2 { font-size: 1.25rem; margin: 3rem 0 .75rem; } .lead { font-size: 1.05rem; max-width: 46rem; }
.tiles { display: grid; grid-template-columns: repeat(4, 1fr); gap: .75rem; margin: 1.75rem 0; }
@media (max-width: 44rem) { .tiles { grid-template-columns: repeat(2, 1fr); } }
.tile { padding: 1rem 1.1rem; border-radius: .75rem;
  background: var(--card); border-top: .25rem solid var(--s0); }
.tile b { display: block; font-size: clamp(1.8rem, 4.5vw, 2.6rem); line-height: 1.15;
  font-variant-numeric: tabular-nums; letter-spacing: -.02em; }
.tile span { font-weight: 600; } .tile small { display: block; color: var(--quiet); }
.tile.good { border-color: var(--good); } .tile.good b { color: var(--good); }
.tile.bad { border-color: var(--bad); } .tile.bad b { color: var(--bad); }
.tile.kill { border-color: var(--mark); }
ul { padding-left: 1.2rem; } .quiet, figcaption { color: var(--quiet); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--rule); text-align: right; }
th.text, td.text { text-align: left; }
@media (max-width: 36rem) { table { font-size: .75rem; } th, td { padding: .3rem .2rem; } }
td small { display: block; color: var(--quiet); } td.none { color: var(--quiet); }
.good { color: var(--good); } .bad { color: var(--bad); }
.wide { overflow-x: auto; }
.checks { list-style: none; padding: 0; }
figure { margin: 0 0 2rem; overflow-x: auto; } figcaption { margin-bottom: .4rem; }
svg { width: 100%; min-width: 40rem; height: auto; display: block; }
svg text { font: 12px system-ui, sans-serif;
  fill: var(--quiet); } .grid { stroke: var(--rule); }
.outage { fill: var(--mark); opacity: .12; }
.mark { stroke: var(--mark); stroke-dasharray: 3 3; } svg text.mark-label { fill: var(--mark); }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; } .bar { fill: var(--s0); }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; margin-bottom: .3rem; }
.key i { display: inline-block; width: 1.1rem; height: .2rem; margin-right: .4rem;
  vertical-align: middle; }
"""
COLOURS: Final = "".join(
    f".line.s{n} {{ stroke: var(--s{n}); }} .point.s{n} {{ fill: var(--s{n}); }} "
    f".key i.s{n} {{ background: var(--s{n}); }}\n"
    for n in range(5)
)


def page(job: str, started: datetime, seconds: float, outcome: Outcome) -> str:
    """The whole page as text."""
    head = f"<h1{'' if outcome.ok else ' class=bad'}>{escape(outcome.headline)}</h1>"
    when = started.strftime("%Y-%m-%d %H:%M:%S UTC")
    sections = [
        head,
        f'<p class="lead">{escape(job)}, {when}, in {seconds:,.1f} s</p>',
        _tiles(outcome.figures),
        *outcome.plots,
        *(part for name, table in outcome.tables.items() for part in _section(name, table)),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(job)}</title><style>{STYLE}{COLOURS}</style></head><body>"
        + "\n".join(sections)
        + "</body></html>\n"
    )


def _tiles(figures: Mapping[str, Any]) -> str:
    tiles = "".join(
        f'<div class="tile"><b>{escape(shown(value))}</b>'
        f"<span>{escape(name.replace('_', ' '))}</span></div>"
        for name, value in figures.items()
    )
    return f'<div class="tiles">{tiles}</div>'


def _section(name: str, table: pa.Table) -> list[str]:
    title = f"<h2>{escape(name.replace('_', ' ').capitalize())}</h2>"
    if not table.num_rows:
        return [title, '<p class="quiet">none</p>']
    rows = table.slice(0, MOST_ROWS).to_pylist()
    texts = {column for column in table.column_names if _is_text(row[column] for row in rows)}
    head = "".join(
        _cell("th", column.replace("_", " "), column in texts) for column in table.column_names
    )
    body = "".join(
        "<tr>" + "".join(_cell("td", shown(row[each]), each in texts) for each in row) + "</tr>"
        for row in rows
    )
    parts = [title, f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>']
    if table.num_rows > MOST_ROWS:
        parts.append(f'<p class="quiet">and {table.num_rows - MOST_ROWS:,} rows more</p>')
    return parts


def _cell(tag: str, text: str, is_text: bool) -> str:
    return f"<{tag}{' class=text' if is_text else ''}>{escape(text)}</{tag}>"


def _is_text(values: Any) -> bool:
    return not all(value is None or isinstance(value, int | float) for value in values)


def shown(value: Any) -> str:
    """A value of a table as people read it; what is not known is a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return ", ".join(map(shown, value))
    return str(value)
