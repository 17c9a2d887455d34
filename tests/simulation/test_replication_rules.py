"""The rules of replication, walked at random; and each of them left out, which has to show.

``ROCKETPIPE_RULE_SEEDS`` says how many walks are made with all rules in force. Rules whose absence
shows once in ten thousand walks begin at a seed that is known to find it; where seeds are many,
they begin at the first, and find it by themselves.
"""

from __future__ import annotations

import os

import pytest
from tests.simulation.support.replication_model import RULES, Broken, Model

SEEDS = int(os.environ.get("ROCKETPIPE_RULE_SEEDS", "30000"))
PARTS = 3
#: With so many seeds the rarest finds are a matter of course.
MANY = 300_000
#: A walk that finds a rule's absence, where the first hundreds of them do not.
KNOWN_SEEDS = {"grow below the epoch": 57_259, "keep connections": 53_011}


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_happens_what_was_acknowledged_is_with_all_who_may_lead(part: int) -> None:
    acks = elections = 0
    for seed in range(part, SEEDS, PARTS):
        model = Model(seed)
        try:
            model.walk()
        except Broken as error:
            error.add_note(f"seed {seed}")
            raise
        acks += len(model.acked)
        elections += model.elections
    assert acks > SEEDS // PARTS // 2, "the walks had something to lose"
    assert elections > SEEDS // PARTS, "and chances to lose it"


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_is_left_out_is_found(rule: str) -> None:
    many = SEEDS >= MANY
    first = 0 if many else KNOWN_SEEDS.get(rule, 0)
    for seed in range(first, first + (SEEDS if many else 1_000)):
        try:
            Model(seed, without=rule).walk()
        except Broken:
            return
    pytest.fail(f"without this nothing was lost: {RULES[rule]}")


def test_a_walk_is_the_same_twice() -> None:
    first, second = Model(5), Model(5)
    first.walk()
    second.walk()
    assert first.acked == second.acked
    assert first.elections == second.elections
