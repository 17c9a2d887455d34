"""``rocketpipe acl import`` against real servers, and on files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.auth.plain.test_acl import SAMPLE

from rocketpipe.auth.secret import Secret
from rocketpipe.auth.subject import User, UserType
from rocketpipe.auth.users import PolicyTable, UserTable
from rocketpipe.cli.main import main
from rocketpipe.store.files.disk import Disk

Command = Callable[..., str]
Answer = Callable[..., Any]


@pytest.fixture
def plain_acl(tmp_path: Path) -> Path:
    file = tmp_path / "plain_acl.yml"
    file.write_bytes(SAMPLE)
    return file


@pytest.mark.scenario
def test_accounts_become_users_of_every_server(
    command: Command, answer: Answer, plain_acl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("acl", "import", str(plain_acl))
    dry = answer(*words, "--dry-run")
    assert [each["does"] for each in dry["accounts"]] == ["create", "create"]
    assert len(dry["doors_closed"]) == 2
    assert dry["weak_secrets"] == ["RocketMQ", "rocketmq2"]
    assert "RocketMQ" not in [row["user"] for row in answer("user", "list")]
    assert main(words) == 0
    printed = capsys.readouterr()
    assert f"closed: {plain_acl} line 2" in printed.err
    assert "12345678" not in printed.out + printed.err
    assert len(answer("acl", "list", "RocketMQ")) == 8
    assert answer("user", "show", "rocketmq2")["type"] == "Super"
    again = answer(*words)
    assert [each["does"] for each in again["accounts"]] == ["is there: add rights"] * 2
    command("acl", "grant", "RocketMQ", "--topic", "more", "--actions", "pub")
    command(*words)
    assert len(answer("acl", "list", "RocketMQ")) == 9
    command(*words, "--replace")
    assert len(answer("acl", "list", "RocketMQ")) == 8
    command("user", "delete", "rocketmq2", "--yes")


@pytest.mark.scenario
def test_a_file_with_a_misspelt_permission_is_refused_whole(
    command: Command, answer: Answer, plain_acl: Path
) -> None:
    plain_acl.write_text(
        "accounts:\n"
        "- accessKey: good-one\n  secretKey: a-good-secret-text\n"
        "- accessKey: bad-one\n  secretKey: a-good-secret-text\n"
        "  defaultTopicPerm: pub\n  topicPerms: [a=PUB|sub]\n"
    )
    error = command("acl", "import", str(plain_acl), code=1)
    assert f"{plain_acl} line 6: account 'bad-one': defaultTopicPerm: 'pub' is no perm" in error
    assert f"{plain_acl} line 7: account 'bad-one': topicPerms 'a=PUB|sub'" in error
    assert "good-one" not in [row["user"] for row in answer("user", "list")]
    assert "No such file" in command("acl", "import", "nowhere.yml", code=1)


def stopped(tmp_path: Path) -> tuple[Path, UserTable]:
    data = tmp_path / "data"
    users: UserTable = UserTable.opened(Disk(), data / "config")
    users.put(User(name="root", secret=Secret("roots-secret-text"), type=UserType.SUPER))
    return data, users


def users_in(data: Path) -> UserTable:
    table: UserTable = UserTable.opened(Disk(), data / "config")
    return table


def test_files_are_imported_into_too(tmp_path: Path, plain_acl: Path) -> None:
    data, _ = stopped(tmp_path)
    words = ["acl", "import", str(plain_acl), "--data", str(data)]
    assert main([*words, "--dry-run"]) == 0
    assert len(users_in(data)) == 1
    assert main(words) == 0
    assert len(users_in(data)) == 3
    policies: PolicyTable = PolicyTable.opened(Disk(), data / "config")
    assert policies.get("User:RocketMQ") is not None


@pytest.mark.parametrize("count", [200, pytest.param(9_999, marks=pytest.mark.soak)])
def test_thousands_of_accounts_are_imported_in_one_go(
    tmp_path: Path, plain_acl: Path, count: int
) -> None:
    data, _ = stopped(tmp_path)
    lines = [
        f"- accessKey: user-{number}\n  secretKey: the-secret-of-{number}\n  topicPerms: [t=PUB]\n"
        for number in range(count)
    ]
    plain_acl.write_text("".join(["accounts:\n", *lines]))
    words = ["acl", "import", str(plain_acl), "--data", str(data)]
    assert main(words) == 0
    assert len(users_in(data)) == count + 1
    if count < 9_999:
        return
    plain_acl.write_text("accounts:\n- accessKey: one-more\n  secretKey: a-good-secret-text\n")
    assert main(words) == 1
    assert len(users_in(data)) == 10_000


def test_a_file_does_not_take_away_the_last_who_may_do_everything(
    tmp_path: Path, plain_acl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, _ = stopped(tmp_path)
    plain_acl.write_text("accounts:\n- accessKey: root\n  secretKey: a-good-secret-text\n")
    words = ["acl", "import", str(plain_acl), "--data", str(data), "--replace"]
    assert main(words) == 1
    assert "'root' is the last" in capsys.readouterr().err
    assert users_in(data).has_super
