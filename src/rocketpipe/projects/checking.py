"""What is wrong with a pipeline, found before anything runs: a line for each."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rocketpipe.client.admin.admin import Admin
from rocketpipe.projects import topics
from rocketpipe.projects.asks import Ask
from rocketpipe.projects.errors import BadSpec
from rocketpipe.projects.folder import Folder
from rocketpipe.projects.graph import Graph
from rocketpipe.projects.records import Run
from rocketpipe.projects.running import Workshop

_DEFINITIONS: Final = (".py", ".sql")


def files_of(folder: Folder) -> list[Path]:
    """The files of definitions that the spec names.

    Raises:
        BadSpec: If the spec names no file that is there.
    """
    found: dict[Path, None] = {}
    for pattern in folder.libraries:
        whole = f"{pattern}/*" if pattern.endswith("/**") else pattern
        for file in sorted(folder.root.glob(whole)):
            if file.is_file() and "__pycache__" not in file.parts:
                found[file] = None
    if not found:
        raise BadSpec(folder.spec, "libraries: no file of definitions is there")
    return list(found)


def quick(folder: Folder) -> list[str]:
    """What shows without Spark: files that are none, or no Python.

    Raises:
        BadSpec: If the spec names no file that is there.
    """
    problems = []
    if ";" in str(folder.catalogue):
        problems.append(f"{folder.root}: Spark's catalogue can have no ';' in its path: rename it")
    for file in files_of(folder):
        name = file.relative_to(folder.root)
        if file.suffix not in _DEFINITIONS:
            problems.append(f"{name}: definitions are .py and .sql files: move it elsewhere")
        elif file.suffix == ".py":
            try:
                ast.parse(file.read_text(encoding="utf-8"), str(name))
            except SyntaxError as error:
                problems.append(f"{name}:{error.lineno}: {error.msg}")
            except UnicodeDecodeError:
                problems.append(f"{name}: is not UTF-8")
    return problems


def dry_run(shop: Workshop, run: Run) -> tuple[Graph, list[str]]:
    """What Spark makes of the definitions, and what it finds wrong with them.

    Raises:
        ServerFailed: If Spark dies.
    """
    shop.run(Ask(dry=True), run)
    told = [f"flow {flow.name}: {flow.error}" for flow in run.flows.values() if flow.error]
    return run.graph, told or ([run.error] if run.error else [])


async def against_cluster(
    admin: Admin, graph: Graph, found: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Problems and notes on a pipeline, with what Spark found if that is not the same."""
    problems = await topics.unknown(admin, graph)
    notes = await topics.to_be_made(admin, graph)
    if cycle := graph.cycle():
        problems.append(f"a cycle: {' reads '.join(cycle)}: break it with a topic or a table")
        return problems, notes
    known = list(problems)
    problems += [text for text in found if not any(_same(text, problem) for problem in known)]
    return problems, notes


def _same(found: str, problem: str) -> bool:
    """Whether Spark only met an unknown topic that is told already."""
    topic = problem.partition("no topic ")[2].split("'")[1:2]
    return bool(topic) and topic[0] in found and "topic" in found
