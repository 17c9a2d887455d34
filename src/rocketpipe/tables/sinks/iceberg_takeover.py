"""An Iceberg table gets the rows of another, in one commit: columns, partitions, files, number.

The files of the new one are linked to where those of the old are, and only the commit says which
count: who dies before it leaves links that nobody names, and upkeep removes. Queries on the old
snapshot go on, and it can be asked for later; but a column whose type is another now is NULL there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketpipe.tables.sinks.iceberg_upkeep import listed_file, local_path

if TYPE_CHECKING:
    from pyiceberg.table import Table, Transaction

#: The property that has the id of who fills a table.
OWNER: Final = "rocketpipe.table"
_OURS: Final = "rocketpipe."
_NAMES: Final = "schema.name-mapping.default"


def take_over(table: Table, root: Path, new: Table, new_root: Path) -> None:
    """Commit the rows of ``new`` in the place of those of ``table``.

    Raises:
        CommitFailedException: If somebody wrote the table meanwhile.
    """
    old_files = [task.file for task in table.scan().plan_files()]
    said = {name: value for name, value in new.properties.items() if name.startswith(_OURS)}
    gone = [
        name for name in table.properties if name.startswith(_OURS) and name not in new.properties
    ]
    with table.transaction() as change:
        _fit(change, table, new)
        change.set_properties({**said, _NAMES: _names(change, table)})
        if gone:
            change.remove_properties(*gone)
        update = change.update_snapshot(snapshot_properties={"rocketpipe.rebuilt": said[OWNER]})
        with update.overwrite() as snapshot:
            for each in old_files:
                snapshot.delete_data_file(each)
            for path, parts in _linked(root, new, new_root):
                snapshot.append_data_file(listed_file(table.io, change.table_metadata, path, parts))


def _fit(change: Transaction, table: Table, new: Table) -> None:
    """Have columns and partitions as the new table has them."""
    there = {each.name: each for each in table.schema().fields}
    wanted = new.schema()
    is_same = {
        each.name
        for each in wanted.fields
        if each.name in there and str(there[each.name].field_type) == str(each.field_type)
    }
    old_parts = [each.name for each in table.spec().fields]
    parts = [each.name for each in new.spec().fields]
    if old_parts != parts or not is_same.issuperset(parts):
        with change.update_spec() as spec:
            for name in old_parts:
                spec.remove_field(name)
    if len(is_same) < max(len(there), len(wanted.fields)) or _required(there) != _required(
        {each.name: each for each in wanted.fields}
    ):
        with change.update_schema(allow_incompatible_changes=True) as schema:
            for name in there.keys() - is_same:
                schema.delete_column(name)
            for each in wanted.fields:
                if each.name not in is_same:
                    schema.add_column(each.name, each.field_type)
                elif each.optional:
                    schema.make_column_optional(each.name)
    if [each.name for each in change.table_metadata.spec().fields] != parts:
        with change.update_spec() as spec:
            for name in parts:
                spec.add_identity(name)


def _names(change: Transaction, table: Table) -> str:
    """By which name a column is found in files, also in those of older snapshots."""
    from pyiceberg.table.name_mapping import NameMapping

    now = change.table_metadata.schema().name_mapping.root
    known = {name for each in now for name in each.names}
    before = table.metadata.name_mapping()
    gone = [each for each in before.root if not known & set(each.names)] if before else []
    return NameMapping(root=[*now, *gone]).model_dump_json()


def _required(fields: dict[str, Any]) -> set[str]:
    return {name for name, each in fields.items() if each.required}


def _linked(root: Path, new: Table, new_root: Path) -> Iterator[tuple[Path, list[Any]]]:
    """The files of the new table, where they stay, and of what partition each is."""
    for task in new.scan().plan_files():
        path = local_path(task.file.file_path)
        to = root / path.relative_to(new_root)
        to.parent.mkdir(parents=True, exist_ok=True)
        if not to.exists():
            _link(path, to)
        part = task.file.partition
        yield to, [part[number] for number in range(len(part))]


def _link(path: Path, to: Path) -> None:
    try:
        os.link(path, to)
    except OSError:  # a file system without links, or another one
        draft = to.with_suffix(".draft")
        shutil.copyfile(path, draft)
        draft.replace(to)
