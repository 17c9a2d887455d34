"""Prints the reference pages from the code that they tell of.

python tools/reference.py docs/reference [cli errors metrics api]
"""

from __future__ import annotations

import argparse
import asyncio
import enum
import inspect
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import rocketpipe
import rocketpipe.blocking
import rocketpipe.pipeline
import rocketpipe.testing
from rocketpipe import errors
from rocketpipe.broker.broker import broker
from rocketpipe.broker.config import BrokerConfig
from rocketpipe.broker.measuring import families
from rocketpipe.cli.main import NOUNS, parser_of
from rocketpipe.client import members
from rocketpipe.metrics import Family
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.store.config import StoreConfig

MARK: Final = "<!-- Printed by tools/reference.py: change it there, or what it reads. -->\n"

CLI: Final = """\
# The command

`rocketpipe NOUN VERB`, and `--help` after any of it. A command that asks a cluster finds it by
`-n HOST:PORT`, else by `ROCKETPIPE_NAMESRV` or `NAMESRV_ADDR`, else at 127.0.0.1:9876. Answers go
to standard output, as a table or, with `-o json` and `-o csv`, for programs; everything else goes
to standard error.

| exit code | means |
|---|---|
| 0 | done |
| 1 | it could not be done, or what was checked is not in order |
| 2 | it was said wrongly: a flag, a file, a value |
| 130 | interrupted |
"""

ERRORS: Final = """\
# Errors

Everything that is raised on purpose is a `rocketpipe.RocketPipeError`; the classes are in
`rocketpipe.errors`. `retryable` says whether the same again may succeed, `hint` what to do next.

"""

CODES: Final = """
## Codes of answers

What a server answers other than SUCCESS reaches a caller as `RequestRejected`, with the number as
`code` and the server's own words as `remark`. The names are RocketMQ's. Those of controllers and
of access control are known by name only.

| code | name | again? | what to do next |
|---|---|---|---|
"""

METRICS: Final = """\
# Metrics

`rocketpipe serve --http 127.0.0.1:8080` (`broker` too) answers `/metrics` in Prometheus' text
format. Names that begin with `rocketmq_` are RocketMQ's own. A series is there while the topic or
the group that it tells of is; what cannot be found out is left out, never told as zero. Of one name
at most 10,000 series are told, and `rocketpipe_series_left_out` says how many were not.

Lag is told for each queue that a group has a place in, whoever the group is: push, pull and simple
consumers, and Spark's jobs.

| name | kind | labels beside `cluster`, `node_type`, `node_id` | |
|---|---|---|---|
"""

API: Final = """\
# The Python API

What `rocketpipe`, `rocketpipe.blocking`, `rocketpipe.pipeline` and `rocketpipe.testing` export is
public, with `rocketpipe.errors`; everything else may change. How it is used is told by
[the client's page](../client.md) and [the how-tos](../README.md).
"""

BLOCKING: Final = """
## rocketpipe.blocking

The same names, arguments and results without `async`, for threads. These have a blocking face:
{faces}. The rest is the very same: {same}.
"""

#: What a session asks of its members, and nobody else.
_SESSIONS_BUSINESS: Final = {
    name
    for told in vars(members).values()
    if getattr(told, "__module__", None) == members.__name__
    for name in vars(told)
}
_STARS: Final = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}
#: Labels that every series has.
_EVERYWHERE: Final = {"cluster", "node_type", "node_id"}


# The command


def cli_page() -> Iterator[str]:
    """Every noun and verb with its arguments, from the parsers themselves."""
    yield CLI
    whole = verbs_of(parser_of(noun.name for noun in NOUNS))
    running = verbs_of(parser_of(["broker"], running=True))["broker"]
    for noun in NOUNS:
        yield from _command(whole[noun.name], noun.name, "##")
        if noun.name == "broker":
            for name, verb in verbs_of(running).items():
                yield from _command(verb, f"{noun.name} {name}", "###")


def verbs_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands below one, in the order of its help."""
    for action in parser._actions:  # noqa: SLF001  argparse has no other way to ask
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return dict(action.choices)
    return {}


def _command(parser: argparse.ArgumentParser, path: str, depth: str) -> Iterator[str]:
    yield f"\n{depth} {path}\n\n{parser.description}\n"
    rows = [row for action in parser._actions if (row := _argument(action))]  # noqa: SLF001
    verbs = verbs_of(parser)
    if rows:
        yield "\n| | |\n|---|---|\n"
        yield from (f"| {name} | {text} |\n" for name, text in rows)
    if parser.epilog and not verbs:
        yield from _below(parser.epilog)
    for name, verb in verbs.items():
        yield from _command(verb, f"{path} {name}", depth + "#")


def _argument(action: argparse.Action) -> tuple[str, str] | None:
    """One argument, written alike whatever Python's argparse would make of it."""
    is_tree = isinstance(action, argparse._SubParsersAction)  # noqa: SLF001
    if is_tree or isinstance(action, argparse._HelpAction):  # noqa: SLF001
        return None
    choices = " ".join(f"`{choice}`" for choice in action.choices or ())
    if action.option_strings:
        shown = ", ".join(f"`{flag}`" for flag in action.option_strings)
        if action.nargs != 0:
            shown += f" {choices or _code(action.metavar or action.dest.upper())}"
    else:
        shown = f"{_code(action.metavar or action.dest)} {choices}".rstrip()
    return shown, _cell((action.help or "").replace("%%", "%"))


