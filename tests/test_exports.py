"""What `rocketpipe` exports is there, and is loaded when it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rocketpipe


def test_every_name_is_there_and_comes_from_where_it_lives() -> None:
    for name in rocketpipe.__all__:
        assert getattr(rocketpipe, name) is not None
        assert name in dir(rocketpipe)
    assert rocketpipe.Producer.__module__ == "rocketpipe.client.producer.producer"
    with pytest.raises(AttributeError, match="Consumer"):
        _ = rocketpipe.Consumer  # type: ignore[attr-defined]


def test_a_command_that_needs_no_client_loads_none() -> None:
    check = (
        "import sys, rocketpipe.cli.main; "
        "sys.exit(any(name.startswith(('rocketpipe.client', 'asyncio')) for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", check], check=False, timeout=60)
    assert done.returncode == 0
