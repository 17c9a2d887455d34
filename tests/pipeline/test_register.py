"""The source where it is not installed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from pyspark import cloudpickle

from rocketpipe.pipeline.register import package_root, packed, runs_alone, source_found_at

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
        [sys.executable, "-"],  # it may be longer than an argument can be
        input=head + values + program,
        capture_output=True,
        text=True,
        check=False,
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
        "import rocketpipe.pipeline.reading, rocketpipe.pipeline.broker.reading\n"
        "import rocketpipe.pipeline.log.offsets, rocketpipe.pipeline.writer\n"
        "from pyspark_rocketpipe import DefaultSource\n"
        "print(DefaultSource.name(), rocketpipe.pipeline.__file__)\n"
    )
    assert said == f"rocketpipe {archive}/rocketpipe/pipeline/__init__.py"


@pytest.mark.parametrize(
    ("master", "is_alone"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[2,3]", True),
        (None, True),
        ("local-cluster[1,1,512]", False),
        ("spark://a:7077", False),
        ("yarn", False),
    ],
)
def test_only_a_spark_in_one_process_has_no_workers_to_send_to(
    master: str | None, is_alone: bool
) -> None:
    assert runs_alone(master) is is_alone


def test_what_goes_to_a_connect_server_carries_us(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what it hands on to workers: neither of them has us. The zip is kept once."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    pickled = cloudpickle.dumps(source_found_at("/nowhere", archive.read_bytes()))
    planned = run(
        "from pyspark import cloudpickle\n"
        "from pyspark.sql.types import StructType\n"
        "source = pickle.loads(pickled)({'subscribe': 'a', 'nameServer': 'a:1'})\n"
        "print(cloudpickle.dumps(source.streamReader(StructType())).hex())\n",
        pickled=pickled,
    )
    said = run(
        "reader = pickle.loads(planned)\n"
        "print(type(reader).__name__, sys.modules['rocketpipe'].__file__)\n",
        planned=bytes.fromhex(planned),
    )
    [directory] = tmp_path.iterdir()
    assert said == f"StreamReader {directory}/rocketpipe.zip/rocketpipe/__init__.py"
    assert [path.name for path in directory.iterdir()] == ["rocketpipe.zip"]


@pytest.mark.parametrize(
    "asked", ["reader(StructType())", "streamReader(StructType()).initialOffset()"]
)
def test_a_python_that_has_us_nowhere_says_what_to_install(asked: str) -> None:
    said = run(
        "from pyspark.sql.types import StructType\n"
        "try:\n"
        f"    pickle.loads(pickled)({{}}).{asked}\n"
        "except ImportError as error:\n"
        "    print(error)\n",
        pickled=cloudpickle.dumps(source_found_at("/nowhere")),
    )
    assert "install rocketpipe, with its extra spark, or what is missing (rocketpipe)" in said


def test_what_is_registered_is_unpickled_without_us_and_then_finds_us(archive: Path) -> None:
    said = run(
        "from pyspark.sql.types import StructType\n"
        "source = pickle.loads(pickled)({'subscribe': 'a'})\n"
        "assert 'rocketpipe' not in sys.modules\n"
        "try:\n"
        "    source.streamReader(StructType()).initialOffset()\n"
        "except ValueError as error:\n"
        "    print(source.name(), type(error).__module__, error)\n",
        pickled=cloudpickle.dumps(source_found_at(str(archive))),
    )
    assert said.startswith(
        "rocketpipe rocketpipe.pipeline.options.text option 'nameServer' is miss"
    )
