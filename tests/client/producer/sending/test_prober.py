"""Signs of life."""

from __future__ import annotations

import random

from tests.client.producer.support.broker_parts import world
from tests.waiting import until

from rocketpipe.background import running
from rocketpipe.client.faults import FaultTable, Variant
from rocketpipe.client.producer.sending.prober import LOOK_EVERY_MS, Prober
from rocketpipe.client.producer.sending.publish_routes import PublishRoutes


async def test_a_broker_that_answers_is_reachable_again() -> None:
    async with world("a", "b") as here, here.session() as session:
        lines = PublishRoutes(session, "g")
        await lines.find("t")
        faults = FaultTable(Variant.V5.value, here.clock, random.Random(1))
        faults.note("a", 1, failed=True, reachable=False)
        faults.note("gone", 1, failed=True, reachable=False)
        prober = Prober(faults, session.caller, here.clock, lines.whereabouts)
        sleepers = len(here.clock._sleepers)
        async with running(prober.run(), "probes"):
            await until(lambda: len(here.clock._sleepers) == sleepers + 1)
            await here.clock.advance(LOOK_EVERY_MS)
            await until(lambda: faults.is_reachable("a"))
        assert here["a"].probed == 1
        assert here["b"].probed == 0
        assert faults.is_reachable("gone")  # no route names it, so nothing is known of it


async def test_one_that_does_not_answer_stays_unreachable() -> None:
    async with world("a") as here, here.session() as session:
        here["a"].address = "127.0.0.1:1"
        here.known.routes["t"] = here.route("a")
        lines = PublishRoutes(session, "g")
        await lines.find("t")
        faults = FaultTable(Variant.V5.value, here.clock, random.Random(1))
        faults.note("a", 1, failed=True, reachable=False)
        await here.clock.advance(LOOK_EVERY_MS)
        await Prober(faults, session.caller, here.clock, lines.whereabouts).look()
        assert not faults.is_reachable("a")
