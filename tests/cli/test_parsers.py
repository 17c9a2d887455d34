"""Tests of how words of the command are read."""

from __future__ import annotations

import argparse

import pytest

from rocketpipe.cli.parsers import Help, Parser, VerbParser, add_words, without_help


def parser() -> Parser:
    made = Parser(prog="thing")
    make = add_words(made, "verb", "VERB", VerbParser).add_parser("make", help="make it")
    make.add_argument("--queues", type=int)
    make.add_argument("--kind", choices=("red", "blue"))
    make.set_defaults(run=lambda options: 7)
    return made


def test_paragraphs_fit_the_terminal_and_examples_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    example = f"examples:\n  thing make {'x' * 40}"
    made = Parser(prog="thing", description="word " * 20, epilog=example, formatter_class=Help)
    told = made.format_help()
    assert example in told
    assert max(map(len, told.replace(example, "").splitlines())) <= 40


def refused(capsys: pytest.CaptureFixture[str], *given: str) -> str:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(given)
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_without_a_word_the_help_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    options = parser().parse_args([])
    assert options.run(options) == 0
    assert "make" in capsys.readouterr().out


def test_a_word_that_was_misspelt_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "invalid choice: 'mkae': did you mean make?" in refused(capsys, "mkae")
    assert "invalid choice: 'MAKE': did you mean make?" in refused(capsys, "MAKE")
    assert "invalid choice: 'zzz' (choose from make)" in refused(capsys, "zzz")
    assert "did you mean blue?" in refused(capsys, "make", "--kind", "bleu")
    assert "(choose from red, blue)" in refused(capsys, "make", "--kind", "zzz")


def test_the_beginning_of_a_flag_is_not_the_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--queue=4: did you mean --queues?" in refused(capsys, "make", "--queue=4")
    assert "--queue 4: did you mean --queues?" in refused(capsys, "make", "--queue", "4")
    error = refused(capsys, "make", "--zzz")
    assert error.startswith("usage: thing make ")
    assert "did you mean" not in error


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("help", "--help"),
        ("help topic", "topic --help"),
        ("help topic create", "topic create --help"),
        ("topic help create", "topic create --help"),
        ("topic help", "topic --help"),
        ("message send help", "message send help"),
        ("--version help", "--version help"),
        ("message -n help", "message -n help"),
        ("", ""),
    ],
)
def test_help_may_be_asked_for_by_its_word(given: str, meant: str) -> None:
    assert without_help(given.split()) == meant.split()


def test_a_parser_of_others_may_be_given_words(capsys: pytest.CaptureFixture[str]) -> None:
    made = argparse.ArgumentParser(prog="other")
    add_words(made, "verb", "VERB", VerbParser).add_parser("make", help="make it")
    options = made.parse_args([])
    assert options.run(options) == 0


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        (
            "--max-retries",
            ": did you mean --max-attempts (it counts the first attempt too)?",
        ),
        ("--collour=red", ": did you mean --colour?"),
        ("--zzz", ""),
    ],
)
def test_a_flag_that_nobody_knows_gets_the_one_that_was_meant(
    given: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = VerbParser(prog="x")
    made.add_argument("--max-attempts")
    made.add_argument("--colour")
    with pytest.raises(SystemExit):
        made.parse_args([given])
    assert capsys.readouterr().err.endswith(f"unrecognized arguments: {given}{hint}\n")
