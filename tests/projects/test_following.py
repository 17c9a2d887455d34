"""When a pipeline runs again."""

from __future__ import annotations

from rocketpipe.projects.following import ends_read, has_grown
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
