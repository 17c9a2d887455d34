"""``rocketpipe completion``: what a shell needs to complete the command.

Everything is known when the script is printed, so completing starts no Python. A *path* is what has
been said of the command so far, without flags: ``topic create``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from string import Template
from typing import Final

#: By shell, the file that its users put the line into, and the line.
SHELLS: Final = {
    "bash": ("~/.bashrc", 'eval "$(rocketpipe completion bash)"'),
    "zsh": ("~/.zshrc", 'eval "$(rocketpipe completion zsh)"'),
    "fish": ("~/.config/fish/config.fish", "rocketpipe completion fish | source"),
}

#: zsh runs bash's functions, once it has loaded what does that.
_HEADS: Final = {
    "bash": "",
    "zsh": "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }\n"
    "autoload -Uz +X bashcompinit && bashcompinit\n",
}

_BASH: Final = Template("""\
# In ${file}:  ${line}
${head}_rocketpipe() {
    local current="$${COMP_WORDS[COMP_CWORD]}" previous="$${COMP_WORDS[COMP_CWORD-1]}"
    local path="" word offered=""
    for word in "$${COMP_WORDS[@]:1:$$((COMP_CWORD - 1))}"; do
        case "$$word" in
            -*) ;;
            *) case "$${path:+$$path }$$word" in
                ${paths}) path="$${path:+$$path }$$word" ;;
            esac ;;
        esac
    done
    case "$$path $$previous" in
${choices}    esac
    if [ -z "$$offered" ]; then
        case "$$path" in
${words}        esac
    fi
    COMPREPLY=($$(compgen -W "$$offered" -- "$$current"))
}
_rocketpipe_mqadmin() {
    COMP_WORDS=(rocketpipe mqadmin "$${COMP_WORDS[@]:1}")
    COMP_CWORD=$$((COMP_CWORD + 1))
    _rocketpipe
}
complete -o default -F _rocketpipe rocketpipe
complete -o default -F _rocketpipe_mqadmin rocketpipe-mqadmin
""")

_FISH: Final = Template("""\
# In ${file}:  ${line}
function __rocketpipe_words
    set -l said (commandline -opc)
    set -l path $$argv
    for word in $$said[2..-1]
        set -l longer (string join ' ' -- $$path $$word)
        if contains -- "$$longer" ${paths}
            set path $$longer
        end
    end
    switch "$$path $$said[-1]"
${choices}    end
    switch "$$path"
${words}    end
    __fish_complete_path (commandline -ct)
end
complete -c rocketpipe -f -a '(__rocketpipe_words)'
complete -c rocketpipe-mqadmin -f -a '(__rocketpipe_words mqadmin)'
""")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser this command."""
    lines = (f"  {line:<38}  # in {file}" for file, line in SHELLS.values())
    parser.epilog = "\n".join(["examples:", *lines])
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("shell", choices=list(SHELLS), help="for which shell")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from rocketpipe.cli.main import NOUNS, parser_of

    parsers = dict(_parsers(parser_of(noun.name for noun in NOUNS), ""))
    # Of brokers that run there are verbs as well, beside the flags of one that is to run here.
    running = dict(_parsers(_verbs(parser_of(["broker"], running=True))["broker"], "broker"))
    sys.stdout.write(script(options.shell, {**running, **parsers}, _words(running["broker"])))
    return 0


def script(
    shell: str, parsers: Mapping[str, argparse.ArgumentParser], of_brokers: list[str]
) -> str:
    """The script for a shell, from the parser of each path, and the verbs of ``broker``."""
    words = {path: _words(parser) for path, parser in parsers.items()}
    words["broker"] = list(dict.fromkeys([*of_brokers, *words["broker"]]))
    choices = {
        f"{path} {flag}": values
        for path, parser in parsers.items()
        for flag, values in _choices(parser)
    }
    file, line = SHELLS[shell]
    paths = [f'"{path}"' for path in parsers if path]
    if shell == "fish":
        return _FISH.substitute(
            file=file,
            line=line,
            paths=" ".join(paths),
            choices="".join(
                _fish_case(said, values, last=True) for said, values in choices.items()
            ),
            words="".join(
                _fish_case(path, values, last=bool(_verbs(parsers[path])))
                for path, values in words.items()
            ),
        )
    return _BASH.substitute(
        file=file,
        line=line,
        head=_HEADS[shell],
        paths="|".join(paths),
        choices="".join(_bash_case(said, values, 8) for said, values in choices.items()),
        words="".join(_bash_case(path, values, 12) for path, values in words.items()),
    )


def _bash_case(said: str, words: list[str], indent: int) -> str:
    return f'{" " * indent}"{said}") offered="{" ".join(words)}" ;;\n'


def _fish_case(said: str, words: list[str], *, last: bool = False) -> str:
    end = "; return" if last else ""
    listed = f"printf '%s\\n' {' '.join(words)}" if words else "true"
    return f'        case "{said}"\n            {listed}{end}\n'


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
