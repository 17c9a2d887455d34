"""Pipelines of examples/pipelines, copied, fed with their data, killed on the way and compared."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from rocketpipe.projects import records
from rocketpipe.projects.folder import find
from rocketpipe.projects.running import BUSY
from rocketpipe.testing import Kit, PipelineCopy

PIPELINES = Path(__file__).parents[3] / "examples" / "pipelines"
NAMES = sorted(place.parent.name for place in PIPELINES.glob("*/spark-pipeline.yml"))
COMMAND = (sys.executable, "-m", "rocketpipe.cli.main", "pipeline", "run", "--master", "local[2]")
PATIENCE_S = 900
ATTEMPTS = 4


def send(servers: Kit, *files: Path) -> None:
    """Send messages as a reader of the examples would."""
    spec = importlib.util.spec_from_file_location("send", PIPELINES / "send.py")
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    program.send(servers.name_server, *files)


@contextmanager
def running(pipeline: PipelineCopy, servers: Kit) -> Iterator[subprocess.Popen[bytes]]:
    """``rocketpipe pipeline run`` in the folder; whatever is left of it ends with the block."""
    environment = {**os.environ, "ROCKETPIPE_NAMESRV": servers.name_server}
    command = subprocess.Popen(
        COMMAND, cwd=pipeline.root, env=environment, stdout=subprocess.DEVNULL
    )
    try:
        yield command
    finally:
        command.kill()
        command.wait()
        _wait_until_gone(pipeline.root)


def kill_in_batch(pipeline: PipelineCopy, servers: Kit) -> None:
    """Run it, and kill command and Spark when a batch of any flow is begun and not done."""
    with running(pipeline, servers) as command:
        deadline = time.monotonic() + PATIENCE_S
        while not open_batches(pipeline):
            assert command.poll() is None, "it ended before there was a batch"
            assert time.monotonic() < deadline
            time.sleep(0.005)
        command.send_signal(signal.SIGKILL)
    assert command.returncode == -signal.SIGKILL


def run_to_end(pipeline: PipelineCopy, servers: Kit) -> None:
    """Run it as a user does: again, where the machine was too busy for Spark's Pythons."""
    for _ in range(ATTEMPTS):
        with running(pipeline, servers) as command:
            if command.wait(PATIENCE_S) == 0:
                return
        run = records.last(find(pipeline.root))
        assert run is not None
        assert BUSY in str(run.to_json()), run.error
    raise AssertionError(f"{ATTEMPTS} runs failed: the machine is too busy")


def open_batches(pipeline: PipelineCopy) -> list[str]:
    """The checkpoints that have a batch as begun and not as done."""
    storage = find(pipeline.root).local_storage
    assert storage is not None
    return [
        str(begun.parent.parent.relative_to(storage))
        for begun in (storage / "_checkpoints").glob("**/offsets/[0-9]*")
        if not (begun.parent.parent / "commits" / begun.name).exists()
    ]


def all_in_one(place: Path) -> Path:
    """The folder of a pipeline that has the flows of all examples."""
    place.mkdir(parents=True)
    for name in NAMES:
        example = PIPELINES / name
        shutil.copytree(example / "transformations", place / "transformations", dirs_exist_ok=True)
        spec = (example / "spark-pipeline.yml").read_text()
    (place / "spark-pipeline.yml").write_text(spec.replace(f": {name}\n", ": all_of_them\n"))
    return place


def write_day(day: int, file: Path) -> None:
    """The data of all examples as if it were that of another day, with keys of its own."""
    lines = []
    for name in NAMES:
        for part in sorted((PIPELINES / name / "data").glob("*.jsonl")):
            for line in part.read_text().splitlines():
                message = json.loads(line)
                body = message["body"]
                body["at"] = body["at"].replace("-05-01T", f"-05-{day:02}T")
                if "order_id" in body:
                    body["order_id"] += 100 * day
                if message["topic"] == "readings":
                    message["keys"] += f"-{day}"
                lines.append(json.dumps(message) + "\n")
    file.write_text("".join(lines))


def results(pipeline: PipelineCopy, expected: dict[str, Any]) -> dict[str, Counter[str]]:
    """All rows of the tables and messages of the topics that are expected, in no order."""
    found = {name: Counter(map(_text, pipeline.rows(name))) for name in expected["tables"]}
    for topic in expected["topics"]:
        found[topic] = Counter(_text(json.loads(body)) for body in pipeline.messages(topic))
    return found


def wanted(expected: dict[str, Any]) -> dict[str, Counter[str]]:
    """What ``results`` gives if all is right."""
    parts = {**expected["tables"], **expected["topics"]}
    return {name: Counter(map(_text, rows)) for name, rows in parts.items()}


def _text(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, default=datetime.isoformat)


def _wait_until_gone(root: Path) -> None:
    """Spark ends with its command, a moment later."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        listing = subprocess.run(
            ["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True
        )
        if str(root / ".rocketpipe") not in listing.stdout:
            return
        time.sleep(0.05)
    raise AssertionError(f"processes of {root} did not end")
