"""What changed in a table, for whoever passes it on."""

from __future__ import annotations

from rocketpipe.broker.tables.watched import Watched


class Names(Watched[str]):
    def change(self, *names: str) -> None:
        for name in names:
            self._note(name)


def test_nothing_is_noted_until_somebody_wants_to_know() -> None:
    table = Names()
    table.change("a")
    assert (table.news, table.has_news, table.take_news()) == (0, False, set())
    table.put_news_back({"a"})
    assert not table.has_news
    table.watch()
    table.change("b", "b", "c")
    assert (table.news, table.is_news("b"), table.is_news("a")) == (2, True, False)
    table.watch(False)
    assert not table.has_news


def test_news_are_taken_once_some_at_a_time_and_come_again_if_they_are_put_back() -> None:
    table = Names()
    table.watch()
    table.change(*"abcde")
    taken = table.take_news(2)
    assert len(taken) == 2
    assert not any(map(table.is_news, taken))
    table.put_news_back(taken)
    assert table.take_news(5) == set("abcde")
    assert table.take_news() == set()
