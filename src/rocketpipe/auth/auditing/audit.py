"""Who did what, from where, and whether it was allowed: one line each, for a log of its own.

    user=alice from=10.0.0.7:52014 does=DeleteTopic on=Topic:orders result=allowed

No secret, no signature and no body is in a line, and nothing in it can end it early.
"""

from __future__ import annotations

import json
import logging
import re
from typing import Any, Final

from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests import (
    brokers,
    clients,
    groups,
    kv,
    offsets,
    progress,
    replication,
    routes,
    topics,
    transactions,
    users,
)
from rocketpipe.remoting.log_budget import LogBudget

#: Where the lines go; whoever wants them in a file gives this logger a handler.
AUDIT_LOGGER: Final = "rocketpipe.audit"

#: So many refusals a minute have a line of their own; the rest is counted.
REFUSALS_A_MINUTE: Final = 60
_MAX_TEXT: Final = 200
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:/@%*+,|\[\]-]+")

#: What makes, changes and removes users and rights.
CHANGES_OF_USERS: Final[frozenset[type[Request[Any]]]] = frozenset(
    {
        users.CreateUser,
        users.UpdateUser,
        users.DeleteUser,
        users.CreateAcl,
        users.UpdateAcl,
        users.DeleteAcl,
        users.UpdatePlainAccount,
        users.DeletePlainAccount,
        users.UpdateGlobalWhiteAddresses,
    }
)
#: What is told of in the audit, whoever does it.
CHANGES: Final[frozenset[type[Request[Any]]]] = frozenset(
    {
        topics.UpdateAndCreateTopic,
        topics.UpdateAndCreateTopicList,
        topics.DeleteTopic,
        groups.UpdateAndCreateGroup,
        groups.UpdateAndCreateGroupList,
        groups.DeleteGroup,
        groups.UpdateGroupForbidden,
        offsets.InvokeBrokerToResetOffset,
        progress.CloneGroupOffset,
        clients.SetMessageRequestMode,
        brokers.UpdateBrokerConfig,
        brokers.CleanExpiredQueues,
        brokers.CleanUnusedTopics,
        brokers.DeleteExpiredLog,
        brokers.SetLogReadMode,
        brokers.LimitColdReads,
        brokers.UnlimitColdReads,
        replication.ElectMaster,
        replication.LeadAnyway,
        replication.ForgetReplica,
        routes.DeleteTopicInNamesrv,
        routes.RegisterTopicInNamesrv,
        routes.WipeWritePerm,
        routes.AddWritePerm,
        kv.PutKeyValue,
        kv.DeleteKeyValue,
        kv.UpdateNamesrvConfig,
        transactions.ResumeChecks,
        *CHANGES_OF_USERS,
    }
)

log = logging.getLogger(AUDIT_LOGGER)


class Audit:
    """Writes the lines."""

    def __init__(self, refusals_a_minute: int = REFUSALS_A_MINUTE) -> None:
        self._refusals = LogBudget(refusals_a_minute)

    def did(self, user: str, source: str, what: str, about: str, result: str = "allowed") -> None:
        """Tell of a change that somebody made, or tried to."""
        log.info("%s", line(user=user, source=source, does=what, on=about, result=result))

    def came(self, user: str, source: str) -> None:
        """Tell of the first good request of a user on a connection."""
        log.info("%s", line(user=user, source=source, does="login", on="", result="allowed"))

    def refused(self, user: str, source: str, what: str, about: str, reason: str) -> None:
        """Tell of something that was not allowed; of too many, how many there were."""
        if self._refusals.allows():
            text = line(user=user, source=source, does=what, on=about, result="refused")
            log.warning("%s reason=%s%s", text, quoted(reason), self._refusals.suppressed())


def line(*, user: str, source: str, does: str, on: str, result: str) -> str:
    """One line, without its end."""
    on_text = f" on={quoted(on)}" if on else ""
    return f"user={quoted(user)} from={quoted(source)} does={quoted(does)}{on_text} result={result}"


def subjects_of(asked: Request[Any]) -> list[str]:
    """Whom a change of users and rights is about, and what of theirs."""
    told: list[str | None] = []
    if isinstance(asked, users.CreateUser | users.UpdateUser | users.DeleteUser):
        told.append(f"User:{asked.username}")
        kind = None if isinstance(asked, users.DeleteUser) else asked.user.user_type
        told.append(f"as:{kind}" if kind else None)
    elif isinstance(asked, users.CreateAcl | users.UpdateAcl):
        told += [asked.acl.subject or asked.subject]
        told += [
            each.resource for policy in asked.acl.policies or () for each in policy.entries or ()
        ]
    elif isinstance(asked, users.DeleteAcl):
        told += [asked.subject, asked.resource]
    elif isinstance(asked, users.UpdatePlainAccount | users.DeletePlainAccount):
        told.append(f"User:{asked.access_key}")
    return [each for each in told if each]


def quoted(text: str) -> str:
    """A value as it stands in a line: plain, or in quotes with whatever is odd escaped."""
    if len(text) > _MAX_TEXT:
        text = text[:_MAX_TEXT] + "…"
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
