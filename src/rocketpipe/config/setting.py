"""A setting: a field of a dataclass that files, the environment and operators know by a key.

    flush_interval_ms: int = setting("flushIntervalCommitLog", default=500, live=True, unit="ms")

The key is RocketMQ's, so that its ``.conf`` files work as they are. Values travel as text; a
setting reads that text into the type of its field and says what it expected when it cannot:

    int             1000, and with a unit also 30s, 5m or 64k
    bool            true, false
    str, Path       as it is, without blanks around it
    tuple[str, …]   a;b;c
    Enum, Literal   one of its names or values
    X | None        nothing at all is None
"""

from __future__ import annotations

import dataclasses
import enum
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from rocketpipe.config.duration import UNITS_MS

Unit = Literal["ms", "s", "hours", "bytes", "percent"]

#: What stands where a secret would.
HIDDEN: Final = "******"
#: Keys whose values nobody is shown.
SECRET_KEY: Final = re.compile(
    r"secret|password|passwd|credential|token|accesskey|privatekey|signature"
    r"|^initAuthenticationUser$",
    re.IGNORECASE,
)

_MARK: Final = "setting"
_SIZES: Final = {
    "": 1,
    "b": 1,
    **{f"{letter}{rest}": 1 << shift for letter, shift in (("k", 10), ("m", 20), ("g", 30))
       for rest in ("", "b", "ib")},
}  # fmt: skip
_UNIT_MS: Final = {"ms": 1, "s": 1000, "hours": 3_600_000}
_NUMBER: Final = re.compile(r"([+-]?[0-9]{1,19}) ?([A-Za-z]{0,3})")


@dataclass(frozen=True, slots=True)
class _Mark:
    key: str
    aliases: tuple[str, ...]
    live: bool
    unit: Unit | None
    least: int | None
    most: int | None
    help: str


def setting(
    key: str,
    *,
    aliases: tuple[str, ...] = (),
    live: bool = False,
    unit: Unit | None = None,
    least: int | None = None,
    most: int | None = None,
    help: str = "",  # noqa: A002 - argparse calls it so too
    **field: Any,
) -> Any:
    """Declare a field that is set by ``key``; ``default`` and ``default_factory`` as usual.

    ``live`` says that whoever uses the value looks again each time, so it may be changed while the
    server runs. ``least`` and ``most`` bound a number. ``help`` is its line in the documentation.
    """
    mark = _Mark(key, aliases, live, unit, least, most, help)
    return dataclasses.field(metadata={_MARK: mark, "wire": key, "live": live}, **field)


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of a settings class, as the outside knows it."""

    attribute: str
    key: str
    type: Any
    #: ``dataclasses.MISSING`` when it has to be given.
    default: Any
    live: bool = False
    unit: Unit | None = None
    least: int | None = None
    most: int | None = None
    aliases: tuple[str, ...] = ()
    help: str = ""
    #: What the number under the key is multiplied by to be in the field's unit.
    times: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """Every spelling of the key; ours is for TOML, the environment and flags."""
        return (self.key, *self.aliases, self.attribute)

    def read(self, text: str) -> Any:
        """Give the value that ``text`` stands for.

        Raises:
            ValueError: If it stands for none; the message says what is expected.
        """
        return _read(self, self.type, text.strip())

    def write(self, value: Any) -> str:
        """Give the text that ``read`` would read as ``value``."""
        return _write(value if self.times == 1 or value is None else value // self.times)

    def show(self, value: Any) -> str:
        """Give the text for whoever looks: a secret is not shown."""
        return shown(self.key, self.write(value))


def shown(key: str, text: str) -> str:
    """A setting's text for whoever looks: a secret is not shown."""
    return HIDDEN if text and SECRET_KEY.search(key) else text


def settings_of(cls: type) -> tuple[Setting, ...]:
    """List the settings that a dataclass declares, in the order of its fields."""
    return tuple(one for one in _fields(cls) if one.key)


