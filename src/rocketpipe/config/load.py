"""From what was said in files, in the environment and by flags to settings.

What was said is a list of ``Given`` in order of strength, and the last word on a key counts:

    a profile  <  TOML  <  RocketMQ's .conf  <  the environment  <  flags

``Choice`` reads the words that count into the types of the settings, remembers where each came
from, and knows which words fell on deaf ears.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from rocketpipe.config.conf_file import MAX_BYTES, read_conf
from rocketpipe.config.setting import Setting
from rocketpipe.errors import ConfigError

T = TypeVar("T")

PREFIX: Final = "ROCKETPIPE_"
#: Variables with our prefix that are no settings.
_NO_SETTINGS: Final = frozenset(
    {
        "ROCKETPIPE_PURE",
        "ROCKETPIPE_NAMESRV",
        "ROCKETPIPE_TLS",
        "ROCKETPIPE_CA_FILE",
        "ROCKETPIPE_CERT_FILE",
        "ROCKETPIPE_KEY_FILE",
        "ROCKETPIPE_ACCESS_KEY",
        "ROCKETPIPE_SECRET_KEY",
        "ROCKETPIPE_SECRET_KEY_FILE",
    }
)
#: The tables that a file of TOML may have, of all servers together.
TABLES: Final = ("broker", "store", "namesrv")
_TOML_PLACE: Final = re.compile(r" \(at line (\d+), column \d+\)$")


@dataclass(frozen=True, slots=True)
class Given:
    """A value that somebody gave, as text, and where it was said."""

    name: str
    text: str
    origin: str


def given_in_file(path: Path, tables: Collection[str] = (), *, outside: bool = True) -> list[Given]:
    """Read what a file says; one named ``*.toml`` is TOML, any other is RocketMQ's ``.conf``.

    In TOML, the tables named in ``tables`` are read as well and count more than what stands
    outside of them; the other ``TABLES`` are somebody else's. Without ``outside`` they alone are
    read.

    Raises:
        ConfigError: If it cannot be read.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read ({error.strerror})") from error
    if path.suffix.lower() == ".toml":
        return list(_given_in_toml(data, path, tables, outside=outside))
    if not outside:
        return []
    return [
        Given(entry.key, entry.value, f"{path} line {entry.line}")
        for entry in read_conf(data, str(path))
    ]


def given_in_environment(
    environ: Mapping[str, str], settings: Iterable[Setting], *, name_servers: bool = True
) -> list[Given]:
    """Read ``ROCKETPIPE_LISTEN_PORT`` and the like, and RocketMQ's own ``NAMESRV_ADDR``."""
    given = []
    if name_servers and environ.get("NAMESRV_ADDR"):
        given.append(Given("namesrvAddr", environ["NAMESRV_ADDR"], "NAMESRV_ADDR"))
    by_variable = {_variable(name): one.key for one in settings for name in one.names}
    for variable in sorted(environ):
        if variable.startswith(PREFIX) and variable not in _NO_SETTINGS:
            name = by_variable.get(variable, variable)
            given.append(Given(name, environ[variable], variable))
    return given


