"""What policies allow, beside Apache's own handler: the same answer to ten thousand questions."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from tests.compat.support.apache import NEWEST, find_apache

from rocketpipe.auth.policy import Action, Decision, Entry, Kind, Part, Policy, Resource, Wanted
from rocketpipe.auth.policy import decide as decided

pytestmark = pytest.mark.compat

PROGRAM = Path(__file__).parent / "support" / "PolicyQuestions.java"
QUESTIONS = 10_000
NAMES = ("a", "ab", "abc", "abd", "b", "ba", "orders", "orders-eu", "orders-us")
#: Prefixes of those, of each other, and of nothing.
PATTERNS = (*NAMES, "a*", "ab*", "abc*", "o*", "orders*", "orders-*", "x*", "*")
SOURCES = ("10.0.0.1", "10.0.0.2", "192.168.1.7", "10.0.0.0/24", "10.0.0.0/8", "192.168.0.0/16")
ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.7.1", "192.168.1.7", "192.168.9.9", "172.16.0.1")
KINDS = (Kind.TOPIC, Kind.GROUP, Kind.CLUSTER)
ACTIONS = tuple(Action)


def some(chance: random.Random, things: tuple[str, ...], least: int, most: int) -> tuple[str, ...]:
    return tuple(chance.sample(things, chance.randint(least, most)))


def entry(chance: random.Random) -> Entry:
    resource = "*"
    if chance.random() < 0.95:
        resource = f"{chance.choice(KINDS).value}:{chance.choice(PATTERNS)}"
    return Entry(
        resource=Resource.parse(resource),
        actions=frozenset(chance.sample(ACTIONS, chance.randint(1, 3))),
        sources=some(chance, SOURCES, 0, 2) if chance.random() < 0.5 else (),
        decision=chance.choice((Decision.ALLOW, Decision.ALLOW, Decision.DENY)),
    )


def words(entries: tuple[Entry, ...]) -> str:
    return " ".join(
        ";".join(
            (
                str(each.resource),
                ",".join(sorted(action.value for action in each.actions)),
                ",".join(each.sources),
                each.decision.value,
            )
        )
        for each in entries
    )


def test_apaches_handler_says_the_same_to_ten_thousand_questions(tmp_path: Path) -> None:
    apache, chance = find_apache(NEWEST), random.Random(20)
    jars = f"{apache.jars}/*"
    compiler = apache.java.with_name("javac")
    if not compiler.exists():
        pytest.skip(f"no {compiler} to compile the questions with")
    subprocess.run([compiler, "-cp", jars, "-d", tmp_path, PROGRAM], check=True, timeout=600)
    lines, ours = [], []
    for _ in range(QUESTIONS):
        parts = {
            part: tuple(entry(chance) for _ in range(chance.randint(0, 5)))
            for part in (Part.CUSTOM, Part.DEFAULT)
        }
        kind, name = chance.choice(KINDS), chance.choice(NAMES)
        wanted = tuple(chance.sample(ACTIONS[1:], chance.randint(1, 2)))
        source = chance.choice(ADDRESSES)
        lines.append(
            "\t".join(
                (
                    words(parts[Part.CUSTOM]),
                    words(parts[Part.DEFAULT]),
                    f"{kind.value}:{name}",
                    ",".join(action.value for action in wanted),
                    source,
                )
            )
        )
        policy = Policy(subject="User:alice", entries=parts)
        ours.append(decided(policy, Wanted(kind, name, frozenset(wanted)), source).allowed)
    ran = subprocess.run(
        [apache.java, *apache.flags, "-cp", f"{tmp_path}:{jars}", "PolicyQuestions"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    theirs = [answer == "yes" for answer in ran.stdout.split()]
    assert len(theirs) == QUESTIONS, ran.stderr[-2000:]
    assert sum(theirs) > QUESTIONS // 10, "most questions are about nothing"
    differ = [line for line, one, other in zip(lines, ours, theirs, strict=True) if one != other]
    assert not differ, f"{len(differ)}: {differ[:3]}"
