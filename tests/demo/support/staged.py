"""A run of a few flights that went well, for the tests of what is said about runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pyarrow as pa
from demo.data import Facts, Flight, Row, facts, flights
from demo.delaying import BoardingCalls
from demo.following import Followers
from demo.pipelining import FlightsPipeline
from demo.play import Run
from demo.producing import Replay, plans
from demo.proof import Evidence
from demo.rejecting import Departures
from demo.third_party import CARRIERS, SmallCarriers
from demo.watching import Sample, Watch

from rocketpipe.jobs.plots import Mark

QUEUES = 4


def some_rows(count: int = 40) -> list[Row]:
    """Flights of two carriers, every tenth of them cancelled, in three hours."""
    return [
        {
            "carrier": "HA" if n % 4 == 0 else "UA",
            "flight": str(100 + n % 5),
            "tailnum": "NA" if n % 7 == 0 else f"N{n % 5}",
            "origin": "JFK",
            "dest": "HNL",
            "distance": "1000",
            "dep_time": "NA" if n % 10 == 3 else "517",
            "dep_delay": "NA" if n % 10 == 3 else str(n % 6 - 2),
            "arr_delay": "NA",
            "time_hour": f"2013-01-01T1{n % 3}:00:00Z",
        }
        for n in range(count)
    ]


def evidence_of(rows: Sequence[Row], expected: Facts) -> Evidence:
    """What a run leaves behind in which all went well."""
    sent = list(flights(rows))
    planned = plans(sent, QUEUES)
    total = len(sent)
    followers, departures = Followers(total), Departures(total)
    small, calls = SmallCarriers(total), BoardingCalls(3)
    small.guest_name = "ali-ons"
    for flight in sent:
        followers.note(flight.aircraft, flight.id)
        if flight.departed:
            departures.accepted.add(flight.id)
        else:
            for attempt, tally in enumerate(departures.rejected):
                tally.add(flight.id)
                departures.moments.append((float(attempt), attempt))
        if flight.carrier in CARRIERS:
            small.tally.add(flight.id)
            small.guests.add(flight.id)
    for number in range(3):
        calls.note(number, due_ms=1000, now_ms=1001)
    dead = [flight for flight in sent if not flight.departed]
    return Evidence(
        plans=planned,
        in_topic=total,
        followers=followers,
        departures=departures,
        calls=calls,
        small=small,
        log={"queues": [log_queue(n, plan) for n, plan in enumerate(planned) if plan], "worst": []},
        acknowledged=[len(plan) for plan in planned],
        letters=pa.table(
            {
                "id": [flight.id for flight in dead],
                "carrier": [flight.carrier for flight in dead],
                "reason": ["3 attempts failed"] * len(dead),
            }
        ),
        raw=pa.table(
            {
                "id": [flight.id for flight in sent],
                "carrier": [flight.carrier for flight in sent],
                "distance": [json.loads(flight.body)["distance"] for flight in sent],
            }
        ),
        windows=pa.table(
            {
                "carrier": [carrier for carrier, _ in expected.windows],
                "hour": pa.array(
                    [datetime.fromisoformat(hour) for _, hour in expected.windows],
                    pa.timestamp("us", "UTC"),
                ),
                "flights": [window.flights for window in expected.windows.values()],
                "departed": [window.departed for window in expected.windows.values()],
                "delay_minutes": [window.delay_minutes for window in expected.windows.values()],
            }
        ),
        broker_kills=1,
        spark_kills=1,
    )


def log_queue(number: int, plan: Sequence[Flight]) -> dict[str, int]:
    """What Spark says of a queue that the log has the whole of."""
    return {
        "queue_id": number,
        "rows": len(plan),
        "flights": len(plan),
        "first": 0,
        "last": len(plan) - 1,
        "ids": sum(flight.id for flight in plan),
    }


def staged(place: Path, count: int = 40) -> tuple[Facts, Run]:
    """A run that went well, and what the file says."""
    rows = some_rows(count)
    expected = facts(rows)
    evidence = evidence_of(rows, expected)
    watch = Watch("flights", ["followers", "spark"], "%DLQ%departures")
    watch.samples += [
        Sample(
            float(second),
            second * 10,
            {"followers": second, "spark": 5},
            {"followers": second * 9, "spark": second * 10 - 5},
            dead_letters=second,
        )
        for second in (1, 2, 3, 9, 10)
    ]
    watch.marks.append(Mark(3.5, "broker killed", 8.5, is_blind=True))
    pipeline = FlightsPipeline(place, "n:1", lambda told: None)
    pipeline.history.append("a pass of the pipeline failed: a Python worker was ended")
    replay = Replay("flights", evidence.plans, 1.0)
    return expected, Run(
        evidence=evidence, watch=watch, replay=replay, pipeline=pipeline, sent_s=5.0, total_s=10.0
    )
