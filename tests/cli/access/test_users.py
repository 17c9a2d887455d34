"""``rocketpipe user`` against real servers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.blocking import Producer, Session
from rocketpipe.cli.main import main
from rocketpipe.errors import AccessDenied
from rocketpipe.testing.servers import LOG_NAME, Servers

pytestmark = pytest.mark.scenario

Command = Callable[..., str]
Answer = Callable[..., Any]


def sends(servers: Servers, user: str, secret: str, topic: str) -> bool:
    with (
        Session(servers.name_server, access_key=user, secret_key=secret) as session,
        Producer(session) as producer,
    ):
        try:
            producer.send(topic, b"hello")
        except AccessDenied:
            return False
        return True


def test_a_user_from_its_creation_to_its_end(
    servers: Servers, command: Command, answer: Answer
) -> None:
    made = answer("user", "create", "ann")
    assert len(made["secret"]) >= 32
    assert made["servers"] == [f"NameServer {servers.name_server}", "broker-a"]
    command("topic", "create", "anns", "--queues", "1")
    assert not sends(servers, "ann", made["secret"], "anns")
    command("acl", "grant", "ann", "--topic", "anns", "--actions", "pub")
    assert sends(servers, "ann", made["secret"], "anns")
    turned = answer("user", "rotate", "ann", "--for", "1h")
    for secret in (made["secret"], turned["secret"]):
        assert sends(servers, "ann", secret, "anns")
    assert answer("user", "show", "ann")["old_secret_until"] is not None
    last = answer("user", "rotate", "ann", "--for", "0s")
    assert last["old_secret_until"] == "now"
    assert [
        sends(servers, "ann", secret, "anns")
        for secret in (made["secret"], turned["secret"], last["secret"])
    ] == [False, False, True]
    command("user", "disable", "ann")
    assert not sends(servers, "ann", last["secret"], "anns")
    command("user", "enable", "ann")
    assert sends(servers, "ann", last["secret"], "anns")
    assert "--yes" in command("user", "delete", "ann", code=1)
    assert answer("user", "delete", "ann", "--dry-run")["deleted"] is False
    assert answer("user", "delete", "ann", "--yes")["rights"] == 1
    assert not sends(servers, "ann", last["secret"], "anns")
    assert "ann" not in [row["user"] for row in answer("user", "list")]


def test_a_secret_is_shown_once_and_is_in_no_log(
    servers: Servers, answer: Answer, command: Command, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = answer("user", "create", "shy")
    for words in (("user", "show", "shy"), ("user", "list"), ("acl", "list", "shy")):
        assert made["secret"] not in json.dumps(answer(*words))
    logs = list(tmp_path_factory.getbasetemp().glob(f"guarded*/{LOG_NAME}"))
    assert logs
    assert not any(made["secret"] in log.read_text() for log in logs)
    assert "secret" not in answer("user", "create", "coy", "--dry-run")
    printed = command("user", "create", "bold")
    assert "SECRET" in printed
    assert "acl grant bold" in printed


def test_a_secret_of_ones_own(command: Command, answer: Answer, secret_file: Path) -> None:
    made = answer("user", "create", "own", "--secret-file", str(secret_file), "--super")
    assert (made["type"], "secret" in made) == ("Super", False)
    secret_file.write_text("short-one\n")
    again = ("user", "create", "own2", "--secret-file", str(secret_file))
    assert command(*again, code=2) == (
        "rocketpipe user create: --secret-file: a secret of 9 characters can be guessed: give 16 "
        "or more, or say --weak\n"
    )
    command(*again, "--weak")
    secret_file.write_text("\n")
    assert "no secret" in command("user", "create", "own3", *again[3:], code=2)
    assert "--secret-file" in command("user", "create", "own3", "--weak", code=2)
    command("user", "delete", "own", "--yes")


def test_what_cannot_be_is_said_in_one_line_with_the_next_step(command: Command) -> None:
    command("user", "create", "one")
    assert command("user", "create", "one", code=1) == (
        "rocketpipe user create: user 'one' is there already: `rocketpipe user rotate one` gives "
        "it another secret\n"
    )
    assert "user create nobody" in command("user", "disable", "nobody", code=1)
    for verb in (("delete", "--yes"), ("disable",)):
        assert command("user", verb[0], "root", *verb[1:], code=1) == (
            f"rocketpipe user {verb[0]}: 'root' is the last enabled user who may do everything: "
            "make another first: `rocketpipe user create NAME --super`\n"
        )
    assert "is past" in command("user", "rotate", "one", "--until", "2001-01-01T00:00:00Z", code=2)
    assert "more than a year" in command("user", "rotate", "one", "--for", "400d", code=2)
    assert "is no time" in command("user", "rotate", "one", "--until", "soon", code=2)
    assert "a-zA-Z0-9_" in command("user", "create", "a b", code=1)


def test_who_does_not_sign_is_told_how(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCKETPIPE_ACCESS_KEY")
    monkeypatch.delenv("ROCKETPIPE_SECRET_KEY")
    assert "ROCKETPIPE_SECRET_KEY_FILE" in command("user", "list", code=1)


def test_who_rotates_away_the_secret_it_signs_with_is_believed(
    command: Command, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = answer("user", "create", "self", "--super")
    monkeypatch.setenv("ROCKETPIPE_ACCESS_KEY", "self")
    monkeypatch.setenv("ROCKETPIPE_SECRET_KEY", made["secret"])
    turned = answer("user", "rotate", "self", "--for", "0s")
    assert len(turned["servers"]) == 2
    assert "not let in" in command("user", "list", code=1)
    monkeypatch.setenv("ROCKETPIPE_SECRET_KEY", turned["secret"])
    assert len(answer("user", "delete", "self", "--yes")["servers"]) == 2


def test_a_second_rotation_says_whom_it_cuts_off(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    command("user", "create", "turn")
    command("user", "rotate", "turn")
    assert main(["user", "rotate", "turn"]) == 0
    assert "is good no longer" in capsys.readouterr().err


def test_files_and_servers_are_not_named_together(command: Command, tmp_path: Path) -> None:
    words = ("user", "list", "--data", str(tmp_path), "-n", "127.0.0.1:1")
    assert "give one of them" in command(*words, code=2)


def test_a_server_that_is_down_does_not_keep_anybody_in(
    servers: Servers, answer: Answer, capsys: pytest.CaptureFixture[str]
) -> None:
    both = ("-n", f"{servers.name_server};127.0.0.1:1")
    assert main(["user", "create", "lost", *both, "-o", "json"]) == 1
    printed = capsys.readouterr()
    made = json.loads(printed.out)
    assert len(made["secret"]) >= 32
    assert len(made["servers"]) == 2
    assert list(made["failed"]) == ["NameServer 127.0.0.1:1"]
    assert "user create lost --secret-file FILE" in printed.err
    assert made["secret"] not in printed.err
    assert main(["user", "disable", "lost", *both]) == 1
    assert "FAILED" in capsys.readouterr().out
    assert answer("user", "show", "lost")["status"] == "disabled"
