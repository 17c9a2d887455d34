"""The house checks: what every file of the project owes to the rest."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "rocketpipe"
TESTS = ROOT / "tests"

# These say what is public; every other package is opened by its full path.
PUBLIC_PACKAGES = {
    SOURCE / name / "__init__.py"
    for name in (
        "",
        "arrow",
        "blocking",
        "integrations",
        "integrations/kombu",
        "jobs",
        "pipeline",
        "projects",
        "tables",
        "testing",
    )
}

# Tests about more than one file live here instead of mirroring a source file.
FREE_TEST_ROOMS = {
    "scenarios",
    "compat",
    "faults",
    "fuzz",
    "simulation",
    "typing",
    "demo",
    "benchmarks",
    "pipeline/live",  # with the servers and the one Spark of tests/pipeline
}

# Nothing in these can fail by itself: names, numbers, and the version.
NO_TEST_OF_THEIR_OWN = {
    "_version.py",
    "selectors.py",
    "strategies.py",
    "errors.py",
    "pipeline/formats/errors.py",
    "jobs/errors.py",
    "jobs/outcome.py",
    "tables/errors.py",
    "tables/sinks/sink.py",
    "model/offsets.py",
    "proxy/backend.py",
    "proxy/config.py",
    "proxy/http2/receiver.py",
    "proxy/http2/stream.py",
    "client/members.py",
    "projects/errors.py",
    "store/files/keeper.py",
    "store/log/puts.py",
}

# What tests are made of is tested by tests that must turn red, or by whoever is built on it.
TESTED_BY = {
    "broker/delivery/single_sends.py": "broker/handlers/test_sending.py",
    "broker/features/popping/measures.py": "broker/metrics/test_families.py",
    "broker/features/popping/note_counts.py": "broker/metrics/test_families.py",
    "broker/features/timers/measures.py": "broker/metrics/test_families.py",
    "client/admin/access/explanation.py": "client/admin/access/test_policies.py",
    "console/sight.py": "console/test_masking.py",
    "broker/fast_path/outbox.py": "broker/fast_path/test_fast_path.py",
    "broker/fast_path/pulling.py": "broker/fast_path/test_fast_path.py",
    "broker/fast_path/sending.py": "broker/fast_path/test_fast_path.py",
    "console/api/access.py": "console/test_app.py",
    "console/api/brokers.py": "console/test_app.py",
    "console/api/clients.py": "console/test_app.py",
    "console/api/dead_letters.py": "console/test_app.py",
    "console/api/groups.py": "console/test_app.py",
    "console/api/messages.py": "console/test_app.py",
    "console/api/overview.py": "console/test_app.py",
    "console/api/pipelines.py": "console/test_app.py",
    "console/api/topics.py": "console/test_app.py",
    "console/api/traces.py": "console/test_app.py",
    "console/api/waiting.py": "console/test_app.py",
    "console/group_figures.py": "console/test_app.py",
    "console/message_rows.py": "console/test_app.py",
    "console/noting.py": "console/test_app.py",
    "coordination/zk_session.py": "coordination/test_zookeeper.py",
    "integrations/airflow.py": "compat/test_airflow.py",
    "integrations/airflow_provider.py": "compat/test_airflow.py",
    "integrations/everywhere.py": "scenarios/test_kombu_brokers.py",
    "integrations/kombu/bindings.py": "scenarios/test_kombu.py",
    "integrations/kombu/channel.py": "scenarios/test_kombu.py",
    "integrations/kombu/fetching.py": "scenarios/test_kombu.py",
    "integrations/kombu/leases.py": "scenarios/test_kombu.py",
    "integrations/kombu/link.py": "scenarios/test_kombu.py",
    "integrations/kombu/qos.py": "scenarios/test_kombu.py",
    "integrations/kombu/topics.py": "scenarios/test_kombu.py",
    "integrations/kombu/transient.py": "scenarios/test_kombu.py",
    "integrations/kombu/transport.py": "scenarios/test_kombu.py",
    "pipeline/columns/byte_runs.py": "pipeline/columns/test_records.py",
    "pipeline/columns/properties.py": "pipeline/columns/test_records.py",
    "pipeline/log/walk.py": "pipeline/log/test_directory.py",
    "pipeline/log/queue_view.py": "pipeline/log/test_directory.py",
    "pipeline/log/reading.py": "pipeline/test_reading.py",
    "pipeline/broker/reading.py": "pipeline/test_reading.py",
    "testing/histories/decisions.py": "testing/histories/test_decision_checks.py",
    "testing/histories/facts.py": "testing/histories/test_checker.py",
    "testing/simulation/late_worker.py": "store/derived/test_derived_sync.py",
    "testing/simulation/promises.py": "simulation/test_mutants.py",
    "testing/simulation/simulation.py": "simulation/test_mutants.py",
    "testing/simulation/small_store.py": "simulation/test_mutants.py",
    "testing/simulation/store_user.py": "simulation/test_mutants.py",
    "testing/simulation/sim_fault.py": "testing/simulation/test_disk.py",
    "testing/simulation/sim_file.py": "testing/simulation/test_disk.py",
}


def source_files() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")


def tracked_files() -> list[Path]:
    if shutil.which("git") is None:
        pytest.skip("no git: nothing says which files are the project's")
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode != 0:
        pytest.skip("not a git checkout: nothing says which files are the project's")
    names = listing.stdout.decode().split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def test_every_source_file_has_its_test_file() -> None:
    missing = []
    for path in source_files():
        relative = path.relative_to(SOURCE)
        if relative.as_posix() in NO_TEST_OF_THEIR_OWN:
            continue
        own = (relative.parent / f"test_{relative.name}").as_posix()
        if not (TESTS / TESTED_BY.get(relative.as_posix(), own)).exists():
            missing.append(relative.as_posix())
    assert not missing, f"without a test file of the same name: {missing}"


def test_every_test_file_mirrors_a_source_file() -> None:
    strays = []
    for path in sorted(TESTS.rglob("test_*.py")):
        relative = path.relative_to(TESTS)
        rooms = {room.as_posix() for room in relative.parents} - {"."}
        if not rooms or rooms & FREE_TEST_ROOMS:
            continue
        source = SOURCE / relative.parent / relative.name.removeprefix("test_")
        package = SOURCE / relative.parent / "__init__.py"
        if not source.exists() and not (relative.name == "test_package.py" and package.exists()):
            strays.append(relative.as_posix())
    assert not strays, f"tests of no source file: {strays}"


def test_only_the_public_packages_export_anything() -> None:
    for path in SOURCE.rglob("__init__.py"):
        if path not in PUBLIC_PACKAGES:
            assert path.read_text() == "", f"{path.relative_to(ROOT)} is not empty"


def test_every_source_file_opens_with_a_sentence() -> None:
    for path in source_files():
        docstring = ast.get_docstring(ast.parse(path.read_text()))
        assert docstring, f"{path.relative_to(ROOT)} says nothing about itself"


def test_no_source_file_is_a_dumping_ground() -> None:
    twins = [*SOURCE.rglob("*.pyx"), *SOURCE.rglob("*.pxd")]
    long = {
        path.relative_to(ROOT).as_posix(): lines
        for path in (*source_files(), *twins)
        if (lines := len(path.read_text().splitlines())) > 450
    }
    assert not long, f"more than one noun? {long}"


def test_no_folder_is_too_full_to_be_taken_in() -> None:
    crowded = {
        folder.relative_to(ROOT).as_posix(): count
        for folder in {path.parent for path in source_files()}
        if (count := len([path for path in folder.glob("*.py") if path.name != "__init__.py"])) > 22
    }
    assert not crowded, f"would a reader find the room? {crowded}"


def test_a_twin_stands_beside_its_module_under_its_name() -> None:
    for twin in SOURCE.rglob("*.pyx"):
        assert twin.with_name(f"{twin.stem.removeprefix('_')}.py").exists(), twin


def test_constants_are_documented_above_them() -> None:
    found = []
    for path in source_files():
        tree = ast.parse(path.read_text())
        bodies = [
            tree.body,
            *(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef)),
        ]
        for body in bodies:
            for constant, text in pairwise(body):
                if (
                    isinstance(constant, ast.Assign | ast.AnnAssign)
                    and isinstance(text, ast.Expr)
                    and isinstance(text.value, ast.Constant)
                    and isinstance(text.value.value, str)
                ):
                    found.append(f"{path.relative_to(ROOT)}:{text.lineno}")
    assert not found, f"a text below a constant: use #: above it: {found}"


def test_nothing_names_a_machine_or_a_package_registry() -> None:
    machine = re.compile(r"/(?:w[o]rk|r[o]ot|h[o]me/\w+)/")
    registry = re.compile(r"(?:py[p]i\.org|py[t]honhosted|registry\.[n]pmjs|repo[1]?\.maven)")
    found = []
    for path in tracked_files():
        if path.suffix in {".xz", ".png"}:
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if machine.search(line) or registry.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}")
    assert not found, found
