"""What our gRPC port answers to calls, right and wrong ones, beside what Apache's proxy does.

Apache's answers are in ``tests/golden``; ``make compat`` sees that they still are its answers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from tests.compat.clients.grpc_targets import grpc_target
from tests.compat.support.grpc_answers import GOLDEN, answers_of, make_names

pytestmark = pytest.mark.scenario

#: Where ours says something else, and why; of a table only what differs.
DEPARTURES: Final[dict[str, Any]] = {
    # A client that does not say who it is cannot be found when a broker asks for it.
    "settings without client id": "gRPC INVALID_ARGUMENT",
    # Each message has an answer, those of a batch too.
    "send three": {
        "entries": 3 * [{"id": True, "recall": False, "status": "OK", "transaction": True}]
    },
    "send nothing": {"status": "BAD_REQUEST"},
    # What is not there has no type that a message could conflict with.
    "send to an unknown topic": {"status": "TOPIC_NOT_FOUND"},
    # What a client did wrong is no failure of the server.
    "receive with a wrong expression": ["ILLEGAL_FILTER_EXPRESSION", "delivery_timestamp"],
    "a received message": {
        "by garbage": ["INVALID_RECEIPT_HANDLE", "INVALID_RECEIPT_HANDLE"],
        "by nothing": ["INVALID_RECEIPT_HANDLE", "INVALID_RECEIPT_HANDLE"],
        "changed by garbage": "INVALID_RECEIPT_HANDLE",
        # How long it is hidden is told, and what has a field of its own is no user property.
        "fields": [
            "body_digest",
            "body_encoding",
            "born_host",
            "born_timestamp",
            "delivery_attempt",
            "invisible_duration",
            "keys",
            "message_id",
            "message_type",
            "queue_offset",
            "receipt_handle",
            "store_host",
            "store_timestamp",
            "tag",
            "trace_context",
        ],
        "user": {"color": "blau"},
    },
    "a dead letter": {"garbage": "INVALID_RECEIPT_HANDLE"},
    "transactions": {"garbage": "INVALID_TRANSACTION_ID"},
    "recalls": {
        "again": "BAD_REQUEST",
        "garbage": "BAD_REQUEST",
        "nothing": "BAD_REQUEST",
        "of an unknown topic": "TOPIC_NOT_FOUND",
    },
}


def wanted() -> dict[str, Any]:
    """Apache's answers, with what ours has instead."""
    found: dict[str, Any] = json.loads(GOLDEN.read_text())
    for name, other in DEPARTURES.items():
        assert found[name] != other, f"{name} is as Apache has it"
        found[name] = found[name] | other if isinstance(other, dict) else other
    return found


async def test_ours_answers_as_apaches_proxy_does_but_where_it_is_said(tmp_path: Path) -> None:
    with grpc_target("ours", tmp_path) as target:
        await make_names(target.name_server)
        found = await answers_of(target.address)
    due = wanted()
    assert found.keys() == due.keys()
    assert {name: (found[name], due[name]) for name in due if found[name] != due[name]} == {}
