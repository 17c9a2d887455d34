"""What is in examples/ runs, as its first lines say, and does what it says."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpipe.blocking import PullConsumer
from rocketpipe.model.subscription import ConsumeFromWhere
from rocketpipe.pipeline import daemon
from rocketpipe.testing import serving

pytestmark = pytest.mark.scenario

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMEOUT_S = 200


@pytest.fixture(scope="module")
def name_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("servers")) as servers:
        yield servers.name_server


#: Spark's Pythons start sooner with it (docs/reference/spark.md), and tests have no time to lose.
SOONER = {"PYSPARK_SUBMIT_ARGS": f"--conf {daemon.SETTING}={daemon.MODULE} pyspark-shell"}


def run(name_server: str, name: str, *arguments: str) -> str:
    with tempfile.TemporaryDirectory() as scratch:  # Spark leaves a directory where it runs
        done = subprocess.run(
            [sys.executable, EXAMPLES / name, *arguments],
            env={**os.environ, **SOONER, "ROCKETPIPE_NAMESRV": name_server},
            cwd=scratch,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_quick_start_sends_and_consumes(name_server: str) -> None:
    sent = run(name_server, "quick_start_producer.py", "--count", "40")
    assert len({line.split()[0] for line in sent.splitlines()}) == 40
    consumed = run(name_server, "quick_start_consumer.py", "--count", "40")
    bodies = {line.split(maxsplit=3)[3] for line in consumed.splitlines()}
    assert bodies == {f"Hello RocketMQ {number}" for number in range(40)}


def test_the_ordered_example_finds_each_order_in_order_also_the_second_time(
    name_server: str,
) -> None:
    for _ in range(2):
        printed = run(name_server, "ordered.py")
        assert "order 3: [3, 13, 23, 33, 43, 53, 63, 73, 83, 93]" in printed
        assert "100 messages of 10 orders, each in order" in printed


def test_a_transaction_that_failed_never_shows(name_server: str) -> None:
    printed = run(name_server, "transactions.py")
    assert printed.splitlines() == [
        "no unicorn: the message never shows",
        "ordered: espresso",
        "ordered: tea",
    ]


@pytest.mark.spark
@pytest.mark.soak  # pages of docs/ do the same, and are run
def test_the_spark_job_counts_and_writes(name_server: str) -> None:
    printed = run(name_server, "spark_job.py")
    wanted = {("Lima", 1499500), ("Oslo", 1498500), ("Pune", 1500500)}
    for city, cents in wanted:
        assert f"|{city}|{cents}|" in printed.replace(" ", "")
    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    bodies: set[bytes] = set()
    with PullConsumer(name_server, group="readers", start=first) as consumer:
        consumer.subscribe("city-totals")
        while len(bodies) < len(wanted):
            bodies |= {message.body for message in consumer.poll()}
    assert bodies == {f'{{"city":"{city}","cents":{cents}}}'.encode() for city, cents in wanted}


def test_every_example_is_run_here() -> None:
    text = Path(__file__).read_text()
    for example in EXAMPLES.glob("*.py"):
        assert f'"{example.name}"' in text, f"nobody runs {example.name}"
