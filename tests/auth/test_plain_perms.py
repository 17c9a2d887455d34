"""Permissions of RocketMQ 4.9."""

from __future__ import annotations

import pytest

from rocketpipe.auth.plain_perms import perm_entries, perm_entry
from rocketpipe.auth.policy import Action, Decision, Kind


def test_the_five_permissions() -> None:
    entries = perm_entries(Kind.TOPIC, ["a=DENY", "b=PUB", "c=SUB", " d=PUB|SUB", "e=SUB|PUB"])
    assert [(str(each.resource), each.decision, len(each.actions)) for each in entries] == [
        ("Topic:a", Decision.DENY, 1),
        ("Topic:b", Decision.ALLOW, 1),
        ("Topic:c", Decision.ALLOW, 1),
        ("Topic:d", Decision.ALLOW, 2),
        ("Topic:e", Decision.ALLOW, 2),
    ]
    assert Action.ALL in entries[0].actions


@pytest.mark.parametrize("text", ["a=pub", "a=PUB |SUB", "a=", "a", "=PUB", "a*=PUB", "a=ANY"])
def test_a_misspelt_permission_opens_no_door(text: str) -> None:
    with pytest.raises(ValueError, match=r"permission|PERMISSION"):
        perm_entries(Kind.TOPIC, [text])


def test_what_is_usual_is_for_all_names() -> None:
    assert str(perm_entry(Kind.GROUP, "*", "SUB", ("10.0.0.0/8",)).resource) == "Group:*"
