"""Tables of a PostgreSQL that take a batch once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import psycopg
import pyarrow as pa
import pytest
from tests.tables.support.commit_cutter import CommitCutter
from tests.tables.support.postgres import PostgresServer

from rocketpipe.tables.errors import DatabaseAway, DatabaseRefused, NotATable, SpecMismatch
from rocketpipe.tables.files import WrittenFile
from rocketpipe.tables.sinks.database import Database, TableName
from rocketpipe.tables.sinks.postgres import PostgresSink

Psql = Callable[..., list[tuple[Any, ...]]]

SCHEMA = pa.schema([("number", pa.int64()), ("kind", pa.string())])


def sink(address: str, table: str = "orders", table_id: str = "me") -> PostgresSink:
    name = TableName.parse(table)
    return PostgresSink(Database(address), name, table_id, "/lake/orders.follow", SCHEMA)


def made(address: str, table: str = "orders") -> PostgresSink:
    new = sink(address, table)
    new.check_free()
    new.prepare(SCHEMA)
    return new


def written(to: PostgresSink, *numbers: int, kind: str = "a") -> list[WrittenFile]:
    copied = to.rows_to.open(SCHEMA, None)
    copied.add(
        pa.RecordBatch.from_pydict({"number": numbers, "kind": [kind] * len(numbers)}, SCHEMA)
    )
    return copied.finish()


def numbers(psql: Psql, table: str = "orders") -> list[int]:
    return [row[0] for row in psql(f"SELECT number FROM {table} ORDER BY 1")]


def stages(psql: Psql) -> list[str]:
    return [
        row[0]
        for row in psql(
            "SELECT relname FROM pg_class WHERE relname LIKE '%stage%' AND relkind = 'r'"
        )
    ]


def test_a_batch_is_one_transaction_with_its_number(address: str, psql: Psql) -> None:
    to = made(address)
    assert to.last_batch() is None
    assert to.figures()["rows"] == 0
    assert to.commit([*written(to, 1, 2), *written(to, 3)], 0)
    assert to.commit([], 1)  # all of its messages were bad
    assert sink(address).last_batch() == 1
    assert numbers(psql) == [1, 2, 3]
    assert to.figures()["rows"] == 3
    [(name, table_id, batch, rows, kept)] = psql(
        "SELECT table_name, table_id, batch, rows, kept_in FROM rocketpipe_batches"
    )
    assert (name, table_id, batch, rows) == ("orders", "me", 1, 3)
    assert str(kept).startswith("/lake/orders.follow on ")
    assert stages(psql) == []


def test_a_batch_that_comes_again_is_left_out_and_its_tables_go(address: str, psql: Psql) -> None:
    to = made(address)
    to.commit(written(to, 1), 0)
    to.commit(written(to, 2), 1)
    for batch in (0, 1):
        assert not to.commit(written(to, 1, 2), batch)
    assert numbers(psql) == [1, 2]
    assert stages(psql) == []


def test_what_the_server_keeps_locked_of_a_dead_task_goes_later_and_the_rest_at_once(
    address: str, psql: Psql
) -> None:
    to = made(address)
    (kept,), (gone,) = written(to, 1), written(to, 2)
    with psycopg.connect(address) as unknown_to_be_dead:
        unknown_to_be_dead.execute(f"LOCK TABLE {kept.path}")  # type: ignore[arg-type]
        assert to.clear() == 1
        assert stages(psql) == [kept.path]
        assert gone.path != kept.path
    assert to.clear() == 1
    assert stages(psql) == []


def test_what_a_task_that_died_copied_is_in_no_table(address: str, psql: Psql) -> None:
    to = made(address)
    written(to, 7)  # and here the driver died
    half = to.rows_to.open(SCHEMA, None)
    half.add(pa.RecordBatch.from_pydict({"number": [8], "kind": ["a"]}, SCHEMA))
    half.discard()
    assert len(stages(psql)) == 1
    to.commit(written(to, 7), 0)
    assert numbers(psql) == [7]
    assert stages(psql) == []
    written(to, 9)
    assert to.upkeep(keep_ms=0, compact=True) == {"removed": 1}


def test_a_task_without_rows_makes_no_table(address: str, psql: Psql) -> None:
    to = made(address)
    assert to.rows_to.open(SCHEMA, None).finish() == []
    assert stages(psql) == []


def test_a_table_that_a_crash_emptied_is_noticed(address: str, psql: Psql) -> None:
    to = made(address)
    lost = written(to, 1, 2)
    psql(f"TRUNCATE {lost[0].path}")  # as a server does with what it has not logged
    with pytest.raises(DatabaseAway, match="has 0 of the 2 rows that a task copied"):
        to.commit(lost, 0)
    lost = written(to, 1, 2)
    psql(f"DROP TABLE {lost[0].path}")
    with pytest.raises(DatabaseAway, match="the batch is written again"):
        to.commit(lost, 0)
    assert (numbers(psql), to.last_batch()) == ([], None)


def test_columns_can_be_added_and_nothing_else(address: str, psql: Psql) -> None:
    to = made(address)
    to.commit(written(to, 1), 0)
    psql("ALTER TABLE orders ADD COLUMN seen timestamptz DEFAULT now()")  # the user's own
    psql("CREATE INDEX ON orders (number)")
    wider = pa.schema([*SCHEMA, ("note", pa.string())])
    to.prepare(wider)
    to.prepare(wider)
    copied = to.rows_to.open(wider, None)
    copied.add(pa.RecordBatch.from_pydict({"number": [2], "kind": ["a"], "note": ["n"]}, wider))
    to.commit(copied.finish(), 1)
    assert psql("SELECT number, note, seen IS NOT NULL FROM orders ORDER BY 1") == [
        (1, None, True),
        (2, "n", True),
    ]
    with pytest.raises(SpecMismatch, match="number is bigint, not text: give the columns"):
        to.prepare(pa.schema([("number", pa.string())]))


def test_a_table_of_somebody_else_is_left_alone(address: str, psql: Psql) -> None:
    psql("CREATE TABLE taken (id int)")
    psql("CREATE VIEW shown AS SELECT 1 AS id")
    made(address)
    for name, said in {
        "taken": "is a table that follows no topic",
        "shown": "is a view, no table",
        "orders": r"is filled by /lake/orders\.follow on ",
    }.items():
        other = sink(address, name, "other")
        with pytest.raises(NotATable, match=said):
            other.check_free()
        with pytest.raises(NotATable, match=said):
            other.prepare(SCHEMA)
        assert other.last_batch() is None
    assert psql("SELECT count(*) FROM taken") == [(0,)]


def test_a_table_that_was_dropped_is_lost_and_made_anew_from_nothing(
    address: str, psql: Psql
) -> None:
    to = made(address)
    to.commit(written(to, 1), 4)
    psql("DROP TABLE orders")
    assert to.last_batch() is None
    lost = written(to, 2)
    with pytest.raises(SpecMismatch, match="it is gone"):
        to.commit(lost, 5)
    to.prepare(SCHEMA)
    assert (to.last_batch(), to.figures()["rows"]) == (None, 0)
    assert to.commit(written(to, 1), 0)


def test_names_are_kept_to_the_letter_and_in_their_schema(address: str, psql: Psql) -> None:
    psql("CREATE SCHEMA sales")
    strange = 'Ord"ers%s; --'
    to = made(address, f"sales.{strange}")
    schema = pa.schema([("Select; --", pa.int64())])
    to = sink(address, "sales.other", "me2")
    to.prepare(schema)
    copied = to.rows_to.open(schema, None)
    copied.add(pa.RecordBatch.from_pydict({"Select; --": [5]}, schema))
    to.commit(copied.finish(), 0)
    assert psql('SELECT "Select; --" FROM sales.other') == [(5,)]
    assert psql("SELECT table_name, batch FROM sales.rocketpipe_batches ORDER BY 1") == [
        (strange, None),
        ("other", 0),
    ]


def test_a_database_that_cannot_have_the_table_says_why(address: str, psql: Psql) -> None:
    with pytest.raises(DatabaseRefused, match="there is no schema 'nowhere': make it first"):
        sink(address, "nowhere.orders").check_free()
    psql("CREATE ROLE guest LOGIN")
    try:
        psql("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        as_guest = address.replace("postgres@", "guest@")
        with pytest.raises(DatabaseRefused, match="may not make tables in schema 'public'"):
            sink(as_guest).check_free()
        made(address)
        with pytest.raises(DatabaseRefused, match=r"permission denied.*\(42501\)"):
            sink(as_guest).last_batch()
    finally:
        psql("DROP ROLE guest")


def test_a_full_disk_is_said_and_changes_nothing(address: str, psql: Psql) -> None:
    to = made(address)
    psql(
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE 'could not extend file' USING ERRCODE = 'disk_full'; END $$"
    )
    psql("CREATE TRIGGER full_disk BEFORE INSERT ON orders EXECUTE FUNCTION full_disk()")
    with pytest.raises(DatabaseAway, match="has no space left: make room on its disk"):
        to.commit(written(to, 1), 0)
    psql("DROP TRIGGER full_disk ON orders")
    assert to.commit(written(to, 1), 0)
    assert numbers(psql) == [1]


def test_two_drivers_come_one_after_the_other(address: str, psql: Psql) -> None:
    first, second = made(address), sink(address)
    mine, theirs = written(first, 1), written(second, 1)
    assert first.commit(mine, 0)
    assert not second.commit(theirs, 0)
    assert numbers(psql) == [1]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_connection_lost_at_commit_is_looked_up_by_the_number(
    address: str, psql: Psql, postgres_server: PostgresServer, when: Literal["before", "after"]
) -> None:
    made(address)
    cutter = CommitCutter(postgres_server.socket, when)
    to = sink(cutter.address(address.partition("@/")[2].partition("?")[0]))
    batch = written(sink(address), 1)
    if when == "after":
        assert to.commit(batch, 0)
    else:
        with pytest.raises(DatabaseAway, match="cannot be reached"):
            to.commit(batch, 0)
        assert to.commit(written(to, 1), 0)
    assert cutter.cuts == 1
    cutter.close()
    assert numbers(psql) == [1]
    assert stages(psql) == []


def test_a_server_that_crashes_between_copy_and_commit_loses_nothing(
    address: str, psql: Psql, postgres_server: PostgresServer
) -> None:
    to = made(address)
    to.commit(written(to, 0), 0)
    lost = written(to, 1, 2)
    postgres_server.crash()
    with pytest.raises(DatabaseAway, match="cannot be reached"):
        to.commit(lost, 1)
    postgres_server.start()
    with pytest.raises(DatabaseAway, match="has 0 of the 2 rows"):
        to.commit(lost, 1)
    assert to.commit(written(to, 1, 2), 1)
    assert numbers(psql) == [0, 1, 2]
    assert stages(psql) == []


def test_rows_beside_the_batches_are_there_once_by_their_name(
    address: str, psql: Psql, postgres_server: PostgresServer
) -> None:
    to = made(address)
    to.commit(written(to, 1), 0)
    copied = to.mends_to.open(SCHEMA, None)
    copied.add(pa.RecordBatch.from_pydict({"number": [2, 3], "kind": ["b", None]}, SCHEMA))
    files = copied.finish()
    postgres_server.crash()  # they were decided on, so they are not lost
    postgres_server.start()
    [part] = to.written(files)
    assert [batch.column("number").to_pylist() for batch in part.read(SCHEMA)] == [[2, 3]]
    assert not to.has_named("replay-1")
    for _ in range(2):
        to.add_named(files, "replay-1")
        assert to.has_named("replay-1")
        assert numbers(psql) == [1, 2, 3]
    copied = to.mends_to.open(SCHEMA, None)
    copied.add(pa.RecordBatch.from_pydict({"number": [4], "kind": ["b"]}, SCHEMA))
    files = copied.finish()
    for _ in range(2):
        to.replace_named(files, "replay-2")
        assert numbers(psql) == [4]
    to.replace_named([], "replay-3")
    assert (numbers(psql), to.figures()["rows"], to.last_batch()) == ([], 0, 0)
    assert psql("SELECT relname FROM pg_class WHERE relname LIKE '%_mend_%'") == []
