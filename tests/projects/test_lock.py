"""One command at a time, on state of the pipeline's own name."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from rocketpipe.projects.errors import AlreadyRuns, AnotherPipeline
from rocketpipe.projects.folder import Folder
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
