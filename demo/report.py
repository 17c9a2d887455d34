"""The verdict: what was sent beside what arrived."""

from __future__ import annotations

from collections import Counter


def agree(expected: int, *counts: Counter[str]) -> bool:
    """Whether all counts are the same, key by key, and come to the expected total."""
    first, *others = counts
    return first.total() == expected and all(other == first for other in others)


def report(expected: int, sent: Counter[str], consumed: Counter[str], counted: Counter[str]) -> int:
    """Print the three counts side by side, and whether they agree; the number is an exit code."""
    print(f"\n  {'key':<10}{'sent':>10}{'consumed':>10}{'Spark':>10}")
    for key in sorted({*sent, *consumed, *counted}):
        same = sent[key] == consumed[key] == counted[key]
        row = f"  {key:<10}{sent[key]:>10,}{consumed[key]:>10,}{counted[key]:>10,}"
        print(row if same else f"{row}   ← differs")
    totals = (sent.total(), consumed.total(), counted.total())
    print(f"  {'total':<10}" + "".join(f"{total:>10,}" for total in totals))
    if agree(expected, sent, consumed, counted):
        print("\nEvery count agrees with what was sent.")
        return 0
    if sent.total() != expected:
        print(f"\n{expected:,} messages were to be sent, and {sent.total():,} were.")
    else:
        print("\nThe counts differ: see the marked rows.")
    return 1
