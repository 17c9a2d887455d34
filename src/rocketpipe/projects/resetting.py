"""A pipeline, or one of its flows, from the beginning or from a time."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from rocketpipe.model.misnomers import meant_by
from rocketpipe.projects import asks, lock
from rocketpipe.projects.asks import Ask
from rocketpipe.projects.errors import PipelineError, UnknownFlow
from rocketpipe.projects.folder import Folder
from rocketpipe.projects.graph import Flow, Graph, Kind

_OF_STORAGE: Final = ("_checkpoints", "tables")
_RUNS: Final = "runs"


def what_goes(folder: Folder) -> list[Path]:
    """What a reset removes.

    Raises:
        PipelineError: If the storage is not on this machine.
    """
    storage = folder.local_storage
    if storage is None:
        raise PipelineError(
            f"{folder.storage} is not on this machine: remove _checkpoints and tables there, and "
            f"{folder.own} here"
        )
    places = [storage / name for name in _OF_STORAGE] + [folder.catalogue, folder.own / _RUNS]
    return [place for place in places if place.exists()]


def reset(folder: Folder) -> None:
    """Forget how far the pipeline has come, and remove its tables; topics stay as they are.

    A reset that is cut off is finished by the next: checkpoints go first, and tables last.
    """
    for place in what_goes(folder):
        shutil.rmtree(place)
    asks.forget(folder)
    lock.forget_owner(folder)


def find_flow(graph: Graph, name: str) -> Flow:
    """A flow that reads topics.

    Raises:
        UnknownFlow: If there is none of that name, or it reads no topic.
    """
    flows = {flow.name: flow for flow in graph.kept_flows()}
    flow = flows.get(name)
    if flow is None:
        near = meant_by(name, flows)
        hint = f"did you mean {near!r}?" if near else f"there are {', '.join(sorted(flows))}"
        raise UnknownFlow(f"there is no flow {name!r}: {hint}")
    if not graph.topics_of(flow):
        above = sorted(each.name for each in flows.values() if graph.topics_of(each))
        raise UnknownFlow(
            f"flow {name} reads no topic, so no time can be told it: backfill one that does "
            f"({', '.join(above) or 'there is none'})"
        )
    return flow


def consequence(graph: Graph, flow: Flow, since: str | None) -> str:
    """What a backfill does, for people to agree to."""
    if graph.kind_of(flow.target) is Kind.SINK:
        return f"flow {flow.name} sends to {flow.target} again what came since {since}"
    return f"table {flow.target} is emptied, and filled with what came since {since}"


def backfill(folder: Folder, graph: Graph, flow: Flow, from_ms: int) -> None:
    """Have runs read a flow again from a time on, until one has done so.

    A table is emptied first, and then holds what came since. What a sink was sent is out there:
    it is sent again, by a query that is new. Only for who holds the pipeline's lock.

    Raises:
        PipelineError: If the checkpoint is not on this machine.
    """
    readers = {flow.name, *(view for view in flow_views(graph, flow))}
    starts = dict.fromkeys(readers, from_ms)
    if graph.kind_of(flow.target) is not Kind.SINK:
        asks.keep(folder, Ask(full_refresh=(flow.target,), starts=starts))
        return
    checkpoints = folder.checkpoints(flow.target, flow.name, is_sink=True)
    if checkpoints is None:
        raise PipelineError(f"the checkpoints in {folder.storage} are not on this machine")
    numbers = [int(each.name) for each in checkpoints.glob("*") if each.name.isdigit()]
    new = checkpoints / str(max(numbers, default=-1) + 1)
    asks.keep(folder, Ask(starts=starts, checkpoint=str(new)))


def flow_views(graph: Graph, flow: Flow) -> list[str]:
    """The temporary views through which a flow reads topics."""
    found: dict[str, None] = {}
    todo = list(graph.inputs(flow))
    while todo:
        name = todo.pop()
        if name not in found and graph.kind_of(name) is Kind.TEMPORARY:
            found[name] = None
            todo.extend(graph.inputs(graph.flows[name]) if name in graph.flows else ())
    return list(found)
