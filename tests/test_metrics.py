"""Tests of what Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterator

from rocketpipe.metrics import Distribution, Family, Kept, Kind, Series, render, single


def test_numbers_are_told_with_their_labels() -> None:
    families = [
        single("rocketmq_topic_number", Kind.GAUGE, "Topics.", 3),
        Family(
            "rocketmq_messages_in_total",
            Kind.COUNTER,
            "Messages stored.",
            [Series(12, {"topic": "orders"}), Series(0.5, {"topic": 'a"b\\c\n'})],
        ),
    ]
    assert render(families) == (
        "# HELP rocketmq_topic_number Topics.\n"
        "# TYPE rocketmq_topic_number gauge\n"
        "rocketmq_topic_number 3\n"
        "# HELP rocketmq_messages_in_total Messages stored.\n"
        "# TYPE rocketmq_messages_in_total counter\n"
        'rocketmq_messages_in_total{topic="orders"} 12\n'
        'rocketmq_messages_in_total{topic="a\\"b\\\\c\\n"} 0.5\n'
        "# HELP rocketpipe_series_left_out Series that are not told of, as there are too many.\n"
        "# TYPE rocketpipe_series_left_out gauge\n"
    )


def test_too_many_series_are_left_out_and_counted() -> None:
    many = (Series(1, {"topic": str(number)}) for number in range(50))
    text = render([Family("a", Kind.GAUGE, "A.", many)], max_series=10)
    assert text.count('a{topic="') == 10
    assert 'rocketpipe_series_left_out{name="a"} 40\n' in text


def test_a_distribution_counts_up_to_each_bound() -> None:
    sizes = Distribution((1024, 4096), (3, 0, 1), 9000, {"topic": "orders"})
    text = render([Family("size", Kind.HISTOGRAM, "Bytes.", [sizes])])
    assert text.startswith(
        "# HELP size Bytes.\n"
        "# TYPE size histogram\n"
        'size_bucket{topic="orders",le="1024.0"} 3\n'
        'size_bucket{topic="orders",le="4096.0"} 3\n'
        'size_bucket{topic="orders",le="+Inf"} 4\n'
        'size_sum{topic="orders"} 9000\n'
        'size_count{topic="orders"} 4\n'
    )


def test_what_several_families_tell_of_is_made_once_and_when_it_is_asked_for() -> None:
    made: list[int] = []

    def source() -> Iterator[int]:
        for number in range(5):
            made.append(number)
            yield number

    kept = Kept(source())
    assert made == []
    first, second = iter(kept), iter(kept)
    assert [next(first), next(first)] == [0, 1]
    assert made == [0, 1]
    assert list(second) == list(kept) == [0, 1, 2, 3, 4]
    assert list(first) == [2, 3, 4]
    assert made == [0, 1, 2, 3, 4]
