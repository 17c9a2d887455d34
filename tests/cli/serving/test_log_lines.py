"""Log lines as JSON."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.cli.serving.log_lines import JsonLines
from rocketpipe.testing.servers import LOG_NAME, serving


def line(message: str, *values: object, broker: str | None = None, **more: Any) -> dict[str, Any]:
    record = logging.LogRecord("rocketpipe.x", logging.WARNING, "", 1, message, values, None)
    for name, value in more.items():
        setattr(record, name, value)
    text = JsonLines(broker).format(record)
    assert "\n" not in text
    found: dict[str, Any] = json.loads(text)
    return found


def test_an_event_and_its_facts_are_fields() -> None:
    found = line("segment rolled base_offset=%d topic=%s", 7, "orders", broker="broker-a")
    assert found["event"] == "segment rolled"
    assert found["base_offset"] == 7
    assert found["topic"] == "orders"
    assert found["broker"] == "broker-a"
    assert found["level"] == "warning"
    assert found["message"] == "segment rolled base_offset=7 topic=orders"


@pytest.mark.parametrize(
    ("message", "values", "event", "facts"),
    [
        ("%s", ("a=b % c",), "a=b % c", {}),
        ("stopping, exit code %d: %s", (70, "x"), "stopping, exit code 70: x", {}),
        ("done 100%% of=%s", ("x",), "done 100% of", {}),
        ("of %s reason=%s", ("a", ValueError("no")), "of a", {"reason": "no"}),
        ("level=%s", ("x",), "", {"level_": "x"}),
        ("took=%.3f", (0.25,), "", {"took": 0.25}),
    ],
)
def test_texts_with_values_of_their_own_stay_whole(
    message: str, values: tuple[object, ...], event: str, facts: dict[str, Any]
) -> None:
    found = line(message, *values)
    assert {name: found[name] for name in facts} == facts
    if "100%" not in message:
        assert found["event"] == event


def test_what_could_end_a_line_early_is_escaped() -> None:
    found = line("refused user=%s", 'a"\n{"level":"x"}')
    assert found["user"] == 'a"\n{"level":"x"}'
    assert found["level"] == "warning"


def test_a_traceback_is_a_field() -> None:
    try:
        raise ValueError("no")
    except ValueError as error:
        found = line("failed", exc_info=(type(error), error, error.__traceback__))
    assert found["exception"].endswith("ValueError: no")


def test_a_mapping_as_argument_is_only_text() -> None:
    record = logging.LogRecord("x", logging.INFO, "", 1, "%(a)s b", ({"a": 1},), None)
    assert json.loads(JsonLines().format(record))["message"] == "1 b"


def test_a_server_writes_nothing_else(tmp_path: Path) -> None:
    with serving(tmp_path, ["--log-format", "json"]):
        pass
    lines = [json.loads(each) for each in (tmp_path / LOG_NAME).read_text().splitlines()]
    assert lines
    assert any(each.get("broker") == "broker-a" for each in lines)
