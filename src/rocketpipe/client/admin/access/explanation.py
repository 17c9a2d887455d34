"""Whether a user may do something, as the servers of a cluster answer it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rocketpipe.auth.explaining import Answer
from rocketpipe.auth.policy import Entry
from rocketpipe.client.admin.access.users import UserState


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What the servers answer to one question, by those that answer alike."""

    user: UserState
    answers: tuple[tuple[tuple[str, ...], Answer], ...]

    @property
    def allowed(self) -> bool:
        """Whether every server allows it."""
        if not self.user.is_enabled or self.user.missing:
            return False
        return self.user.is_super or all(answer.allowed for _, answer in self.answers)

    @property
    def verdict(self) -> str:
        """What decides it whatever was granted; empty if it is what was granted."""
        if not self.user.is_enabled:
            return f"{self.user.name} is disabled, and not let in at all"
        if self.user.is_super:
            return f"{self.user.name} is Super, and may do everything: entries are not asked"
        return ""

    def record(self) -> dict[str, Any]:
        """It, as lists and texts."""
        return {
            "user": self.user.name,
            "allowed": self.allowed,
            "why": self.verdict or None,
            "no_answer_from": list(self.user.silent),
            "answers": [
                {"servers": list(servers), "allowed": answer.allowed, "points": _points(answer)}
                for servers, answer in self.answers
            ],
        }


def _points(answer: Answer) -> list[dict[str, Any]]:
    return [
        {
            "asked": point.asked,
            "needs": point.wanted,
            "allowed": point.allowed,
            "why": point.why,
            "decided_by": _text(point.entry),
            "part": point.part.value if point.part else None,
            "others": list(map(str, point.others)),
            "elsewhere": list(map(str, point.elsewhere)),
        }
        for point in answer.points
    ]


def _text(entry: Entry | None) -> str | None:
    return None if entry is None else str(entry)
