"""RocketMQ 4.9's accounts, made into users and what they may do."""

from __future__ import annotations

import pytest

from rocketpipe.auth.plain.acl import PlainAclRefused, read_plain_acl
from rocketpipe.auth.policy import Action, Kind, Part, Wanted, decide

#: The keys and values of the sample that RocketMQ 4.9 ships.
SAMPLE = b"""\
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      # a comment
      - groupA=DENY
      - groupB=PUB|SUB
      - groupC=SUB

  - accessKey: rocketmq2
    secretKey: 12345678
    whiteRemoteAddress: 192.168.1.*
    admin: true
"""


def account(**lines: str) -> bytes:
    given = {"accessKey": "alice-key", "secretKey": "alices-secret-text", **lines}
    text = "\n    ".join(f"{key}: {value}" for key, value in given.items())
    return f"accounts:\n  - {text}\n".encode()


def faults(data: bytes) -> list[str]:
    with pytest.raises(PlainAclRefused) as error:
        read_plain_acl(data)
    return [str(each) for each in error.value.faults]


def test_the_sample_of_apache() -> None:
    found = read_plain_acl(SAMPLE)
    first, second = found.accounts
    assert (first.user.name, first.user.is_super, first.line) == ("RocketMQ", False, 6)
    assert (first.user.secret.reveal(), first.is_weak) == ("12345678", True)
    assert (second.user.is_super, second.policy.entries) == (True, {})
    own = [str(each) for each in first.policy.of(Part.CUSTOM)]
    assert own == [
        "Deny All on Topic:topicA",
        "Allow Pub,Sub on Topic:topicB",
        "Allow Sub on Topic:topicC",
        "Deny All on Group:groupA",
        "Allow Pub,Sub on Group:groupB",
        "Allow Sub on Group:groupC",
    ]
    usual = [str(each) for each in first.policy.of(Part.DEFAULT)]
    assert usual == ["Deny All on Topic:*", "Allow Sub on Group:*"]
    assert [each.line for each in found.doors] == [2, 3]
    assert "192.168.1.*" in str(found.remarks[0])


def test_what_an_account_may_do_is_what_it_might() -> None:
    (account, _) = read_plain_acl(SAMPLE).accounts

    def may(action: Action, kind: Kind, name: str) -> bool:
        return decide(account.policy, Wanted(kind, name, frozenset({action})), "1.2.3.4").allowed

    assert may(Action.PUB, Kind.TOPIC, "topicB")
    assert not may(Action.PUB, Kind.TOPIC, "topicC")
    assert may(Action.SUB, Kind.GROUP, "any-other")
    assert not may(Action.SUB, Kind.GROUP, "groupA")
    assert not may(Action.SUB, Kind.TOPIC, "any-other")


@pytest.mark.parametrize(
    ("key", "value", "instead"),
    [
        ("defaultTopicPerm", "pub", "Write PUB"),
        ("defaultGroupPerm", "PUB,SUB", "Write PUB|SUB"),
        ("defaultGroupPerm", "ANY", "Write one of DENY, PUB, SUB"),
        ("topicPerms", "[a=Sub]", "Write SUB"),
        ("topicPerms", "['a=PUB ']", "Write PUB"),
        ("groupPerms", "[g=]", "Write one of"),
    ],
)
def test_a_misspelt_permission_is_named_with_the_door_it_would_open(
    key: str, value: str, instead: str
) -> None:
    (fault,) = faults(account(**{key: value}))
    assert fault.startswith(f"line 4: account 'alice-key': {key}")
    assert "opened a door" in fault
    assert instead in fault


def test_every_fault_is_told_and_nothing_is_taken() -> None:
    found = faults(
        b"accounts:\n"
        b"- accessKey: a b\n"
        b"  secretKey: short\n"
        b"  topicPerm: [x=PUB]\n"
        b"  admin: perhaps\n"
        b"- secretKey: a-long-enough-one\n"
        b"- accessKey: twice\n"
        b"  secretKey: a-long-enough-one\n"
        b"  topicPerms: [a=PUB, a=SUB, b*=PUB, c]\n"
        b"- accessKey: twice\n"
        b"  secretKey: a-long-enough-one\n"
        b"  whiteRemoteAddress: here\n"
        b"acounts: []\n"
    )
    assert [fault.partition(":")[0] for fault in found] == [
        "line 2",
        "line 3",
        "line 4",
        "line 5",
        "line 6",
        "line 9",
        "line 9",
        "line 9",
        "line 10",
        "line 12",
        "line 13",
    ]
    assert "did you mean topicPerms?" in found[2]
    assert "did you mean accounts?" in found[-1]


def test_an_address_limits_and_never_lets_in() -> None:
    limited = read_plain_acl(account(whiteRemoteAddress="10.1.2.*", topicPerms="[a=PUB]"))
    (entry,) = limited.accounts[0].policy.of(Part.CUSTOM)
    assert entry.sources == ("10.1.2.0/24",)
    assert not limited.doors
    everybody = read_plain_acl(account(whiteRemoteAddress="'*'", topicPerms="[a=PUB]"))
    (entry,) = everybody.accounts[0].policy.of(Part.CUSTOM)
    assert entry.sources == ()
    assert "was let in unsigned" in str(everybody.doors[0])


def test_a_retry_topic_is_its_groups_here_as_there() -> None:
    (found,) = read_plain_acl(account(topicPerms="['%RETRY%g=SUB']")).accounts
    assert [str(each) for each in found.policy.of(Part.CUSTOM)] == ["Allow Sub on Group:g"]


def test_a_file_as_brokers_write_it_back() -> None:
    found = read_plain_acl(
        b"accounts:\n- accessKey: alice-key\n  admin: true\n  secretKey: 'alices-secret-text'\n"
        b"dataVersion:\n- counter: 3\n  timestamp: 1600000000000\n"
        b"globalWhiteRemoteAddresses: []\n"
    )
    assert [each.user.name for each in found.accounts] == ["alice-key"]
    assert not found.doors
    assert read_plain_acl(b"").accounts == ()


def test_ten_thousand_accounts_are_read_and_one_more_is_not() -> None:
    lines = [
        f"- accessKey: user-{number}\n  secretKey: the-secret-of-{number}\n"
        for number in range(10_001)
    ]
    assert len(read_plain_acl("".join(["accounts:\n", *lines[:-1]]).encode()).accounts) == 10_000
    assert faults("".join(["accounts:\n", *lines]).encode()) == [
        "line 1: 10001 accounts: 10000 are the most"
    ]


def test_yaml_that_is_none_is_told_with_the_files_name() -> None:
    with pytest.raises(PlainAclRefused, match=r"^acl.yml line 2: has a tab"):
        read_plain_acl(b"accounts:\n\t- x\n", "acl.yml")
