"""The pipelines of examples/pipelines give what they say, though they are killed on the way."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.support.example_pipelines import (
    NAMES,
    PIPELINES,
    all_in_one,
    kill_in_batch,
    results,
    run_to_end,
    running,
    send,
    wanted,
    write_day,
)

from rocketpipe.testing import Kit, PipelineCopy, kit

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

KILLS = int(os.environ.get("ROCKETPIPE_PIPELINE_KILLS", "10"))


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Kit]:
    with kit(tmp_path / "servers") as running_servers:
        yield running_servers


def expected_of(name: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((PIPELINES / name / "expected.json").read_text())
    return value


# `make test` has the demo's pipeline, which is killed as these are.
@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_an_example_that_is_killed_in_a_batch_gives_what_it_says(
    name: str, servers: Kit, tmp_path: Path
) -> None:
    pipeline = PipelineCopy(PIPELINES / name, tmp_path, servers.name_server)
    data = PIPELINES / name / "data"
    send(servers, data / "1.jsonl")
    kill_in_batch(pipeline, servers)
    send(servers, data / "2.jsonl")
    run_to_end(pipeline, servers)
    expected = expected_of(name)
    assert results(pipeline, expected) == wanted(expected)
    assert " batch query=" in (pipeline.root / ".rocketpipe" / "batches.log").read_text()


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_pipeline_killed_at_random_moments_equals_one_that_never_was(tmp_path: Path) -> None:
    """All examples as one pipeline: a moment may be any flow's, or of Spark's start or end."""
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    folder = all_in_one(tmp_path / "folder")
    days = [tmp_path / f"{day}.jsonl" for day in range(1, KILLS + 2)]
    for day, file in enumerate(days, start=1):
        write_day(day, file)
    expected: dict[str, Any] = {"tables": {}, "topics": {}}
    for name in NAMES:
        for kind, parts in expected_of(name).items():
            expected[kind] |= parts
    with kit(tmp_path / "spared") as servers:
        pipeline = PipelineCopy(folder, tmp_path / "spared-copy", servers.name_server)
        send(servers, *days)
        began = time.monotonic()
        run_to_end(pipeline, servers)
        took_s = time.monotonic() - began
        spared = results(pipeline, expected)
    with kit(tmp_path / "killed") as servers:
        pipeline = PipelineCopy(folder, tmp_path / "killed-copy", servers.name_server)
        for day in days[:-1]:
            send(servers, day)
            with running(pipeline, servers) as command:
                with suppress(subprocess.TimeoutExpired):
                    command.wait(chance.uniform(took_s / 4, took_s))
        send(servers, days[-1])
        run_to_end(pipeline, servers)
        assert results(pipeline, expected) == spared, f"seed {seed}"
    assert all(spared.values())
