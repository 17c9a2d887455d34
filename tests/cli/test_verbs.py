"""Tests of nouns and verbs."""

from __future__ import annotations

import argparse

import pytest

from rocketpipe.cli.verbs import Verbs

EXAMPLES = """\
examples:
  rocketpipe thing show a
  rocketpipe thing make b
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="rocketpipe thing")
    verbs = Verbs(made, EXAMPLES)
    verbs.add_local("show", "show a thing", lambda options: 7).add_argument("name")
    verbs.add_local("make", "make a thing", lambda options: 8)
    return made


def test_a_verb_is_carried_out_by_its_own_function() -> None:
    options = parser().parse_args(["show", "a"])
    assert options.run(options) == 7


def test_help_of_a_verb_has_its_own_examples_only(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["show", "--help"])
    text = capsys.readouterr().out
    assert "rocketpipe thing show a" in text
    assert "make b" not in text


def test_a_noun_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    options = parser().parse_args([])
    assert options.run(options) == 0
    assert "VERB" in capsys.readouterr().out


def test_words_and_flags_come_in_any_order(capsys: pytest.CaptureFixture[str]) -> None:
    made = argparse.ArgumentParser(prog="rocketpipe thing")
    send = Verbs(made, EXAMPLES).add_local("send", "send a thing", lambda options: 9)
    send.add_argument("topic")
    send.add_argument("body", nargs="?")
    send.add_argument("--tag")
    for words in (["a", "b", "--tag", "c"], ["a", "--tag", "c", "b"], ["--tag", "c", "a", "b"]):
        options = made.parse_args(["send", *words])
        assert (options.topic, options.body, options.tag) == ("a", "b", "c")
    assert made.parse_args(["send", "a", "--tag", "c"]).body is None
    with pytest.raises(SystemExit):
        made.parse_args(["send", "a", "b", "--colour", "red"])
    error = capsys.readouterr().err
    assert error.startswith("usage: rocketpipe thing send ")
    assert "unrecognized arguments: --colour red" in error
