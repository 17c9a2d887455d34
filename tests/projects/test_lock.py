"""One command at a time, on state of the pipeline's own name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rocketpipe.projects.errors import AlreadyRuns, AnotherPipeline, MovedPipeline
from rocketpipe.projects.folder import Folder, find
from rocketpipe.projects.lock import forget_owner, held, holder

HOLD = """
import sys
from pathlib import Path
from rocketpipe.projects.folder import find
from rocketpipe.projects.lock import held
with held(find(Path(sys.argv[1]))):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_command_is_refused_until_the_first_is_dead(shop: Folder) -> None:
    command = [sys.executable, "-c", HOLD, str(shop.root)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert holder(shop) == other.pid
        with pytest.raises(AlreadyRuns, match=f"runs already, as process {other.pid}"), held(shop):
            pass
        other.kill()
    assert holder(shop) is None
    with held(shop):
        assert holder(shop) == os.getpid()


def test_state_of_a_pipeline_of_another_name_is_left_alone(shop: Folder) -> None:
    with held(shop):
        pass
    renamed = replace(shop, name="store")
    with pytest.raises(AnotherPipeline, match="of pipeline 'shop', not of 'store'"), held(renamed):
        pass
    with held(renamed, of_any_name=True):
        forget_owner(renamed)
    with held(renamed):
        pass


def test_who_dies_while_it_says_whose_it_is_leaves_no_other_pipelines_state(
    shop: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(place: Path, *_: object) -> int:
        place.open("w").close()
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(OSError, match="No space"), held(shop):
            pass
    with held(shop):
        pass


def test_a_folder_that_was_moved_or_copied_does_not_touch_where_it_was(
    shop: Folder, tmp_path: Path
) -> None:
    with held(shop):
        (shop.root / "storage" / "tables").mkdir(parents=True)
        shop.catalogue.mkdir()
    linked = tmp_path / "linked"
    linked.symlink_to(shop.root)
    with held(replace(shop, storage=f"file://{linked}/storage")):
        pass
    shutil.copytree(shop.root, tmp_path / "copy")
    copy = find(tmp_path / "copy")
    with (
        pytest.raises(MovedPipeline, match=f"made in .*{shop.root.name}/storage, not in"),
        held(copy),
    ):
        pass
    with held(copy, of_any_name=True):
        forget_owner(copy)
    with held(copy):
        pass
    with held(shop):  # of an earlier version, which did not say where
        (shop.own / "pipeline.json").write_text('{"v": 1, "name": "shop"}')
    with held(shop):
        pass
    assert "storage" in (shop.own / "pipeline.json").read_text()
