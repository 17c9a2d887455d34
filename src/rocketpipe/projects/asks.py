"""What a run is to do beyond what is new, and what of that has been begun and not ended.

A backfill is kept, in ``backfill.json`` of the pipeline's own directory, from before anything is
changed until its flows have run to their end: whoever kills it leaves it to the next run, which
would else read from the flow's own start what was to begin at a time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from rocketpipe.projects.errors import PipelineError
from rocketpipe.projects.folder import Folder

_KEPT: Final = "backfill.json"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Ask:
    """What a run is to do beyond what is new."""

    dry: bool = False
    #: Tables that are emptied first.
    full_refresh: tuple[str, ...] = ()
    #: Flows that begin at a time, in ms since 1970.
    starts: Mapping[str, int] = field(default_factory=dict)
    #: A checkpoint of a sink that is to be there, empty, so that its query is a new one.
    checkpoint: str | None = None


def keep(folder: Folder, ask: Ask) -> None:
    """Have every run do this, too, until it is done.

    Raises:
        PipelineError: If another backfill was begun and has not ended: it would be forgotten.
    """
    begun = with_kept(folder, Ask()).starts
    if begun and begun.keys() != ask.starts.keys():
        raise PipelineError(
            f"a backfill of {', '.join(sorted(begun))} was begun and has not ended: have "
            "`rocketpipe pipeline run` end it first"
        )
    draft = folder.own / f".{_KEPT}"
    kept = {
        "v": _VERSION,
        "full_refresh": list(ask.full_refresh),
        "starts": dict(ask.starts),
        "checkpoint": ask.checkpoint,
    }
    with draft.open("w") as file:
        json.dump(kept, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(folder.own / _KEPT)


def with_kept(folder: Folder, ask: Ask) -> Ask:
    """What a run is asked, with what an earlier one did not bring to its end.

    Raises:
        PipelineError: If what is kept cannot be read.
    """
    try:
        kept = json.loads((folder.own / _KEPT).read_text())
        if kept["v"] != _VERSION:
            raise ValueError(f"it is of version {kept['v']}")
        tables, starts = tuple(map(str, kept["full_refresh"])), dict(kept["starts"])
    except FileNotFoundError:
        return ask
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineError(
            f"{folder.own / _KEPT} says which backfill was begun, and cannot be read ({error}): "
            "remove it, and run `rocketpipe pipeline backfill` again"
        ) from error
    if kept["checkpoint"] is not None:
        Path(kept["checkpoint"]).mkdir(parents=True, exist_ok=True)
    return replace(
        ask,
        full_refresh=tuple(dict.fromkeys((*ask.full_refresh, *tables))),
        starts={**starts, **ask.starts},
    )


def settle(folder: Folder, completed: Iterable[str]) -> None:
    """Forget what is kept, if the flows that it is of are among those that came to their end."""
    place = folder.own / _KEPT
    try:
        starts = json.loads(place.read_text())["starts"]
    except FileNotFoundError:
        return
    if starts.keys() & set(completed):
        place.unlink()


def forget(folder: Folder) -> None:
    """Have runs do nothing but what is new."""
    (folder.own / _KEPT).unlink(missing_ok=True)
