"""Messages as the connector hands them over, without a Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from rocketpipe.tables.columns import DIGEST, OF_MESSAGE

Messages = Callable[..., pa.RecordBatch]


@pytest.fixture
def messages() -> Messages:
    """``messages([b"{}", None], first=7)``: a batch of one queue."""

    def made(bodies: Sequence[bytes | None], *, first: int = 0, day: int = 1) -> pa.RecordBatch:
        count = len(bodies)
        stored = datetime(2026, 5, day, 12, tzinfo=UTC)
        columns = {
            "broker": pa.array(["broker-a"] * count, pa.string()),
            "queue_id": pa.array([2] * count, pa.int32()),
            "queue_offset": pa.array(range(first, first + count), pa.int64()),
            "store_timestamp": pa.array([stored] * count, OF_MESSAGE.field(3).type),
            "message_id": pa.array([f"id-{first + row}" for row in range(count)]),
            "keys": pa.array([["k"]] * count, pa.list_(pa.string())),
            "tags": pa.nulls(count, pa.string()),
            "body": pa.array(bodies, pa.binary()),
            DIGEST: pa.array([hash(body) for body in bodies], pa.int64()),
        }
        return pa.RecordBatch.from_pydict(columns)

    return made
