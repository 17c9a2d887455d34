"""Options of a table in Spark's catalogue: ``CREATE TABLE t USING rocketpipe OPTIONS (…)``.

Spark hands them over once, when the table is made and its columns are asked for: each twice, the
second time as ``option.name``, among the table's own properties. When the table is read it hands
over nothing but the columns, with which the options travel: see ``spark_columns``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rocketpipe.pipeline.options.text import OptionError

#: What may be amiss where not a single option came.
FORGOTTEN: Final = (
    "; of a table of the catalogue Spark forgets the OPTIONS when it is written to, or was made "
    "with columns of its own: give them again, with … FROM t WITH (nameServer = '…', …) or "
    "INSERT INTO t WITH (…)"
)

_DOUBLED: Final = "option."
_PROVIDER: Final = "provider"
_PATH: Final = "path"
_SECRET: Final = "secretKey"  # noqa: S105 - the name of an option


def is_of_table(options: Mapping[str, str]) -> bool:
    """Whether Spark asks for a table of its catalogue that is being made."""
    names = {name.lower() for name in options}
    return _PROVIDER in names or any(name.startswith(_DOUBLED) for name in names)


def given(options: Mapping[str, str]) -> dict[str, str]:
    """What the user gave, by names in lower case, without what Spark adds for a table.

    Raises:
        OptionError: If a table was given a secret, which everybody could read there.
    """
    lower = {name.lower(): value.strip() for name, value in options.items()}
    if not is_of_table(options):
        return lower
    found = {
        name.removeprefix(_DOUBLED): value
        for name, value in lower.items()
        if name.startswith(_DOUBLED)
    }
    if _SECRET.lower() in found:
        raise OptionError(
            _SECRET,
            "is not for a table, whose options Spark keeps in its catalogue for everybody: give "
            "'secretKeyFile' or 'secretKeyEnv'",
        )
    if _PATH in lower:  # the table's LOCATION
        found.setdefault(_PATH, lower[_PATH])
    return found
