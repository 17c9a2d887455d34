"""The scripts load in their shells, and complete."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from rocketpipe.cli.main import main

Capture = pytest.CaptureFixture[str]


def completed(shell: str, script: str, words: str) -> list[str]:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} here")
    ask = (
        f"{script}\nCOMP_WORDS=({words} ''); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); _rocketpipe; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [program, "-c", ask], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("rocketpipe", {"serve", "topic", "message", "--version"}),
        ("rocketpipe topic", {"create", "list", "show", "delete"}),
        ("rocketpipe topic create orders", {"--queues", "--ordered", "--namesrv"}),
        ("rocketpipe topic list -o", {"table", "json", "csv"}),
        ("rocketpipe completion", {"bash", "zsh"}),
    ],
)
def test_bash_completes_nouns_verbs_flags_and_choices(
    words: str, expected: set[str], capsys: Capture
) -> None:
    assert main(["completion", "bash"]) == 0
    assert expected <= set(completed("bash", capsys.readouterr().out, words))


def test_zsh_loads_it(capsys: Capture) -> None:
    assert main(["completion", "zsh"]) == 0
    script = capsys.readouterr().out
    program = shutil.which("zsh")
    if program is None:
        pytest.skip("no zsh here")
    ask = f"autoload -U +X compinit && compinit -D\n{script}\ntype _rocketpipe"
    done = subprocess.run(
        [program, "-f", "-c", ask], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "_rocketpipe is a shell function" in done.stdout
