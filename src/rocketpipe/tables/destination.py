"""Where a table is to be: a directory, or a PostgreSQL and a directory for the rest.

A table in a database has its spec, its checkpoint and its lock in a directory as every other, which
is all that later commands need to know: `rocketpipe table follow --to orders.follow`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rocketpipe.errors import ConfigError
from rocketpipe.tables.directory import TableDirectory

#: How the directory of a table in a database is called, if nobody says.
SUFFIX: Final = ".follow"
_DATABASE: Final = re.compile(r"postgres(ql)?://")


def destination(
    to: str | Path, topic: str | None, asked: Mapping[str, Any]
) -> tuple[TableDirectory, dict[str, Any]]:
    """The directory of a table, and what is asked of it: ``state`` is taken from that.

    Raises:
        ConfigError: If that is no place for a table.
    """
    given = {name: value for name, value in asked.items() if value is not None}
    state = given.pop("state", None)
    if "password_file" in given:
        given["password_file"] = str(Path(given["password_file"]).absolute())
    if not _DATABASE.match(str(to)):
        if state is not None:
            raise ConfigError("--state", "is for --to postgresql://…: a directory has it in itself")
        if given.get("format") == "postgres" and "database" not in given:
            raise ConfigError("--format", "postgres needs --to postgresql://USER@HOST/NAME")
        return TableDirectory(to), given
    form = given.setdefault("format", "postgres")
    if form != "postgres":
        raise ConfigError("--format", f"is {form}, and --to names a PostgreSQL")
    given["database"] = str(to)
    name = given.get("table", topic)
    if state is None and name is None:
        raise ConfigError("topic", "name the topic to follow, or the directory: --state DIR")
    directory = TableDirectory(state if state is not None else f"{name}{SUFFIX}".replace("/", "_"))
    if topic is not None and not directory.has_spec:
        given.setdefault("table", topic)
    return directory, given
