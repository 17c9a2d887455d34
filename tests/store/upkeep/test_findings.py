"""What a report says."""

from __future__ import annotations

from pathlib import Path

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.upkeep.findings import KEPT_OF_A_KIND, Kind, Report


def test_all_findings_are_counted_and_the_first_of_each_kind_kept() -> None:
    report = Report()
    assert report.ok
    assert report.lines()[1:] == ["nothing is wrong"]
    for at in range(KEPT_OF_A_KIND + 50):
        report.add(Kind.QUEUE_ENTRY_WRONG, Path("q"), at, "a reason")
    report.add(Kind.OFFSETS_MISSING, Path("log"), 7, "two", count=2)
    assert not report.ok
    assert report.counts == {Kind.QUEUE_ENTRY_WRONG: KEPT_OF_A_KIND + 50, Kind.OFFSETS_MISSING: 2}
    assert len(report.findings) == KEPT_OF_A_KIND + 1
    assert str(report.findings[-1]) == (
        "log at 7: messages that a queue counts and the log has not: two"
    )
    assert "2 × messages that a queue counts and the log has not" in report.lines()


def test_what_rebuilding_would_mend_is_told_from_what_it_would_not() -> None:
    report = Report()
    report.add(Kind.INDEX_ENTRY_WRONG, Path("i"), 0, "")
    assert report.log_ok
    report.add(Kind.BAD_RECORD, Path("log"), 0, "")
    assert not report.log_ok


def test_reports_of_parts_come_to_one() -> None:
    whole, part = Report(records=1, end_offset=LogOffset(10)), Report(records=2)
    part.end_offset = LogOffset(30)
    for number in range(KEPT_OF_A_KIND):
        whole.add(Kind.BAD_RECORD, Path("log"), number, "torn")
    part.add(Kind.BAD_RECORD, Path("log"), 20, "torn")
    part.add(Kind.GROUP_CUT, Path("log"), 21, "cut")
    whole.take(part)
    assert (whole.records, whole.end_offset) == (3, 30)
    assert whole.counts == {Kind.BAD_RECORD: KEPT_OF_A_KIND + 1, Kind.GROUP_CUT: 1}
    assert len(whole.findings) == KEPT_OF_A_KIND + 1
    assert part.only(Kind.GROUP_CUT).counts == {Kind.GROUP_CUT: 1}
    assert [each.at for each in part.only(Kind.GROUP_CUT).findings] == [21]
