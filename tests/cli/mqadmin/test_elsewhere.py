"""What to do instead of verbs that are not here."""

from __future__ import annotations

import re

import pytest

from rocketpipe.cli.main import NOUNS, main, parser_of
from rocketpipe.cli.mqadmin.elsewhere import ELSEWHERE

Capture = pytest.CaptureFixture[str]


def told(capsys: Capture, *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("verb", ["statsAll", "statsall"])
def test_a_verb_of_the_original_that_is_not_here_is_no_slip_for_another(
    verb: str, capsys: Capture
) -> None:
    error = told(capsys, "mqadmin", verb)
    assert "statsAll is not here: try rocketpipe topic list --stats" in error
    assert "did you mean" not in error


def test_what_is_named_instead_is_there_and_no_verb_is_both(capsys: Capture) -> None:
    commands = re.findall(r"rocketpipe ([a-z]+(?: [a-z]+)?)", " ".join(ELSEWHERE.values()))
    nouns = {noun.name for noun in NOUNS}
    for command in set(commands):
        noun, _, verb = command.partition(" ")
        assert noun in nouns, command
        if verb and noun not in ("broker", "doctor"):
            with pytest.raises(SystemExit) as ended:
                parser_of([noun]).parse_args([noun, verb, "--help"])
            assert ended.value.code == 0, command
    capsys.readouterr()
    main(["mqadmin"])
    here = set(re.findall(r"^    ([a-zA-Z]+)", capsys.readouterr().out, re.MULTILINE))
    assert not here & ELSEWHERE.keys()
