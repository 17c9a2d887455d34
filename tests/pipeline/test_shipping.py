"""The source where it is not installed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from pyspark import cloudpickle

from rocketpipe.pipeline.shipping import package_root, packed, source_found_at

WITHOUT_US = """
import pickle, sys
sys.path[:] = [entry for entry in sys.path if entry != {root!r}]
sys.meta_path[:] = [each for each in sys.meta_path if "editable" not in repr(each).lower()]
try:
    import rocketpipe
except ImportError:
    pass
else:
    raise SystemExit("it is installed here")
"""


@pytest.fixture(scope="module")
def archive() -> Path:
    return packed(package_root())


def run(program: str, **given: bytes) -> str:
    head = WITHOUT_US.format(root=str(package_root()))
    values = "".join(f"{name} = {value!r}\n" for name, value in given.items())
    ran = subprocess.run(
        [sys.executable, "-c", head + values + program], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_the_zip_holds_the_python_of_both_packages_and_nothing_else(archive: Path) -> None:
    names = zipfile.ZipFile(archive).namelist()
    assert {"rocketpipe/pipeline/source.py", "pyspark_rocketpipe/__init__.py"} <= set(names)
    assert all(name.endswith(".py") for name in names)


def test_every_part_of_a_read_can_be_imported_from_the_zip(archive: Path) -> None:
    said = run(
        f"sys.path.insert(0, {str(archive)!r})\n"
        "import rocketpipe.pipeline.stream, rocketpipe.pipeline.batch\n"
        "import rocketpipe.pipeline.reading, rocketpipe.pipeline.broker_reading\n"
        "import rocketpipe.pipeline.log_places, rocketpipe.pipeline.writer\n"
        "from pyspark_rocketpipe import DefaultSource\n"
        "print(DefaultSource.name(), rocketpipe.pipeline.__file__)\n"
    )
    assert said == f"rocketpipe {archive}/rocketpipe/pipeline/__init__.py"


def test_what_is_registered_is_unpickled_without_us_and_then_finds_us(archive: Path) -> None:
    said = run(
        "from pyspark.sql.types import StructType\n"
        "source = pickle.loads(pickled)({'subscribe': 'a'})\n"
        "assert 'rocketpipe' not in sys.modules\n"
        "try:\n"
        "    source.streamReader(StructType())\n"
        "except ValueError as error:\n"
        "    print(source.name(), type(error).__module__, error)\n",
        pickled=cloudpickle.dumps(source_found_at(str(archive))),
    )
    assert said.startswith("rocketpipe rocketpipe.pipeline.option_text option 'nameServer' is miss")
