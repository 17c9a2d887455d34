"""A table of which it can be asked what changed, for whoever passes that on to replicas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

K = TypeVar("K")


class Watched(Generic[K]):
    """Notes the keys of what changes, while somebody wants to know; else that costs one look."""

    def __init__(self) -> None:
        self._news: set[K] | None = None

    def watch(self, wanted: bool = True) -> None:
        """Note changes from now on, or no more; what was noted before is forgotten."""
        self._news = set() if wanted else None

    @property
    def has_news(self) -> bool:
        """Whether something changed since `take_news`."""
        return bool(self._news)

    def is_news(self, key: K) -> bool:
        """Whether this changed since `take_news`."""
        return self._news is not None and key in self._news

    @property
    def news(self) -> int:
        """How many keys changed since `take_news`."""
        return len(self._news or ())

    def take_news(self, most: int | None = None) -> set[K]:
        """The keys of what changed since they were last taken, or some of them."""
        news = self._news
        if not news:
            return set()
        if most is None or len(news) <= most:
            self._news = set()
            return news
        return {news.pop() for _ in range(most)}

    def put_news_back(self, keys: Iterable[K]) -> None:
        """These could not be passed on."""
        if self._news is not None:
            self._news.update(keys)

    def _note(self, key: K) -> None:
        if self._news is not None:
            self._news.add(key)
