"""What happens, a line for each."""

from __future__ import annotations

import io
import json
import os

from rocketpipe.cli.children.events import Event, EventPrinter, seconds

LEADS = Event("broker-a-2", "leads", "broker-a-2 leads, epoch 3, after 1.4 s", {"epoch": 3})


def test_people_get_a_line() -> None:
    out = io.StringIO()
    EventPrinter("text", out)(LEADS)
    assert out.getvalue() == "broker-a-2 leads, epoch 3, after 1.4 s\n"


def test_programs_get_an_object() -> None:
    out = io.StringIO()
    EventPrinter("json", out)(LEADS)
    told = json.loads(out.getvalue())
    assert told == {"event": "leads", "name": "broker-a-2", "epoch": 3, "text": LEADS.text}


def test_events_go_on_when_nobody_reads_them_any_more() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", buffering=1) as out:  # noqa: PTH123 - a descriptor
        printer = EventPrinter("text", out)
        printer(LEADS)
        printer(LEADS)
        os.dup2(os.open(os.devnull, os.O_WRONLY), writing)  # for what closing writes


def test_durations_are_said_in_seconds() -> None:
    assert seconds(1_449) == "1.4 s"
