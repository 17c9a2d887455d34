"""One command at a time works on a pipeline, and on state that is its own."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rocketpipe.projects.errors import AlreadyRuns, AnotherPipeline, MovedPipeline
from rocketpipe.projects.folder import Folder, directory_at

_LOCK: Final = "lock"
_WHOSE: Final = "pipeline.json"


@contextmanager
def held(folder: Folder, *, of_any_name: bool = False) -> Iterator[None]:
    """Keep others off this pipeline for the length of the block, whatever becomes of us.

    The system lets go of the lock when its holder dies, so none is ever left behind.

    Raises:
        AlreadyRuns: If another command holds it.
        AnotherPipeline: If what is kept here is of a pipeline of another name.
        MovedPipeline: If it was made at another place.
    """
    folder.own.mkdir(parents=True, exist_ok=True)
    with (folder.own / _LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise AlreadyRuns(folder.name, holder(folder)) from error
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        if not of_any_name:
            _check_owner(folder)
        yield


def holder(folder: Folder) -> int | None:
    """The process that works on this pipeline now, if there is one."""
    place = folder.own / _LOCK
    try:
        with place.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = file.read().strip()
                return int(text) if text.isdigit() else None
    except FileNotFoundError:
        pass
    return None


def forget_owner(folder: Folder) -> None:
    """Let a pipeline of another name begin here."""
    (folder.own / _WHOSE).unlink(missing_ok=True)


def _check_owner(folder: Folder) -> None:
    place = folder.own / _WHOSE
    ours = {"v": 1, "name": folder.name, "storage": folder.storage}
    try:
        kept = json.loads(place.read_text())
        theirs = str(kept["name"])
    except FileNotFoundError:
        kept, theirs = ours, folder.name
    except (ValueError, KeyError, TypeError):
        kept, theirs = {}, "an unknown one"
    if theirs != folder.name:
        raise AnotherPipeline(folder.own, theirs, folder.name)
    storage = str(kept.get("storage", folder.storage))  # earlier versions kept the name alone
    is_here = storage == folder.storage or _is_same(storage, folder.storage)
    if not is_here and folder.catalogue.exists():
        raise MovedPipeline(storage, folder.storage)
    if not place.exists() or not is_here or "storage" not in kept:
        draft = place.with_suffix(".draft")
        draft.write_text(json.dumps(ours) + "\n")
        draft.replace(place)  # half of it would be another pipeline's


def _is_same(one: str, other: str) -> bool:
    """Whether two addresses are of one directory, as through a link."""
    places = directory_at(one), directory_at(other)
    if places[0] is None or places[1] is None:
        return False
    try:
        return places[0].samefile(places[1])
    except OSError:
        return False
