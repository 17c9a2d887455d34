"""Why a query may fail though nothing is wrong with it: started again, it goes on.

Spark tells of a failure in text alone, with the names of what was raised inside its Python
processes.
"""

from __future__ import annotations

from typing import Final

#: What a failure says, and what that means.
EXCUSES: Final = {
    "connect back": "a Python worker did not start within Spark's 10 s",
    "Python worker exited unexpectedly": "a Python worker was ended",
    "ConnectionLost": "the broker was away",
    "NoRoute": "the broker was away",
    "QueuesUnreachable": "the broker was away",
    "UnknownTopic": "the broker had not told the NameServer of its topics yet",
    "DatabaseAway": "the database was away",
    "RegistryAway": "the schema registry was away",
    "CallTimeout": "the broker did not answer in time",
}


def excuse(failure: str) -> str | None:
    """What a failure is excused by, if it is."""
    return next((why for said, why in EXCUSES.items() if said in failure), None)
