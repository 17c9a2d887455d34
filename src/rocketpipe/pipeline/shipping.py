"""Makes a session know the source, also where it is not installed.

Where the wheel is installed on every node, Spark finds the source by itself. Where it is not, there
are three kinds of Python processes to bring it to:

    the driver's own      has it already, or it could not call this
    workers               get it as a zip, the way of ``--py-files``
    planners of streams   run beside the driver and see neither: they unpickle the source first

So what is registered is a class that needs nothing but PySpark to be unpickled, and then looks for
the package where the driver found it.
"""

from __future__ import annotations

import atexit
import logging
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

log = logging.getLogger("rocketpipe.pipeline")

PUSH_DOWN_SETTING: Final = "spark.sql.python.filterPushdown.enabled"

_PACKAGES: Final = ("rocketpipe", "pyspark_rocketpipe")


def register(spark: SparkSession, *, ship: bool | None = None) -> None:
    """Have a session know ``format("rocketpipe")``, and use a query's conditions to read less.

    ``ship`` sends this package to the workers; left open, it is sent unless Spark runs here alone.
    They need msgspec and PySpark's own pyarrow. A session that comes by Spark Connect has its
    planners on another machine: install the wheel there instead.
    """
    spark.conf.set(PUSH_DOWN_SETTING, "true")
    root = package_root()
    if ship is None:
        ship = not (spark.sparkContext.master or "local").startswith("local")
    if ship:
        archive = root if root.is_file() else packed(root)
        spark.sparkContext.addPyFile(str(archive))
        log.info("package sent to workers archive=%s", archive.name)
    spark.dataSource.register(source_found_at(str(root)))


def package_root() -> Path:
    """The directory, or the zip, that this package was imported from."""
    return Path(__file__).parents[2]


def packed(root: Path) -> Path:
    """A zip of this package's Python files, which goes when the process does."""
    directory = Path(tempfile.mkdtemp(prefix="rocketpipe-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    archive = directory / "rocketpipe.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for package in _PACKAGES:
            for path in sorted((root / package).rglob("*.py")):
                file.write(path, path.relative_to(root).as_posix())
    return archive


def source_found_at(root: str) -> type[DataSource]:
    """A source that is pickled whole and looks for this package in ``root`` when it is used."""
    from pyspark.sql.datasource import DataSource

    # Nothing in here may refer to a name of this module: it would be imported to be unpickled.
    class Source(DataSource):
        """What Spark finds under the name ``rocketpipe``."""

        @classmethod
        def name(cls) -> str:
            return "rocketpipe"

        def _here(self) -> Any:
            import importlib.util
            import sys

            if importlib.util.find_spec("rocketpipe") is None and root not in sys.path:
                sys.path.append(root)
            from rocketpipe.pipeline.source import RocketPipeSource

            return RocketPipeSource(self.options)

        def schema(self) -> Any:
            return self._here().schema()

        def reader(self, schema: Any) -> Any:
            source = self._here()
            # This session was told to allow it.
            source.options.setdefault("pushDown", "true")
            return source.reader(schema)

        def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
            return self._here().streamReader(schema)

        def writer(self, schema: Any, overwrite: bool) -> Any:
            return self._here().writer(schema, overwrite)

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
            return self._here().streamWriter(schema, overwrite)

    return Source
