"""The scripts load in their shells, and complete: as functions, and under the Tab key."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.scenarios.support.terminal import Screen

from rocketpipe.cli.main import main
from rocketpipe.cli.nouns.completion import SHELLS
from rocketpipe.testing.servers import Servers


def shell_or_skip(name: str) -> str:
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"no {name} here")
    return program


def completed(script: str, words: str) -> list[str]:
    ask = (
        f"{script}\nCOMP_WORDS=({words} ''); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); "
        '_rocketpipe; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [shell_or_skip("bash"), "-c", ask], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.split()


@pytest.fixture(scope="module")
def scripts() -> dict[str, str]:
    """The script of each shell."""
    printed = {}
    for shell in SHELLS:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert main(["completion", shell]) == 0
        printed[shell] = out.getvalue()
    return printed


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("rocketpipe", {"serve", "topic", "message", "--version"}),
        ("rocketpipe topic", {"create", "list", "show", "delete"}),
        ("rocketpipe topic create orders", {"--queues", "--ordered", "--namesrv"}),
        ("rocketpipe topic list -o", {"table", "json", "csv"}),
        ("rocketpipe broker", {"list", "show", "config", "forget", "--data", "--profile"}),
        ("rocketpipe broker config b", {"--set", "--dry-run"}),
        ("rocketpipe completion", {"bash", "zsh", "fish"}),
        ("rocketpipe mqadmin", {"topicList", "clusterList"}),
    ],
)
def test_bash_completes_nouns_verbs_flags_and_choices(
    words: str, expected: set[str], scripts: dict[str, str]
) -> None:
    assert expected <= set(completed(scripts["bash"], words))


#: A stand-in that says what it was asked for.
ASKED = 'rocketpipe() { printf "%s\\n" "asked-$3" "${@:4}"; }\n'


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("rocketpipe topic show", ["asked-topics"]),
        ("rocketpipe offsets show", ["asked-groups"]),
        ("rocketpipe offsets show shop", ["asked-topics"]),
        ("rocketpipe offsets show -n a:1 shop", ["asked-topics", "-n", "a:1"]),
        ("rocketpipe offsets clone one", ["asked-groups"]),
        ("rocketpipe group lag shop --topic", ["asked-topics"]),
        ("rocketpipe broker show", ["asked-brokers"]),
        ("rocketpipe mqadmin topicRoute -t", ["asked-topics"]),
    ],
)
def test_bash_asks_for_names_where_one_belongs(
    words: str, expected: list[str], scripts: dict[str, str]
) -> None:
    assert completed(ASKED + scripts["bash"], words) == expected


@pytest.mark.parametrize("words", ["topic create", "store dump", "offsets reset shop orders --to"])
def test_nobody_is_asked_where_none_does(words: str, scripts: dict[str, str]) -> None:
    offered = completed(ASKED + scripts["bash"], f"rocketpipe {words}")
    assert not any("asked" in word for word in offered)


@pytest.mark.scenario
def test_names_are_those_of_the_cluster(
    servers: Servers, command: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    command("topic", "create", "orders", "-q", "1")
    command("group", "create", "shop")
    for kind, name in (("topics", "orders"), ("groups", "shop"), ("brokers", "broker-a")):
        assert command("completion", "names", kind).split() == [name]
    assert main(["completion", "names", "topics", "-n", "127.0.0.1:1"]) == 1
    assert capsys.readouterr() == ("", "")


#: What is typed before Tab, and the line it makes.
TYPED = [
    ("rocketpipe topi", "rocketpipe topic "),
    ("rocketpipe topic cr", "rocketpipe topic create "),
    ("rocketpipe topic create orders --ord", "rocketpipe topic create orders --ordered "),
    ("rocketpipe topic list -o js", "rocketpipe topic list -o json "),
    ("rocketpipe broker conf", "rocketpipe broker config "),
    ("rocketpipe-mqadmin topicRo", "rocketpipe-mqadmin topicRoute "),
]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_tab_completes_in_a_shell_at_a_terminal(
    shell: str, scripts: dict[str, str], tmp_path: Path
) -> None:
    program = shell_or_skip(shell)
    (tmp_path / "script").write_text(scripts[shell])
    plain = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"]}[shell]
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "dumb", "PS1": "> "}
    screen = Screen([program, *plain, "-i"], tmp_path, environ)
    try:
        # zsh asks about directories of others, which a machine of many users may well have.
        screen.type("ZSH_DISABLE_COMPFIX=true; . ./script; echo lo''aded\n")
        screen.read_until("loaded")
        for typed, line in TYPED:
            screen.type(f"\x15{typed}\t")
            screen.read_until(re.escape(line))
    finally:
        screen.close()


def test_fish_completes_them_too(scripts: dict[str, str], tmp_path: Path) -> None:
    program = shell_or_skip("fish")
    (tmp_path / "script.fish").write_text(scripts["fish"])
    asked = "; ".join(f"complete -C {typed!r}" for typed, _ in TYPED)
    done = subprocess.run(
        [program, "--no-config", "-c", f"source script.fish; {asked}"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ""
    assert done.stdout.split() == [line.split()[-1] for _, line in TYPED]
