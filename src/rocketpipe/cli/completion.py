"""``rocketpipe completion``: what a shell needs to complete the command.

Everything is known when the script is printed, so completing starts no Python.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from string import Template
from typing import Final

SHELLS: Final = ("bash", "zsh")

_SCRIPT: Final = Template("""\
# In your ${file}:  eval "$$(rocketpipe completion ${kind})"
${head}_rocketpipe() {
    local current="$${COMP_WORDS[COMP_CWORD]}" previous="$${COMP_WORDS[COMP_CWORD-1]}"
    local path="" word words=""
    for word in "$${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case "$$word" in
            -*) ;;
            *) case "$${path:+$$path }$$word" in
                ${paths}) path="$${path:+$$path }$$word" ;;
            esac ;;
        esac
    done
    case "$$path $$previous" in
${choices}    esac
    if [ -z "$$words" ]; then
        case "$$path" in
${words}        esac
    fi
    COMPREPLY=($$(compgen -W "$$words" -- "$$current"))
    if [ $${#COMPREPLY[@]} -eq 0 ]; then COMPREPLY=($$(compgen -f -- "$$current")); fi
}
complete -F _rocketpipe rocketpipe
""")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser this command."""
    parser.epilog = (
        'example:\n  eval "$(rocketpipe completion bash)"    # in ~/.bashrc\n'
        '  eval "$(rocketpipe completion zsh)"     # in ~/.zshrc'
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("shell", choices=SHELLS, help="for which shell")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from rocketpipe.cli.main import NOUNS, parser_of

    whole = parser_of(noun.name for noun in NOUNS)
    sys.stdout.write(script(options.shell, dict(_parsers(whole, ""))))
    return 0


def script(shell: str, parsers: Mapping[str, argparse.ArgumentParser]) -> str:
    """The script for a shell, from the parser of each path such as ``topic create``."""
    words = "".join(
        f'            "{path}") words="{" ".join(_words(parser))}" ;;\n'
        for path, parser in parsers.items()
    )
    choices = "".join(
        f'        "{path} {flag}") words="{" ".join(values)}" ;;\n'
        for path, parser in parsers.items()
        for flag, values in _choices(parser)
    )
    head = "autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else ""
    return _SCRIPT.substitute(
        kind=shell,
        file=f"~/.{shell}rc",
        head=head,
        paths="|".join(f'"{path}"' for path in parsers if path),
        words=words,
        choices=choices,
    )


def _parsers(
    parser: argparse.ArgumentParser, path: str
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield path, parser
    for name, verb in _verbs(parser).items():
        yield from _parsers(verb, f"{path} {name}".strip())


def _verbs(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to ask
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return action.choices
    return {}


def _words(parser: argparse.ArgumentParser) -> list[str]:
    flags = [
        flag
        for action in parser._actions  # noqa: SLF001
        for flag in action.option_strings
        if flag.startswith("--")
    ]
    positional = [
        str(choice)
        for action in parser._actions  # noqa: SLF001
        if not action.option_strings and action.choices is not None
        for choice in action.choices
    ]
    return [*positional, *flags]


def _choices(parser: argparse.ArgumentParser) -> Iterator[tuple[str, list[str]]]:
    for action in parser._actions:  # noqa: SLF001
        if action.option_strings and action.choices is not None:
            for flag in action.option_strings:
                yield flag, [str(choice) for choice in action.choices]