class Choice:
    """The words that count, for settings that several classes may share.

    ``known`` are keys of RocketMQ that may be given without being used by any setting; ``heard``
    are those that the caller looks at by itself; ``idle`` those of settings that nothing reads yet.
    """

    def __init__(
        self,
        given: Iterable[Given],
        settings: Sequence[Setting],
        known: Collection[str] = (),
        *,
        heard: Collection[str] = (),
        idle: Collection[str] = (),
    ) -> None:
        self._known = known
        self._idle = idle
        self._heard = heard
        self._by_name = {name: one.key for one in settings for name in one.names}
        self._last: dict[str, Given] = {}
        self._repeated: list[str] = []
        self._doubts: list[str] = []
        for one in given:
            self._hear(one)

    def _hear(self, one: Given) -> None:
        key = self._by_name.get(one.name, one.name)
        before = self._last.get(key)
        if before is not None and before.text != one.text and _same_file(before, one):
            self._repeated.append(
                f"{one.origin}: {one.name} is set for the second time, which counts "
                f"({before.origin} said {before.text!r})"
            )
        self._last[key] = one

    def given(self, key: str) -> Given | None:
        """Give the word that counts for a key, or ``None`` when nobody said one."""
        return self._last.get(key)

    def origin(self, key: str) -> str:
        """Say where the value of a key comes from."""
        one = self._last.get(key)
        return one.origin if one else "default"

    def read(self, one: Setting) -> Any:
        """Give the value of a setting, the default when nobody gave one.

        Raises:
            ConfigError: If the text that counts is not what the setting takes.
        """
        given = self._last.get(one.key)
        if given is None:
            return one.default
        try:
            return one.read(given.text)
        except ValueError as error:
            raise ConfigError(given.origin, f"{given.name}={given.text!r}: {error}") from error

    def values(self, settings: Iterable[Setting]) -> dict[str, Any]:
        """Give what was given for ``settings``, by attribute.

        Raises:
            ConfigError: If a text is not what its setting takes.
        """
        return {one.attribute: self.read(one) for one in settings if one.key in self._last}

    def build(self, cls: type[T], **values: Any) -> T:
        """Make a ``cls`` of values.

        Raises:
            ConfigError: If they do not fit together.
        """
        try:
            return cls(**values)
        except ValueError as error:
            raise self.blamed(error) from error

    def blamed(self, error: ValueError) -> ConfigError:
        """What to raise for an error that begins with the name of a setting and a colon.

        It says where that setting was given, as an error of its text alone would.
        """
        name, _, reason = str(error).partition(": ")
        given = self._last.get(self._by_name.get(name, name))
        if given is None:
            return ConfigError("settings", str(error))
        return ConfigError(given.origin, f"{given.name}={given.text!r}: {reason}")

    def warn(self, line: str) -> None:
        """Have ``warnings`` say this too, as whoever reads the values knows more of them."""
        self._doubts.append(line)

    def unknown(self) -> list[str]:
        """Say, a line each, which names are none, and which were meant."""
        return [self._unknown(one) for one in self._strangers() if one.name not in self._known]

    def warnings(self) -> list[str]:
        """Say, a line each, what is not as it was said: names, repeated keys, changed values."""
        return [*self.unknown(), *self._repeated, *self._doubts]

    def notes(self) -> list[str]:
        """Say which keys of RocketMQ were given that nothing here depends on."""
        idle = [one for one in self._strangers() if one.name in self._known]
        idle += [one for key, one in self._last.items() if key in self._idle]
        names = ", ".join(sorted(one.name for one in idle))
        return [f"these keys are known but have no effect here: {names}"] if names else []

    def _strangers(self) -> list[Given]:
        used = {*self._by_name.values(), *self._heard}
        return [one for key, one in self._last.items() if key not in used]

    def _unknown(self, one: Given) -> str:
        kind = "setting"
        if one.name.startswith("["):
            kind, candidates = "table", {f"[{name}]": f"[{name}]" for name in TABLES}
        elif one.name.startswith(PREFIX):
            candidates = {_variable(name): _variable(name) for name in self._by_name}
        else:
            candidates = {name.lower(): name for name in (*self._known, *self._by_name)}
        near = difflib.get_close_matches(
            one.name if one.name.startswith(PREFIX) else one.name.lower(), candidates, n=1
        )
        hint = f": did you mean {candidates[near[0]]}?" if near else ""
        name = one.name[:100] or "what has no name"
        return f"{one.origin}: {name} is no {kind} and has no effect{hint}"


def _given_in_toml(
    data: bytes, path: Path, tables: Collection[str], *, outside: bool
) -> Iterator[Given]:
    if len(data) > MAX_BYTES:
        raise ConfigError(str(path), f"more than {MAX_BYTES} bytes are too many for settings")
    try:
        content = tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), f"byte {error.start} is not UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        place = _TOML_PLACE.search(str(error))
        where = f"{path} line {place[1]}" if place else str(path)
        raise ConfigError(where, _TOML_PLACE.sub("", str(error))) from error
    for name, value in content.items():
        if outside and not isinstance(value, dict):
            yield Given(name, _toml_text(value, path, name), str(path))
        elif outside and name not in {*TABLES, *tables}:
            yield Given(f"[{name}]", "", str(path))
    for table in tables:
        inner = content.get(table, {})
        if not isinstance(inner, dict):
            raise ConfigError(str(path), f"{table} is a table: write [{table}]")
        for name, value in inner.items():
            yield Given(name, _toml_text(value, path, name), f"{path} [{table}]")


def _toml_text(value: object, path: Path, name: str) -> str:
    """Give the text that a ``.conf`` file would have for a value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ";".join(value)
    raise ConfigError(
        str(path), f"{name}: text, a whole number, true or false, or a list of texts is expected"
    )


def _variable(name: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return PREFIX + words.upper()


def _same_file(one: Given, other: Given) -> bool:
    return one.origin.partition(" line ")[0] == other.origin.partition(" line ")[0]
