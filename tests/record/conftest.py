from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

_VECTORS = Path(__file__).parents[1] / "golden" / "apache-5.3.3-vectors.json"


@pytest.fixture(scope="session")
def apache() -> dict[str, Any]:
    """What the classes of Apache RocketMQ 5.3.3 answered; see tests/golden/README.md."""
    vectors: dict[str, Any] = json.loads(_VECTORS.read_text("utf-8"))
    return vectors