def setting_for(cls: type, attribute: str, key: str, **facts: Any) -> Setting:
    """Make a setting of a field whose class does not declare it as one; facts as in ``Setting``."""
    (plain,) = (one for one in _fields(cls) if one.attribute == attribute)
    return dataclasses.replace(plain, key=key, **facts)


@cache
def _fields(cls: type) -> tuple[Setting, ...]:
    """Give all fields; those that are no settings have an empty key."""
    hints = typing.get_type_hints(cls)
    found = []
    for field in dataclasses.fields(cls):
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        mark: _Mark | None = field.metadata.get(_MARK)
        if mark is None:
            found.append(Setting(field.name, "", hints[field.name], default))
            continue
        found.append(
            Setting(
                attribute=field.name,
                key=mark.key,
                type=hints[field.name],
                default=default,
                live=mark.live,
                unit=mark.unit,
                least=mark.least,
                most=mark.most,
                aliases=mark.aliases,
                help=mark.help,
            )
        )
    return tuple(found)


def _read(of: Setting, kind: Any, text: str) -> Any:
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        inner = [one for one in typing.get_args(kind) if one is not types.NoneType]
        assert len(inner) == 1
        return None if not text else _read(of, inner[0], text)
    if kind is bool:
        return _bool(text)
    if kind is int:
        return _int(of, text)
    if kind is str:
        return text
    if kind is Path:
        if not text:
            raise ValueError("a path is expected")
        return Path(text)
    if typing.get_origin(kind) is tuple:
        return tuple(part for part in (one.strip() for one in text.split(";")) if part)
    if typing.get_origin(kind) is Literal:
        return _choice(text, {one: one for one in typing.get_args(kind)})
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _choice(
            text,
            {
                **{str(one.value): one for one in kind},
                **{one.name: one for one in kind},
            },
        )
    raise TypeError(f"{of.attribute}: no setting can be a {kind}")


def _bool(text: str) -> bool:
    # Java takes everything but "true" for false; a typing error should not switch things off.
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("true or false is expected")


def _int(of: Setting, text: str) -> int:
    found = _NUMBER.fullmatch(text)
    number = _scaled(of.unit, int(found[1]), found[2].lower()) if found else None
    if number is None:
        raise ValueError(f"{_expected_number(of)} is expected")
    if (of.least is not None and number < of.least) or (of.most is not None and number > of.most):
        raise ValueError(f"{_expected_number(of)} is expected")
    return number * of.times


def _scaled(unit: Unit | None, number: int, suffix: str) -> int | None:
    """Give ``number`` in the setting's unit, or ``None`` when the suffix does not belong there."""
    if not suffix:
        return number
    if unit == "bytes":
        return number * _SIZES[suffix] if suffix in _SIZES else None
    if unit in _UNIT_MS and suffix in UNITS_MS:
        whole, rest = divmod(number * UNITS_MS[suffix], _UNIT_MS[unit])
        return None if rest else whole
    return None


def _expected_number(of: Setting) -> str:
    text = "a whole number"
    if of.least is not None and of.most is not None:
        text += f" from {of.least} to {of.most}"
    elif of.least is not None:
        text += f" of {of.least} or more"
    elif of.most is not None:
        text += f" up to {of.most}"
    match of.unit:
        case "ms":
            text += " (milliseconds, or as 500ms, 30s, 5m, 2h, 1d)"
        case "s":
            text += " (seconds, or as 30s, 5m, 2h, 1d)"
        case "hours":
            text += " (hours, or as 2h, 3d)"
        case "bytes":
            text += " (bytes, or as 64k, 4m, 1g)"
        case "percent":
            text += " (percent: 85, not 0.85)"
    return text


def _choice(text: str, choices: Mapping[str, Any]) -> Any:
    wanted = text.lower()
    for name, value in choices.items():
        if str(name).lower() == wanted:
            return value
    raise ValueError(f"one of {', '.join(map(str, choices))} is expected")


def _write(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ";".join(map(str, value))
    if isinstance(value, enum.Enum):
        return str(value.value)
    return str(value)