def _code(name: str | tuple[str, ...]) -> str:
    return _cell(f"`{name if isinstance(name, str) else ' '.join(name)}`")


def _cell(text: str) -> str:
    """Text for a table, where a bar would end the cell, in code too."""
    return text.replace("|", "\\|")


def _below(epilog: str) -> Iterator[str]:
    """What stands below a help: examples are set in, and what is not is prose."""
    lines = [line for line in epilog.splitlines() if line.strip()]
    examples = [line.strip() for line in lines if line.startswith(" ")]
    if examples:
        yield "\n```sh\n" + "".join(f"{line}\n" for line in examples) + "```\n"
    prose = [line for line in lines if not line.startswith((" ", "example"))]
    if prose:
        yield f"\n{' '.join(prose)}\n"


# Errors


def errors_page() -> Iterator[str]:
    """The tree of errors, and the codes that servers answer with."""
    yield ERRORS
    yield "| error | is a | again? | |\n|---|---|---|---|\n"
    for error in _errors(errors.RocketPipeError):
        parent = "" if error is errors.RocketPipeError else f"`{error.__mro__[1].__name__}`"
        again = "yes" if error.retryable else ""
        yield f"| `{error.__name__}` | {parent} | {again} | {_first_line(error)} |\n"
    yield CODES
    for code in ResponseCode:
        if code is not ResponseCode.SUCCESS:
            refusal = errors.RequestRejected(code, "")
            again = "yes" if refusal.retryable else ""
            yield f"| {int(code)} | {code.name} | {again} | {refusal.hint} |\n"


def _errors(root: type[errors.RocketPipeError]) -> Iterator[type[errors.RocketPipeError]]:
    """The errors that ``errors.py`` has, each below what it is a kind of."""
    yield root
    for error in vars(errors).values():
        if isinstance(error, type) and error.__bases__[0] is root:
            yield from _errors(error)


# Metrics


def metrics_page() -> Iterator[str]:
    """What a broker measures that has a topic, a group and a message."""
    yield METRICS
    with tempfile.TemporaryDirectory() as scratch:
        measured = asyncio.run(_measured(Path(scratch)))
    for name, kind, help_text, labels in sorted(measured):
        shown = ", ".join(f"`{label}`" for label in labels)
        yield f"| `{name}` | {kind} | {shown} | {help_text} |\n"


async def _measured(data: Path) -> list[tuple[str, str, str, tuple[str, ...]]]:
    found: list[Callable[[], Iterable[Family]]] = []
    async with name_server(NamesrvConfig(port=0)) as names:
        config = BrokerConfig(
            data=data, name_servers=(names,), port=0, store=StoreConfig.embedded(data)
        )
        async with broker(config, watch=lambda core: found.append(partial(families, core))):
            async with (
                rocketpipe.Producer(names) as producer,
                rocketpipe.PullConsumer(names, group="shop") as consumer,
            ):
                queue = (await producer.send("orders", b"one espresso")).queue
                await consumer.assign([queue])
                await consumer.seek(queue, 0)
                while not await consumer.poll():
                    pass
                await consumer.commit()
                return [
                    (family.name, str(family.kind), family.help, _labels(family))
                    for family in found[0]()
                ]


def _labels(family: Family) -> tuple[str, ...]:
    used = {label: None for series in family.series for label in series.labels}
    return tuple(label for label in used if label not in _EVERYWHERE)


# The API


def api_page() -> Iterator[str]:
    """Every public name: how it is called, and the first sentence it says about itself."""
    yield API
    yield "\n## rocketpipe\n"
    yield from _names(rocketpipe)
    ours = sorted(set(rocketpipe.blocking.__all__))
    same = [n for n in ours if getattr(rocketpipe.blocking, n) is getattr(rocketpipe, n)]
    faces = [name for name in ours if name not in same]
    yield BLOCKING.format(faces=_coded(faces), same=_coded(same))
    for name in faces:
        yield from _class(name, getattr(rocketpipe.blocking, name), head_only=True)
    for module in (rocketpipe.pipeline, rocketpipe.testing):
        yield f"\n## {module.__name__}\n"
        yield from _names(module)


