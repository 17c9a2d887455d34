"""How many may shake hands at once."""

from __future__ import annotations

from tests.waiting import until

from rocketpipe.remoting.handshakes import Handshakes


class One:
    def __init__(self, all_of_them: Handshakes, host: str) -> None:
        self._all = all_of_them
        self.host = host
        self.began = self.aborted = False

    def shake(self) -> None:
        self.began = True

    def abort(self) -> None:
        self.aborted = True
        self._all.end(self)


async def test_those_beyond_the_most_wait_until_one_is_done() -> None:
    limit = Handshakes(most=2, patience_s=60)
    ones = [One(limit, "a") for _ in range(4)]
    for each in ones:
        limit.begin(each)
    assert [each.began for each in ones] == [True, True, False, False]
    limit.end(ones[0])
    await until(lambda: ones[2].began)
    assert not ones[3].began
    assert (limit.under_way, limit.waiting) == (2, 1)


async def test_addresses_take_turns() -> None:
    limit = Handshakes(most=1, patience_s=60)
    flood = [One(limit, "flood") for _ in range(1000)]
    for each in flood:
        limit.begin(each)
    good = One(limit, "good")
    limit.begin(good)
    limit.end(flood[0])
    limit.end(flood[1])
    await until(lambda: good.began)
    assert sum(each.began for each in flood) == 2


async def test_who_takes_long_gives_up_its_place_when_others_wait() -> None:
    limit = Handshakes(most=2, patience_s=0.01)
    slow = [One(limit, "a") for _ in range(2)]
    for each in slow:
        limit.begin(each)
    await until(lambda: limit.under_way == 2)
    assert not any(each.aborted for each in slow)
    late = One(limit, "a")
    limit.begin(late)
    await until(lambda: late.began)
    assert slow[0].aborted


async def test_who_leaves_while_it_waits_is_forgotten() -> None:
    limit = Handshakes(most=1, patience_s=60)
    first, gone, last = (One(limit, "a") for _ in range(3))
    for each in (first, gone, last):
        limit.begin(each)
    limit.end(gone)
    limit.end(gone)
    limit.end(first)
    await until(lambda: last.began)
    assert not gone.began
    limit.end(last)
    assert (limit.under_way, limit.waiting) == (0, 0)
