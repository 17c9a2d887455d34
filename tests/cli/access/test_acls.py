"""``rocketpipe acl`` against real servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rocketpipe.blocking import Producer, PullConsumer, Session
from rocketpipe.testing.servers import Servers

pytestmark = pytest.mark.scenario

Command = Callable[..., str]
Answer = Callable[..., Any]


def test_a_grant_is_enough_for_a_producer_and_a_consumer(
    servers: Servers, command: Command, answer: Answer
) -> None:
    secret = answer("user", "create", "shop")["secret"]
    command("topic", "create", "goods", "--queues", "1")
    command("group", "create", "buyers")
    words = ("--topic", "goods", "--group", "buyers", "--actions", "pub,sub")
    granted = answer("acl", "grant", "shop", *words)
    assert granted["granted"] == ["Allow Pub,Sub on Topic:goods", "Allow Pub,Sub on Group:buyers"]
    with Session(servers.name_server, access_key="shop", secret_key=secret) as session:
        with Producer(session) as producer:
            producer.send("goods", b"one")
        with PullConsumer(session, group="buyers", start="first") as consumer:
            consumer.subscribe("goods")
            assert [each.body for each in consumer.poll(60_000)] == [b"one"]


def test_entries_are_added_shown_and_taken_back(command: Command, answer: Answer) -> None:
    command("user", "create", "kim")
    command("acl", "grant", "kim", "--topic", "a", "--actions", "pub")
    command("acl", "grant", "kim", "--topic", "a", "--topic", "b*", "--actions", "sub")
    rows = answer("acl", "list", "kim")
    assert [(row["resource"], row["actions"]) for row in rows] == [
        ("Topic:a", ["Pub", "Sub"]),
        ("Topic:b*", ["Sub"]),
    ]
    assert answer("acl", "list", "kim", "--resource", "b")[0]["resource"] == "Topic:b*"
    assert "Allow Pub,Sub on Topic:a" in command("user", "show", "kim")
    dry = answer("acl", "revoke", "kim", "--topic", "a", "--actions", "sub", "--dry-run")
    assert dry["dry_run"] is True
    command("acl", "revoke", "kim", "--topic", "a", "--actions", "sub")
    assert answer("acl", "list", "kim")[0]["actions"] == ["Pub"]
    assert "--yes" in command("acl", "revoke", "kim", "--all", code=1)
    command("acl", "revoke", "kim", "--all", "--yes")
    assert answer("acl", "list", "kim") == []


def test_why_something_is_allowed_or_not(command: Command, answer: Answer) -> None:
    command("user", "create", "lee")
    command("acl", "grant", "lee", "--topic", "or*", "--group", "g", "--actions", "sub")
    command("acl", "grant", "lee", "--topic", "or*", "--actions", "pub")
    command("acl", "grant", "lee", "--topic", "orx", "--actions", "pub", "--deny")
    assert command("acl", "explain", "lee", "pub orders") == (
        "yes: Pub Topic:orders\n"
        "  decided by  Allow Pub,Sub on Topic:or* (Custom)\n"
        "  because     the only entry that counts\n"
    )
    assert answer("acl", "explain", "lee", "sub", "orders", "g")["allowed"]
    assert answer("acl", "explain", "lee", "sub %RETRY%g")["answers"][0]["points"] == [
        {
            "asked": "Sub Topic:%RETRY%g",
            "needs": "Sub Group:g",
            "allowed": True,
            "why": "the only entry that counts",
            "decided_by": "Allow Sub on Group:g",
            "part": "Custom",
            "others": [],
            "elsewhere": [],
        }
    ]
    flags = ("--topic", "orders", "--actions", "pub", "--group", "any")
    assert answer("acl", "explain", "lee", *flags)["allowed"]
    command("acl", "explain", "lee", "sub %DLQ%h", code=1)
    command("acl", "explain", "lee", "pub orx", code=1)
    command("acl", "explain", "root", "delete orx")
    command("user", "disable", "lee")
    command("acl", "explain", "lee", "pub orders", code=1)


def test_what_is_said_wrongly_is_one_line_with_the_next_step(command: Command) -> None:
    command("user", "create", "max")
    for words, line in (
        (
            ("grant", "max", "--topic", "a", "--actions", "pubb"),
            "grant: --actions: 'pubb' is no action: did you mean pub?",
        ),
        (
            ("grant", "max", "--actions", "pub"),
            "grant: of what? Name at least one --topic, --group or --cluster",
        ),
        (
            ("grant", "max", "--topic", "a", "--actions", ","),
            "grant: --actions: names none: these are all, pub, sub, create, update, delete, get, "
            "list",
        ),
        (
            ("grant", "max", "--topic", "%DLQ%g", "--actions", "sub"),
            "grant: %DLQ%g counts as its group, and not as a topic: name Group:g",
        ),
        (
            ("grant", "max", "--topic", "a", "--actions", "pub", "--from", "home"),
            "grant: 'home' is neither an address nor a network (10.1.0.0/16)",
        ),
        (
            ("explain", "max", "pub"),
            "explain: WHAT: 'pub' is not understood: write 'ACTION TOPIC [GROUP]', such as "
            "'pub orders' or 'sub orders billing'",
        ),
        (
            ("explain", "max", "pub a", "--topic", "a"),
            "explain: WHAT: is given, and flags that say the same: give one of them",
        ),
        (
            ("revoke", "max", "--all", "--topic", "a"),
            "revoke: --all: takes everything back: name nothing beside it",
        ),
    ):
        assert command("acl", *words, code=2) == f"rocketpipe acl {line}\n"
    for words, line in (
        (
            ("grant", "nobody", "--topic", "a", "--actions", "pub"),
            "grant: there is no user 'nobody': `rocketpipe user list` has all names, `rocketpipe "
            "user create nobody` adds it",
        ),
        (
            ("revoke", "max", "--topic", "a"),
            "revoke: 'max' has no entry about Topic:a: `rocketpipe acl list max` has what there is",
        ),
    ):
        assert command("acl", *words, code=1) == f"rocketpipe acl {line}\n"


def test_who_may_do_everything_needs_no_grant(command: Command) -> None:
    printed = command("acl", "grant", "root", "--cluster", "*", "--actions", "get", "--dry-run")
    assert "entries are not asked" in printed
