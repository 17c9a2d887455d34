"""A pipeline's run from its lock to its record, on a Spark that is watched."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from rocketpipe.pipeline.session import SparkPlace
from rocketpipe.projects import asks, records
from rocketpipe.projects.asks import Ask
from rocketpipe.projects.errors import NotWritable, PipelineError, ServerFailed
from rocketpipe.projects.folder import Folder
from rocketpipe.projects.graph import Graph
from rocketpipe.projects.progress import EventLog
from rocketpipe.projects.records import Run
from rocketpipe.projects.server import Server, ending_with_us, serving

#: Python had ten seconds to answer Spark, and the machine was too busy: nothing else is wrong.
BUSY: Final = "connect back"
BUSY_TRIES: Final = 4

Heard = Callable[[Mapping[str, Any]], None]

_TICK_S: Final = 0.5
_RUNNER_LOG: Final = "definitions.log"


def ignore(what: object) -> None:
    """Hear of something, and do nothing."""


@dataclass(slots=True)
class Workshop:
    """A Spark, and the process that hands definitions to it."""

    folder: Folder
    server: Server
    runner: subprocess.Popen[bytes]
    name_servers: str | None
    #: Called about twice a second with what is known.
    watch: Callable[[Run], None]
    log: EventLog | None = None
    #: Called with what queries tell of their batches, as Spark writes it.
    heard: Heard = ignore

    def run(self, ask: Ask, run: Run, *, limit_s: float | None = None) -> Run:
        """Run the pipeline once; what became of it is in the record.

        Raises:
            ServerFailed: If Spark dies, or takes longer than it may.
        """
        deadline = None if limit_s is None else time.monotonic() + limit_s
        for left in reversed(range(BUSY_TRIES)):
            error = self._once(ask, run, deadline)
            if error is None or not left or BUSY not in _all_errors(run, error):
                break
        self._take_progress(run)
        if error is not None:
            failed = [flow.error for flow in run.flows.values() if flow.error]
            run.finish("failed", _now_ms(), failed[0] if failed else error)
        else:
            run.finish("completed", _now_ms())
        return run

    def check_alive(self) -> None:
        """Find out between two runs whether there can be another.

        Raises:
            ServerFailed: If Spark or the process of the definitions has died.
        """
        if not self.server.is_alive or self.runner.poll() is not None:
            raise ServerFailed(self._gone())

    def _once(self, ask: Ask, run: Run, deadline: float | None) -> str | None:
        """What it failed with, if it did."""
        request = {
            "spec": str(self.folder.spec.absolute()),
            "name_servers": self.name_servers,
            "dry": ask.dry,
            "full_refresh": list(ask.full_refresh),
            "starts": dict(ask.starts),
        }
        assert self.runner.stdin is not None
        try:
            self.runner.stdin.write(json.dumps(request).encode() + b"\n")
            self.runner.stdin.flush()
        except BrokenPipeError as error:
            raise ServerFailed(self._gone()) from error
        for event in self._events(run, deadline):
            match event["event"]:
                case "graph":
                    run.take_graph(Graph.of_json(event["graph"]))
                case "message":
                    run.take_message(event["text"])
                case "failed":
                    return str(event["text"])
                case "done":
                    return None
        raise ServerFailed(self._gone())

    def _events(self, run: Run, deadline: float | None) -> Iterator[dict[str, Any]]:
        """Lines of the runner, for as long as it and Spark live and there is time."""
        assert self.runner.stdout is not None
        out = self.runner.stdout.fileno()
        rest = b""
        with selectors.DefaultSelector() as selector:
            selector.register(out, selectors.EVENT_READ)
            while True:
                if selector.select(_TICK_S):
                    data = os.read(out, 1 << 16)
                    if not data:
                        return
                    *lines, rest = (rest + data).split(b"\n")
                    yield from (json.loads(line) for line in lines)
                self._take_progress(run)
                self.watch(run)
                if not self.server.is_alive:
                    raise ServerFailed(self._gone())
                if deadline is not None and time.monotonic() > deadline:
                    raise ServerFailed(
                        "the run took longer than --timeout allows, and was ended: run it again to "
                        "go on where it was"
                    )

    def _take_progress(self, run: Run) -> None:
        for progress in self.log.news() if self.log else ():
            run.take_progress(progress)
            self.heard(progress)

    def _gone(self) -> str:
        who = "the process of the definitions" if self.server.is_alive else "Spark"
        return (
            f"{who} died in the run: run it again, it goes on where it was (see {self.folder.own})"
        )


@contextmanager
def workshop(
    folder: Folder,
    place: SparkPlace,
    name_servers: str | None,
    watch: Callable[[Run], None] = ignore,
    heard: Heard = ignore,
) -> Iterator[Workshop]:
    """Have a Spark for the runs of a pipeline, whose lock the caller holds.

    Raises:
        PipelineError: If it does not start; the message says why.
    """
    with ExitStack() as stack:
        server = stack.enter_context(serving(folder, place, name_servers))
        errors = stack.enter_context((folder.own / _RUNNER_LOG).open("wb"))
        runner = stack.enter_context(
            ending_with_us(
                [sys.executable, "-m", "rocketpipe.projects.runner"],
                {**server.environment, "PYTHONUNBUFFERED": "1"},
                folder.root,
                errors,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        )
        log = EventLog(server.events) if server.events else None
        yield Workshop(folder, server, runner, name_servers, watch, log, heard)


def run_recorded(shop: Workshop, ask: Ask, *, limit_s: float | None = None) -> Run:
    """Run once, and keep a record of it from its beginning to its end, however it ends.

    Raises:
        ServerFailed: If Spark dies, or takes longer than it may.
        NotWritable: If the record cannot be kept.
    """
    folder = shop.folder
    ask = asks.with_kept(folder, ask)
    run = Run.new(folder.name, _now_ms(), records.last(folder))
    records.save(folder, run)
    outer = shop.watch
    saved = time.monotonic()

    def watch(state: Run) -> None:
        nonlocal saved
        if time.monotonic() - saved > 2:
            with suppress(NotWritable):  # tables may be elsewhere; the end of the run tells
                records.save(folder, state)
            saved = time.monotonic()
        outer(state)

    shop.watch = watch
    try:
        shop.run(ask, run, limit_s=limit_s)
    except PipelineError as error:
        run.finish("died", _now_ms(), str(error))
        _keep(folder, run)
        raise
    except BaseException:
        run.finish("stopped", _now_ms())
        with suppress(NotWritable):
            _keep(folder, run)
        raise
    finally:
        shop.watch = outer
    _keep(folder, run)
    return run


def _keep(folder: Folder, run: Run) -> None:
    """Keep how a run ended."""
    asks.settle(folder, [flow.name for flow in run.flows.values() if flow.state == "completed"])
    records.save(folder, run)
    records.forget_old(folder)


def _all_errors(run: Run, error: str) -> str:
    return " ".join([error, *(flow.error or "" for flow in run.flows.values())])


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
