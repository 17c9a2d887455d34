"""``rocketpipe completion``: what a shell needs to complete the command.

The words of the command are known when the script is printed, so completing them starts no Python.
Names of topics, groups and brokers are asked for, by ``rocketpipe completion names``. A *path* is
what has been said of the command so far, without flags: ``topic create``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from string import Template
from typing import Final

from rocketpipe.cli.parsers import Help

#: By shell, the file that its users put the line into, and the line.
SHELLS: Final = {
    "bash": ("~/.bashrc", 'eval "$(rocketpipe completion bash)"'),
    "zsh": ("~/.zshrc", 'eval "$(rocketpipe completion zsh)"'),
    "fish": ("~/.config/fish/config.fish", "rocketpipe completion fish | source"),
}

#: What a script asks for while it completes, and what is known by which argument.
NAMES: Final = "names"
_KINDS: Final = {
    "topic": "topics",
    "group": "groups",
    "groupName": "groups",
    "source": "groups",
    "target": "groups",
    "broker": "brokers",
    "brokerName": "brokers",
}
#: Here names are made up.
_NEW_NAMES: Final = frozenset({"topic create", "group create", "serve", "broker"})
_PATIENCE_S: Final = 2

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
    local path="" word before="" place=0 kind="" offered="" asked=()
    for word in "$${COMP_WORDS[@]:1:$$((COMP_CWORD - 1))}"; do
        case "$$before" in
            -n|--namesrv) asked=(-n "$$word") ;;
        esac
        case "$$word" in
            -*) ;;
            *) case "$${path:+$$path }$$word" in
                ${paths}) path="$${path:+$$path }$$word" ;;
                *) case "$$before" in -*) ;; *) place=$$((place + 1)) ;; esac ;;
            esac ;;
        esac
        before="$$word"
    done
    case "$$path $$previous" in
${choices}    esac
    case "$$path $$previous" in
${named_flags}        *" -"*) ;;
        *) case "$$path $$place" in
${named_places}        esac ;;
    esac
    case "$$current" in
        -*) ;;
        *) [ -n "$$kind" ] && offered="$$(rocketpipe completion names "$$kind" \
            "$${asked[@]}" 2> /dev/null)" ;;
    esac
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
    set -l place 0
    set -l before ""
    set -l asked
    for word in $$said[2..-1]
        if contains -- "$$before" -n --namesrv
            set asked -n $$word
        end
        set -l longer (string join ' ' -- $$path $$word)
        if contains -- "$$longer" ${paths}
            set path $$longer
        else if not string match -q -- '-*' "$$word"; and not string match -q -- '-*' "$$before"
            set place (math $$place + 1)
        end
        set before $$word
    end
    switch "$$path $$said[-1]"
${choices}    end
    set -l kind
    switch "$$path $$said[-1]"
${named_flags}    end
    if test -z "$$kind"; and not string match -q -- '-*' "$$said[-1]"
        switch "$$path $$place"
${named_places}        end
    end
    if test -n "$$kind"; and not string match -q -- '-*' (commandline -ct)
        rocketpipe completion names $$kind $$asked 2> /dev/null; and return
    end
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
    parser.formatter_class = Help
    parser.add_argument(
        "shell", choices=[*SHELLS, NAMES], help=f"for which shell; {NAMES} is what scripts ask for"
    )
    parser.add_argument("kind", nargs="?", choices=sorted(set(_KINDS.values())), help="of what")
    parser.add_argument(
        "-n", "--namesrv", metavar="HOST:PORT[;HOST:PORT]", help="the NameServers that know them"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.shell == NAMES:
        return _names(options)
    from rocketpipe.cli.main import NOUNS, parser_of

    parsers = dict(_parsers(parser_of(noun.name for noun in NOUNS), ""))
    # Of brokers that run there are verbs as well, beside the flags of one that is to run here.
    running = dict(_parsers(_verbs(parser_of(["broker"], running=True))["broker"], "broker"))
    sys.stdout.write(script(options.shell, {**running, **parsers}, _words(running["broker"])))
    return 0


def _names(options: argparse.Namespace) -> int:
    """Print the names of a kind, a line each; whoever waits for Tab gets no error, and soon."""
    import asyncio

    from rocketpipe.cli.terminal import connecting
    from rocketpipe.client.admin.admin import Admin
    from rocketpipe.errors import RocketPipeError

    async def names() -> list[str]:
        async with asyncio.timeout(_PATIENCE_S):
            async with Admin(connecting.name_servers(options.namesrv)) as admin:
                if options.kind == "topics":
                    return await admin.topics.names()
                if options.kind == "groups":
                    return await admin.groups.names()
                return [each.name for each in await admin.brokers.all()]

    try:
        found = asyncio.run(names())
    except (RocketPipeError, TimeoutError):
        return 1
    sys.stdout.write("".join(f"{name}\n" for name in found))
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
    named_flags, named_places = _named(parsers)
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
            named_flags="".join(_fish_kind(*each) for each in named_flags.items()),
            named_places="".join(_fish_kind(*each) for each in named_places.items()),
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
        named_flags="".join(_bash_kind(*each) for each in named_flags.items()),
        named_places="".join(_bash_kind(*each) for each in named_places.items()),
        words="".join(_bash_case(path, values, 12) for path, values in words.items()),
    )


def _bash_case(said: str, words: list[str], indent: int) -> str:
    return f'{" " * indent}"{said}") offered="{" ".join(words)}" ;;\n'


def _bash_kind(said: str, kind: str) -> str:
    return f'        "{said}") kind={kind} ;;\n'


def _fish_kind(said: str, kind: str) -> str:
    return f'        case "{said}"\n            set kind {kind}\n'


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


def _named(
    parsers: Mapping[str, argparse.ArgumentParser],
) -> tuple[dict[str, str], dict[str, str]]:
    """What kind of name follows a flag, and what kind stands in which place, by path."""
    flags, places = {}, {}
    for path, parser in parsers.items():
        if path in _NEW_NAMES or path.startswith("store "):  # which asks no server
            continue
        place = 0
        for action in parser._actions:  # noqa: SLF001
            kind = None if action.choices or action.nargs == 0 else _KINDS.get(action.dest)
            for flag in action.option_strings if kind else ():
                flags[f"{path} {flag}"] = str(kind)
            if not action.option_strings:
                if kind:
                    places[f"{path} {place}"] = kind
                place += 1
    return flags, places


def _choices(parser: argparse.ArgumentParser) -> Iterator[tuple[str, list[str]]]:
    for action in parser._actions:  # noqa: SLF001
        if action.option_strings and action.choices is not None:
            for flag in action.option_strings:
                yield flag, [str(choice) for choice in action.choices]
