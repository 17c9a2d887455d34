"""The folder of a pipeline: its spec, and where everything of it is kept.

spark-pipeline.yml     the spec of Spark Declarative Pipelines, unchanged
transformations/       definitions in Python and SQL
.rocketpipe/           what this machine knows of its runs
    lock               held by the command that works on it
    pipeline.json      whose state this is
    runs/              a file for each run
    catalogue/         the names of tables (Derby), which Spark would forget after each run
<storage>/             as the spec says; from the folder if it is no address
    _checkpoints/      how far each flow has come (Spark's)
    tables/            rows (Spark's)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rocketpipe.projects.errors import BadSpec, MissingPackage, NoPipeline

SPEC_NAMES: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")
#: The setting of the spec's configuration that names the NameServers.
NAME_SERVER_SETTING: Final = "spark.rocketpipe.nameServer"
DEFAULT_DATABASE: Final = "default"

_FILE: Final = "file://"
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_FIELDS: Final = frozenset(
    {"name", "storage", "catalog", "database", "schema", "configuration", "libraries"}
)


@dataclass(frozen=True, slots=True)
class Folder:
    """A pipeline as its folder says it is."""

    root: Path
    spec: Path
    name: str
    #: An address with its scheme, such as ``file:///srv/my shop/storage``: Spark escapes nothing.
    storage: str
    database: str
    configuration: Mapping[str, str]
    #: Where definitions are: files, and folders that end with ``/**``.
    libraries: tuple[str, ...]

    @property
    def own(self) -> Path:
        """Where this machine keeps what it knows of the runs."""
        return self.root / ".rocketpipe"

    @property
    def local_storage(self) -> Path | None:
        """The storage as a directory, where it is one of this machine."""
        return directory_at(self.storage)

    @property
    def catalogue(self) -> Path:
        """Where Spark keeps which tables there are, by their whole paths."""
        return self.own / "catalogue"

    @property
    def tables(self) -> str:
        """Where the rows of its tables are."""
        return f"{self.storage}/tables"

    def checkpoints(self, target: str, flow: str, *, is_sink: bool) -> Path | None:
        """Where Spark keeps how far a flow has come, if that is on this machine."""
        storage = self.local_storage
        if storage is None:
            return None
        below = storage / "_checkpoints"
        return below / target / flow if is_sink else self._of_table(below, target) / flow

    def table_files(self, table: str) -> Path | None:
        """Where the files of a table are, if they are on this machine."""
        storage = self.local_storage
        if storage is None:
            return None
        tables = storage / "tables"
        is_default = self.database == DEFAULT_DATABASE
        below = tables if is_default else tables / f"{self.database}.db"
        return below / table.lower()

    def _of_table(self, below: Path, table: str) -> Path:
        return below / "spark_catalog" / self.database / table


def directory_at(address: str) -> Path | None:
    """The directory of this machine that Spark takes an address for, if it is one."""
    found = re.match(r"file:(?://)?(?=/)", address)
    return Path(address[found.end() :]) if found else None


def find(start: Path) -> Folder:
    """The pipeline in whose folder one is.

    Raises:
        NoPipeline: If there is none here or above.
        BadSpec: If its spec cannot be understood.
        MissingPackage: If no YAML can be read.
    """
    here = start.absolute()
    for place in (here, *here.parents):
        specs = [place / name for name in SPEC_NAMES if (place / name).is_file()]
        if len(specs) > 1:
            raise BadSpec(specs[0], f"there is also {specs[1].name}: remove one of them")
        if specs:
            return read(specs[0])
    raise NoPipeline(here)


def read(spec: Path) -> Folder:
    """The pipeline of a spec.

    Raises:
        BadSpec: If it cannot be understood.
        MissingPackage: If no YAML can be read.
    """
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingPackage(error.name) from error
    try:
        value = yaml.safe_load(spec.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadSpec(spec, f"is no YAML ({' '.join(str(error).split())})") from error
    if not isinstance(value, dict):
        raise BadSpec(spec, "has no fields: it needs at least name, storage and libraries")
    for field in value.keys() - _FIELDS:
        raise BadSpec(spec, f"field {field!r} is unknown: there are {', '.join(sorted(_FIELDS))}")
    configuration = value.get("configuration") or {}
    if not isinstance(configuration, dict) or not all(
        isinstance(each, str) for pair in configuration.items() for each in pair
    ):
        raise BadSpec(spec, "configuration: every name and value is text: put numbers in quotes")
    root = spec.parent.resolve()
    return Folder(
        root=root,
        spec=spec,
        name=_name(spec, value),
        storage=_storage(spec, value, root),
        database=_database(spec, value),
        configuration=dict(configuration),
        libraries=_libraries(spec, value),
    )


def _name(spec: Path, value: Mapping[str, Any]) -> str:
    name = value.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadSpec(spec, "name: a pipeline's name has letters, digits, - and _, at most 64")
    return name


def check_name(name: str) -> bool:
    """Whether a pipeline may be called so."""
    return _NAME.fullmatch(name) is not None


def _storage(spec: Path, value: Mapping[str, Any], root: Path) -> str:
    storage = value.get("storage")
    if not isinstance(storage, str) or not storage.strip("/ "):
        raise BadSpec(spec, "storage: a directory or an address is needed, such as `storage`")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", storage):
        return storage.rstrip("/")
    return f"{_FILE}{root / storage}"


def _database(spec: Path, value: Mapping[str, Any]) -> str:
    database = value.get("database", value.get("schema")) or DEFAULT_DATABASE
    if not isinstance(database, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", database):
        raise BadSpec(spec, "database: a name has small letters, digits and _")
    return database


def _libraries(spec: Path, value: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        return tuple(str(entry["glob"]["include"]) for entry in value.get("libraries") or ())
    except (TypeError, KeyError) as error:
        example = "`- glob: {include: transformations/**}`"
        raise BadSpec(spec, f"libraries: write entries like {example}") from error
