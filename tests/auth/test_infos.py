"""Users and policies as they travel."""

from __future__ import annotations

import msgspec
import pytest

from rocketpipe.auth.infos import (
    acl_info,
    read_entries,
    read_part,
    read_policy,
    read_status,
    read_type,
    user_info,
)
from rocketpipe.auth.policy import Action, Decision, Part, Policy
from rocketpipe.auth.secret import Secret
from rocketpipe.auth.subject import User, UserStatus, UserType
from rocketpipe.errors import InvalidName
from rocketpipe.protocol.requests.users import AclInfo, PolicyEntryInfo, PolicyInfo

ENTRY = PolicyEntryInfo(
    resource="Topic:o*", actions=("Pub", "sub"), source_ips=("10.0.0.0/8",), decision="Allow"
)


def test_a_secret_does_not_travel() -> None:
    info = user_info(User(name="alice", secret=Secret("alices-secret-text")))
    assert msgspec.json.encode(info) == (
        b'{"username":"alice","password":"******","userType":"Normal","userStatus":"enable"}'
    )


def test_words_are_read_in_any_case_and_no_others_are_taken() -> None:
    assert read_type("SUPER") is UserType.SUPER
    assert read_status("Disable") is UserStatus.DISABLE
    assert read_part("default") is Part.DEFAULT
    assert (read_type(""), read_status(None), read_part(None)) == (None, None, Part.CUSTOM)
    for read in (read_type, read_status, read_part):
        with pytest.raises(ValueError, match="is no"):
            read("x")


def test_a_policy_is_told_as_it_was_read() -> None:
    part, entries = read_entries(PolicyInfo(policy_type="Custom", entries=(ENTRY,)))
    assert entries[0].actions == {Action.PUB, Action.SUB}
    assert entries[0].decision is Decision.ALLOW
    info = acl_info(Policy(subject="User:a").with_entries(part, entries))
    assert msgspec.json.encode(info) == (
        b'{"subject":"User:a","policies":[{"policyType":"Custom","entries":[{"resource":"Topic:o*",'
        b'"actions":["Pub","Sub"],"sourceIps":["10.0.0.0/8"],"decision":"Allow"}]}]}'
    )
    assert acl_info(Policy(subject="User:a").with_entries(part, entries), "Group").policies == ()


@pytest.mark.parametrize(
    "entry",
    [
        {"resource": "orders"},
        {"actions": ()},
        {"actions": ("Pub", "Publish")},
        {"actions": ("Any",)},
        {"source_ips": ("everywhere",)},
        {"decision": "Maybe"},
        {"decision": None},
    ],
)
def test_what_is_no_entry_is_refused(entry: dict[str, object]) -> None:
    wrong = msgspec.structs.replace(ENTRY, **entry)
    with pytest.raises(ValueError, match=r"no|one|neither"):
        read_entries(PolicyInfo(entries=(wrong,)))
    with pytest.raises(ValueError, match="at least one entry"):
        read_entries(PolicyInfo(entries=()))


def test_a_policy_that_was_told_is_read_again() -> None:
    told = AclInfo(
        subject="User:alice",
        policies=(
            PolicyInfo(
                policy_type="Default",
                entries=(PolicyEntryInfo(resource="Topic:*", actions=("Sub",), decision="Deny"),),
            ),
            PolicyInfo(policy_type="Custom", entries=None),
        ),
    )
    policy = read_policy(told)
    assert [str(each) for each in policy.of(Part.DEFAULT)] == ["Deny Sub on Topic:*"]
    assert read_policy(acl_info(policy)) == policy
    for wrong in (AclInfo(subject="Group:alice"), AclInfo()):
        with pytest.raises(InvalidName):
            read_policy(wrong)
