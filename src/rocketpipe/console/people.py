"""Who is at the console: people that have proven who they are, and everybody else.

A login gives a cookie of 256 random bits, new each time; what it stands for is kept here. Wrong
passwords are counted by where they come from, and after a few a minute whoever is wrong from there
is told so late. Who is right never waits, whoever else is behind the same address.
"""

from __future__ import annotations

import hmac
import secrets
from collections import deque
from dataclasses import dataclass
from typing import Final

from rocketpipe.auth.failures import neighbourhood
from rocketpipe.clock import Clock
from rocketpipe.console.answers import Problem
from rocketpipe.console.cluster import Cluster

#: What the name of the cookie begins with.
COOKIE: Final = "rocketpipe_console"
#: Who has done nothing for so long is nobody again.
IDLE_MS: Final = 30 * 60_000
#: So many are logged in; one more sends away whoever was idle longest.
MAX_VISITS: Final = 64
#: So many wrong passwords a minute come from one address (/64 of IPv6).
WRONG_A_MINUTE: Final = 5
MINUTE_MS: Final = 60_000
_MAX_ADDRESSES: Final = 1024
#: So long more of them wait for their answer, and so many at a time.
HELD_MS: Final = 5_000
MAX_HELD: Final = 64


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody at the console: a name once that is proven, and what this one may do."""

    name: str | None
    may_change: bool
    may_see_bodies: bool
    cluster: Cluster


@dataclass(slots=True)
class _Visit:
    person: Person
    seen_ms: int
    #: Where they logged in: rights may depend on it, and a cookie is of use nowhere else.
    place: str


class People:
    """Knows people by their cookies."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._visits: dict[str, _Visit] = {}
        self._wrong: dict[str, deque[int]] = {}
        #: How many that were wrong wait for their answer.
        self.held = 0

    def enter(self, person: Person, address: str) -> tuple[str, list[Person]]:
        """Let somebody in who is there; gives the new cookie, and who had to go for it."""
        gone = self.leave_idle()
        while len(self._visits) >= MAX_VISITS:
            oldest = min(self._visits, key=lambda cookie: self._visits[cookie].seen_ms)
            gone.append(self._visits.pop(oldest).person)
        cookie = secrets.token_urlsafe(32)
        self._visits[cookie] = _Visit(person, self._clock.monotonic_ms(), neighbourhood(address))
        return cookie, gone

    def find(self, cookie: str | None, address: str) -> Person | None:
        """Whose cookie it is, if anybody's there; it lives on from now."""
        visit = self._visits.get(cookie or "")
        now_ms = self._clock.monotonic_ms()
        if visit is None or now_ms - visit.seen_ms >= IDLE_MS:
            return None
        if visit.place != neighbourhood(address):
            return None
        visit.seen_ms = now_ms
        return visit.person

    def is_here(self, person: Person) -> bool:
        """Whether somebody is still logged in."""
        return any(visit.person is person for visit in self._visits.values())

    def leave(self, cookie: str | None) -> Person | None:
        """Have somebody go; a cookie that is nobody's is no error."""
        visit = self._visits.pop(cookie or "", None)
        return None if visit is None else visit.person

    def leave_all(self, name: str) -> list[Person]:
        """Have all go that are here under a name."""
        theirs = [each for each, visit in self._visits.items() if visit.person.name == name]
        return [self._visits.pop(cookie).person for cookie in theirs]

    def leave_idle(self) -> list[Person]:
        """Have those go that have done nothing for long."""
        now_ms = self._clock.monotonic_ms()
        idle = [
            cookie for cookie, visit in self._visits.items() if now_ms - visit.seen_ms >= IDLE_MS
        ]
        return [self._visits.pop(cookie).person for cookie in idle]

    def everybody(self) -> list[Person]:
        """Who is logged in."""
        return [visit.person for visit in self._visits.values()]

    def __len__(self) -> int:
        return len(self._visits)

    # Wrong passwords

    async def was_wrong(self, address: str) -> None:
        """Count a wrong password; of too many from one address each is answered late.

        Raises:
            Problem: If too many were wrong of late.
        """
        wrong, where = self._wrong, neighbourhood(address)
        now_ms = self._clock.monotonic_ms()
        times = wrong.pop(where, None) or deque(maxlen=WRONG_A_MINUTE)
        wrong[where] = times
        if len(wrong) > _MAX_ADDRESSES:
            del wrong[next(iter(wrong))]
        is_full = len(times) == WRONG_A_MINUTE and now_ms - times[0] < MINUTE_MS
        times.append(now_ms)
        if not is_full:
            return
        # More that wait would be more that is held for those who guess.
        if self.held < MAX_HELD:
            self.held += 1
            try:
                await self._clock.sleep(HELD_MS)
            finally:
                self.held -= 1
        raise Problem(
            429,
            "that is wrong, and so were too many logins from your address of late",
            "type it again: who is right does not wait",
        )


def is_same(given: str, wanted: str) -> bool:
    """Compare secrets in a time that does not tell how much of them is the same."""
    return hmac.compare_digest(given.encode(), wanted.encode())
