"""Makes a session know the source, also where it is not installed.

Where the wheel is installed on every node, Spark finds the source by itself. Where it is not, there
are three kinds of Python processes to bring it to:

    the driver's own      has it already, or it could not call this
    workers               get it as a zip, the way of ``--py-files``
    planners of streams   run beside the driver and see neither: they unpickle the source first

So what is registered is a class that needs nothing but PySpark to be unpickled, and then looks for
the package where the driver found it. With Spark Connect the driver is another process, and maybe
elsewhere: then the class carries the package with it.
"""

from __future__ import annotations

import atexit
import logging
import re
import shutil
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

log = logging.getLogger("rocketpipe.pipeline")

PUSH_DOWN_SETTING: Final = "spark.sql.python.filterPushdown.enabled"

_REPLACES_SOURCES: Final = "org.apache.spark.sql.execution.datasources.DataSourceManager"

_PACKAGES: Final = ("rocketpipe", "pyspark_rocketpipe")


def register(spark: SparkSession, *, ship: bool | None = None) -> None:
    """Have a session know ``format("rocketpipe")``, and use a query's conditions to read less.

    ``ship`` sends this package to the workers; left open, it is sent unless all of Spark runs in
    this process. They need msgspec and PySpark's own pyarrow. So does the server of Spark Connect:
    to it the package goes along with the source.
    """
    spark.conf.set(PUSH_DOWN_SETTING, "true")
    root = package_root()
    remote = is_remote(spark)
    if ship is None:
        ship = remote or not runs_alone(spark.sparkContext.master)
    archive = None
    if ship:
        archive = root if root.is_file() else packed(root)
        if remote:
            spark.addArtifacts(str(archive), pyfile=True)
        else:
            spark.sparkContext.addPyFile(str(archive))
        log.info("package sent to workers archive=%s", archive.name)
    # Beside a driver of our own, planners find the package where this process did.
    carried = archive.read_bytes() if remote and archive is not None else None
    if not remote:
        _quieten(spark)
    spark.dataSource.register(source_found_at(str(root), carried))


def _quieten(spark: SparkSession) -> None:
    """Have Spark not warn that this source takes the place of the one it has found by itself.

    That is what was asked for, and Spark would say it again with each stream.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - there is no other way to its loggers
    with suppress(Exception):  # another logger than Spark's own: then it says so
        log4j = jvm.org.apache.logging.log4j
        log4j.core.config.Configurator.setLevel(_REPLACES_SOURCES, log4j.Level.ERROR)


def is_remote(spark: SparkSession) -> bool:
    """Whether a session comes by Spark Connect: its driver is another process."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def runs_alone(master: str | None) -> bool:
    """Whether a master means this process alone, and no workers elsewhere: ``local[2]`` does."""
    return re.fullmatch(r"local(\[[^]]*\])?", master or "local") is not None


def package_root() -> Path:
    """The directory, or the zip, that this package was imported from."""
    return Path(__file__).parents[2]


def packed(root: Path, directory: Path | None = None) -> Path:
    """A zip of this package's Python files, which goes with the directory, or with the process."""
    if directory is None:
        directory = Path(tempfile.mkdtemp(prefix="rocketpipe-"))
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
    archive = directory / "rocketpipe.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for package in _PACKAGES:
            for path in sorted((root / package).rglob("*.py")):
                file.write(path, path.relative_to(root).as_posix())
    return archive


def source_found_at(root: str, carried: bytes | None = None) -> type[DataSource]:
    """A source that is pickled whole and looks for this package in ``root`` when it is used.

    ``carried`` is a zip of the package for processes that have neither, nor that path.
    """
    from pyspark.sql.datasource import DataSource

    # Nothing in here may refer to a name of this module: it would be imported to be unpickled.
    def find(archive: bytes | None) -> None:
        """Make sure that this process can import the package."""
        import importlib.util
        import sys

        if importlib.util.find_spec("rocketpipe") is None:
            place = root if archive is None else unpacked(archive)
            if place not in sys.path:
                sys.path.append(place)

    def unpacked(archive: bytes) -> str:
        """Where the archive is kept on this machine: once for all processes of a user."""
        import hashlib
        import os
        import tempfile
        from pathlib import Path

        name = f"rocketpipe-{os.getuid()}-{hashlib.sha256(archive).hexdigest()[:20]}"
        directory = Path(tempfile.gettempdir()) / name
        directory.mkdir(mode=0o700, exist_ok=True)
        owned = directory.lstat()
        if owned.st_uid != os.getuid() or owned.st_mode & 0o7077 or directory.is_symlink():
            directory = Path(tempfile.mkdtemp(prefix="rocketpipe-"))  # somebody else made that one
        path = directory / "rocketpipe.zip"
        if not path.exists():
            draft = directory / f"{os.getpid()}.draft"
            draft.write_bytes(archive)
            draft.replace(path)
        return str(path)

    def carrying(part: Any) -> Any:
        """The same reader or writer, which brings the package to whoever unpickles it."""
        base: Any = type(part)
        if carried is None:
            return part

        def brought(archive: bytes, pickled: bytes) -> Any:
            import pickle

            find(archive)
            return pickle.loads(pickled)  # noqa: S301 - what this source has pickled itself

        class Carried(base):  # type: ignore[misc]
            def __reduce__(self) -> Any:
                import pickle

                plain = base.__new__(base)
                plain.__dict__.update(vars(self))
                return brought, (carried, pickle.dumps(plain))

        part.__class__ = Carried
        return part

    def lacking(error: ImportError) -> Any:
        """A stream's reader that says so when it is asked: Spark hides what is raised earlier."""
        from pyspark.sql.datasource import DataSourceStreamReader

        class Lacking(DataSourceStreamReader):
            def initialOffset(self) -> Any:  # noqa: N802 - Spark's name
                raise error

            def latestOffset(self, start: Any = None, limit: Any = None) -> Any:  # noqa: N802
                raise error

            def partitions(self, start: Any, end: Any) -> Any:
                raise error

            def read(self, partition: Any) -> Any:
                raise error

        return Lacking()

    class Source(DataSource):
        """What Spark finds under the name ``rocketpipe``."""

        @classmethod
        def name(cls) -> str:
            return "rocketpipe"

        def _here(self) -> Any:
            import os
            import sys

            find(carried)
            try:
                from rocketpipe.pipeline.source import RocketPipeSource
            except ImportError as error:
                os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # the sentence is what helps
                raise ImportError(
                    f"{error}: install rocketpipe, with its extra spark, or what is missing "
                    f"({error.name}), for {sys.executable}, which plans and reads here"
                ) from error

            return RocketPipeSource(self.options)

        def schema(self) -> Any:
            return self._here().schema()

        def reader(self, schema: Any) -> Any:
            source = self._here()
            # This session was told to allow it.
            source.options.setdefault("pushDown", "true")
            return carrying(source.reader(schema))

        def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
            try:
                source = self._here()
            except ImportError as error:
                return lacking(error)
            return carrying(source.streamReader(schema))

        def writer(self, schema: Any, overwrite: bool) -> Any:
            return carrying(self._here().writer(schema, overwrite))

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
            return carrying(self._here().streamWriter(schema, overwrite))

    return Source
