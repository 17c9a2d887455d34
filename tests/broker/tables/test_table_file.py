"""A table as a file that RocketMQ's broker reads too."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from rocketpipe.broker.tables import table_file
from rocketpipe.broker.tables.delays import DelaysFile
from rocketpipe.broker.tables.groups import GroupsFile
from rocketpipe.broker.tables.offsets import OffsetsFile
from rocketpipe.broker.tables.table_file import TableFile, pretty
from rocketpipe.broker.tables.topics import TopicsFile
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol import fastjson
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.files.snapshot import sealed

GOLDEN = Path(__file__).parents[2] / "golden"


def golden_file(store: str, name: str) -> bytes:
    with tarfile.open(GOLDEN / f"{store}.tar.xz") as archive:
        file = archive.extractfile(f"store/config/{name}")
        assert file is not None
        return file.read()


@pytest.mark.parametrize(
    ("name", "kind"), [("topics.json", TopicsFile), ("subscriptionGroup.json", GroupsFile)]
)
def test_the_text_is_that_of_apaches_broker_5_5_0(name: str, kind: type) -> None:
    golden = golden_file("5.5.0-stop", name)
    table = fastjson.read(golden, kind)
    assert pretty(fastjson.write(table).decode()).encode() == golden


def test_braces_and_blanks_within_text_stay_as_they_are() -> None:
    assert pretty('{"a":"{ ,\\" }","b":{},"c":[],"d":[1,{0:2}]}') == (
        '{\n\t"a":"{ ,\\" }",\n\t"b":{},\n\t"c":[],\n'
        '\t"d":[\n\t\t1,\n\t\t{\n\t\t\t0:2\n\t\t}\n\t]\n}'
    )


def test_what_was_saved_is_loaded_and_is_sealed_on_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "config" / "consumerOffset.json"
    table = OffsetsFile(offsets={'t@"0:': {0: 5, 17: 1 << 62}})
    TableFile(Disk(), path, OffsetsFile).save(table)
    assert TableFile(Disk(), path, OffsetsFile).load() == table
    assert path.read_bytes().startswith(b'{\n\t"rocketpipe.crc32":"')
    assert b"\n\t\t\t17:4611686018427387904\n" in path.read_bytes()


def test_a_table_with_more_values_than_any_body_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "consumerOffset.json"
    table = OffsetsFile(
        offsets={f"t@g{group}": dict.fromkeys(range(10), 1) for group in range(60_000)}
    )
    TableFile(Disk(), path, OffsetsFile).save(table)
    assert TableFile(Disk(), path, OffsetsFile).load() == table


def test_a_file_of_another_kind_is_refused_by_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "consumerOffset.json"
    path.write_bytes(sealed(b'{"offsetTable":[1]}'))
    assert TableFile(Disk(), path, OffsetsFile).load() is None
    assert "consumerOffset.json: an array cannot be a map" in caplog.text


@pytest.mark.parametrize("versions", [["t.json"], ["t.json.bak"], ["t.json", "t.json.bak"]])
def test_a_table_that_cannot_be_read_is_set_aside_and_saved_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, versions: list[str]
) -> None:
    for name in versions:
        (tmp_path / name).write_bytes(b"\xff" * 10)
    file = TableFile(Disk(), tmp_path / "t.json", TopicsFile)
    assert file.load() is None
    assert file.was_lost
    assert "table is lost" in caplog.text
    for name in versions:
        assert (tmp_path / f"{name}.damaged").read_bytes() == b"\xff" * 10
        assert not (tmp_path / name).exists()
    file.save(TopicsFile())
    again = TableFile(Disk(), tmp_path / "t.json", TopicsFile)
    assert again.load() is not None
    assert not again.was_lost


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("topics.json", TopicsFile),
        ("subscriptionGroup.json", GroupsFile),
        ("consumerOffset.json", OffsetsFile),
        ("delayOffset.json", DelaysFile),
    ],
)
def test_what_is_saved_is_the_text_of_all_of_it(name: str, kind: type, tmp_path: Path) -> None:
    table = fastjson.read(golden_file("5.5.0-stop", name), kind)
    file = TableFile(Disk(), tmp_path / name, kind)
    for each in (table, kind(), table):
        file.save(each)
        whole = pretty(fastjson.write(each).decode()).encode()
        assert (tmp_path / name).read_bytes() == sealed(whole)


def test_only_entries_that_changed_are_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = TableFile(Disk(), tmp_path / "topics.json", TopicsFile)
    topics = {f"t{number}": TopicSettings(name=f"t{number}") for number in range(3000)}
    file.save(TopicsFile(topics=topics))
    written: list[str] = []

    def counted(text: str) -> str:
        written.append(text)
        return pretty(text)

    monkeypatch.setattr(table_file, "pretty", counted)
    topics["t7"] = TopicSettings(name="t7", read_queues=3)
    topics["new"] = TopicSettings(name="new")
    del topics["t9"]
    table = TopicsFile(topics=dict(topics))
    file.save(table)
    assert len(written) == 3  # what is no entry, and the two that are new
    assert file.path.read_bytes() == sealed(pretty(fastjson.write(table).decode()).encode())
    assert TableFile(Disk(), file.path, TopicsFile).load() == table
