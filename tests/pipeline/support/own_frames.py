"""Whose lines of code an exception went through."""

from __future__ import annotations

import traceback
from pathlib import Path

import rocketpipe

_OURS = Path(rocketpipe.__file__).parent


def own_frames(error: BaseException) -> list[str]:
    """The lines of RocketPipe itself, wherever it lies, that are in an exception's traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    return [str(frame) for frame in frames if Path(frame.filename).is_relative_to(_OURS)]