def _coded(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _names(module: ModuleType) -> Iterator[str]:
    for name in sorted(module.__all__, key=str.lower):
        value = getattr(module, name)
        if inspect.isclass(value):
            yield from _class(name, value)
        elif callable(value):
            yield f"\n### {name}\n\n{_first_line(value)}\n\n{_signature(name, value)}"
        elif not name.startswith("__"):
            yield f"\n### {name}\n\nReturned by a handler, it gives the message up at once.\n"


def _class(name: str, value: type[Any], *, head_only: bool = False) -> Iterator[str]:
    yield f"\n### {name}\n\n{_first_line(value)}\n"
    if issubclass(value, enum.Enum):
        yield f"\nOne of {_coded(each.name for each in value)}.\n"
        return
    if "__init__" in vars(value) and not issubclass(value, Exception):
        yield f"\n{_signature(name, value)}"
    if not head_only:
        yield from _table(_members(value))
    if value is rocketpipe.Admin:  # its nouns are there once it is made, and nothing is opened yet
        for noun, part in vars(rocketpipe.Admin("127.0.0.1:9876")).items():
            if not noun.startswith("_"):
                yield f"\n`admin.{noun}`: {_first_line(type(part))}\n"
                yield from _table(_members(type(part)))


def _table(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    told = list(rows)
    if told:
        yield "\n| | |\n|---|---|\n"
        yield from (f"| {_code(name)} | {text} |\n" for name, text in told)


def _members(value: type[Any]) -> Iterator[tuple[str, str]]:
    for name, member in inspect.getmembers_static(value):
        inside = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if name.startswith("_") or name in _SESSIONS_BUSINESS or not inspect.getdoc(inside):
            continue
        if inspect.isfunction(inside):
            wait = "await " if inspect.iscoroutinefunction(inside) else ""
            given = ", ".join(_arguments(inside, typed=False, bound=True))
            yield f"{wait}{name}({given})", _first_line(inside)
        elif isinstance(inside, property):
            yield name, _first_line(inside)


def _signature(name: str, value: Callable[..., Any]) -> str:
    """How it is called, a line for each argument where one line is not enough."""
    parts = _arguments(value)
    flat = f"{name}({', '.join(parts)})"
    if len(flat) > 90:
        flat = f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + ")"
    return f"```python no-run\n{flat}\n```\n"


def _arguments(value: Callable[..., Any], *, typed: bool = True, bound: bool = False) -> list[str]:
    """The arguments, ``bound`` to an object or not, as they would be written."""
    parts: list[str] = []
    named_only = False
    for each in list(inspect.signature(value).parameters.values())[1 if bound else 0 :]:
        if each.kind is each.KEYWORD_ONLY and not named_only:
            parts.append("*")
        named_only = named_only or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        stars = _STARS.get(str(each.kind.name), "")
        text = stars + each.name
        if typed and each.annotation is not each.empty:
            text += f": {_annotation(each.annotation)}"
        if each.default is not each.empty:
            equals = " = " if typed else "="
            text += equals + _default(each.default)
        parts.append(text)
    return parts


def _annotation(given: object) -> str:
    text = given if isinstance(given, str) else inspect.formatannotation(given)
    return text.replace("'", "")


def _default(value: object) -> str:
    """A default as one would write it: by its name, where it is no plain value."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if value is None or isinstance(value, bool | int | float | str | bytes | tuple):
        return repr(value).replace("'", '"')
    home = vars(sys.modules[type(value).__module__])
    named = (name for name, known in home.items() if known is value and name[0] != "_")
    return next(named, "…")


def _first_line(value: object) -> str:
    text = (inspect.getdoc(value) or "").partition("\n")[0]
    return _cell(text.replace("; see the top of this file", "").replace("``", "`"))


PAGES: Final[dict[str, Callable[[], Iterator[str]]]] = {
    "cli": cli_page,
    "errors": errors_page,
    "metrics": metrics_page,
    "api": api_page,
}


def main() -> int:
    """Print the pages into a directory."""
    parser = argparse.ArgumentParser(description="Print the reference pages.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=", ".join(PAGES))
    options = parser.parse_args()
    if strange := set(options.pages) - set(PAGES):
        parser.error(f"no such page: {', '.join(sorted(strange))}; there are {', '.join(PAGES)}")
    options.directory.mkdir(parents=True, exist_ok=True)
    for name in options.pages or PAGES:
        text = MARK + "".join(PAGES[name]())
        (options.directory / f"{name}.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
