"""What the API answers: JSON, numbers that may be unknown, and errors that say what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from starlette.responses import Response

from rocketpipe.client.admin.access.policies import EntryInTheWay, NothingToRevoke
from rocketpipe.client.admin.access.servers import (
    LastSuperuser,
    NoAccessControl,
    NotKept,
    NoUser,
    UserRefused,
)
from rocketpipe.client.admin.access.users import UserExists
from rocketpipe.client.admin.clients import NotOnline
from rocketpipe.client.admin.fleet import NoBroker, PartlyDone
from rocketpipe.client.admin.groups import GroupExists, NoGroup
from rocketpipe.client.admin.messages import NoMessage
from rocketpipe.client.admin.topics import TopicExists
from rocketpipe.errors import (
    AccessDenied,
    CallTimeout,
    ConnectionLost,
    FilterError,
    InvalidName,
    MessageRefused,
    NoRoute,
    PropertiesError,
    RequestRejected,
    RocketPipeError,
)

#: Which status an error of a cluster has; the first that fits.
_STATUS: Final[tuple[tuple[type[RocketPipeError], int], ...]] = (
    (AccessDenied, 403),
    (NoRoute, 404),
    (NoGroup, 404),
    (NoMessage, 404),
    (NoBroker, 404),
    (NotOnline, 404),
    (NoUser, 404),
    (NoAccessControl, 404),
    (NothingToRevoke, 404),
    (UserExists, 409),
    (EntryInTheWay, 409),
    (LastSuperuser, 409),
    (UserRefused, 422),
    (NotKept, 502),
    (TopicExists, 409),
    (GroupExists, 409),
    (InvalidName, 400),
    (FilterError, 400),
    (PropertiesError, 400),
    (MessageRefused, 400),
    (RequestRejected, 422),
    (CallTimeout, 504),
    (ConnectionLost, 502),
    (PartlyDone, 502),
)
_JSON: Final = "application/json"


class Problem(Exception):
    """A request that is not answered as it wished: why, and what to do about it."""

    def __init__(
        self, status: int, cause: str, next_step: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(cause)
        self.status = status
        self.cause = cause
        self.next_step = next_step
        self.headers = dict(headers or {})

    @classmethod
    def of(cls, error: Exception) -> Problem:
        """The problem that an error of the cluster, or of a value, is to who asked."""
        if isinstance(error, Problem):
            return error
        text, hint = str(error), getattr(error, "hint", None)
        if isinstance(error, msgspec.ValidationError | msgspec.DecodeError):
            return cls(400, f"the body is not what is expected: {text}", "send JSON as documented")
        if isinstance(error, RocketPipeError):
            status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
            usual = "try again" if error.retryable else "see what the cause says"
            return cls(status, text, hint or usual)
        return cls(400, text, "correct what the cause names")

    def response(self) -> Response:
        """It, as JSON."""
        body = {"error": {"cause": self.cause, "next": self.next_step, "status": self.status}}
        return json_response(body, self.status, self.headers)


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A value as JSON."""
    return Response(
        msgspec.json.encode(value), status, media_type=_JSON, headers=dict(headers or {})
    )


class Figure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A number, or why there is none; a sum with an unknown part is at least what it says."""

    value: float | int | None = None
    unknown: str | None = None
    at_least: bool = False


def known(value: float | None, otherwise: str = "there is none") -> Figure:
    """A number that is known."""
    return Figure(value) if value is not None else Figure(unknown=otherwise)


def unknown(reason: object) -> Figure:
    """A number that is not."""
    return Figure(unknown=str(reason))


def total(parts: Iterable[Figure]) -> Figure:
    """The sum; a part that is not known makes it at least the rest."""
    value: float | int = 0
    reasons = []
    some = False
    for part in parts:
        if part.value is not None:
            value, some = value + part.value, True
        if part.unknown is not None:
            reasons.append(part.unknown)
    if not reasons:
        return Figure(value)
    return Figure(value if some else None, "; ".join(dict.fromkeys(reasons)), at_least=some)
