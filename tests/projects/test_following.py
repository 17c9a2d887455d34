"""When a pipeline runs again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.pipeline.session import SparkPlace
from rocketpipe.projects import following
from rocketpipe.projects.errors import NotWritable, ServerFailed
from rocketpipe.projects.folder import Folder
from rocketpipe.projects.following import ends_read, follow, has_grown
from rocketpipe.projects.records import Run


def test_it_runs_again_when_a_queue_has_more_than_the_flow_that_is_behind_has_read() -> None:
    run = Run.new("shop", 0)
    for name, end in (("a", 5), ("b", 3)):
        run.take_progress(
            {
                "name": name,
                "sources": [
                    {
                        "numInputRows": 1,
                        "endOffset": f'{{"v": 1, "topics": {{"t": {{"x": {{"0": {end}}}}}}}}}',
                    }
                ],
            }
        )
    read = ends_read(run, {})
    queue = ("t", "x", "0")
    assert read == {queue: 3}
    assert has_grown(read, {queue: (0, 5)})
    assert not has_grown(read, {queue: (0, 3)})
    assert has_grown(read, {queue: (0, 2)})  # it was made anew, and whoever reads it says so
    assert not has_grown(read, {queue: (4, 4)})  # what was behind has aged out
    assert has_grown(read, {queue: (0, 3), ("t", "x", "1"): (0, 1)})
    assert not has_grown(read, {("t", "y", "0"): (7, 7)})
    seen = {queue: (0, 9), ("letters", "x", "0"): (0, 4)}  # a view reads the letters whole
    assert ends_read(run, seen) == {queue: 3, ("letters", "x", "0"): 4}


def test_what_fails_on_the_way_is_told_and_waited_for_longer_and_longer(
    shop: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(28, "No space left on device")
    fails: list[BaseException | None] = [
        NotWritable(Path("runs"), full),
        full,
        ServerFailed("Spark did not start (No space left on device)"),
        None,
        ServerFailed("Spark died"),
        KeyboardInterrupt(),
    ]
    rests: list[float] = []
    said: list[str] = []

    @contextmanager
    def started(*given: object) -> Iterator[None]:
        yield

    def passes(shop: object, name_servers: str, *, done: Any, **more: Any) -> None:
        error = fails.pop(0)
        if error is None:  # there is room
            done(Run.new("shop", 0))
            error = ServerFailed("Spark died")
        raise error

    monkeypatch.setattr(following, "workshop", started)
    monkeypatch.setattr(following, "_passes", passes)
    monkeypatch.setattr(following.time, "sleep", rests.append)
    how: Any = {"every_s": 1, "watch": lambda run: None, "done": lambda run: None}
    with pytest.raises(KeyboardInterrupt):
        follow(shop, SparkPlace(), "127.0.0.1:1", say=said.append, **how)
    assert rests == [5, 10, 20, 5, 10]
    assert "No space left on device" in said[0]
    fails[:] = [BrokenPipeError()]  # whoever read us has had enough
    with pytest.raises(BrokenPipeError):
        follow(shop, SparkPlace(), "127.0.0.1:1", say=said.append, **how)
    fails[:] = [ServerFailed("Spark did not start")]
    with pytest.raises(ServerFailed):
        follow(shop, SparkPlace(), "127.0.0.1:1", say=said.append, **how)
