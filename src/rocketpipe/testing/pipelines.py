"""A pipeline in a test: a copy of its folder, run on the test's own servers."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any, Final

from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.consumer.pull import PullConsumer

_STATE: Final = (".rocketpipe", "storage", "tests", "__pycache__", ".git", ".venv")


class PipelineCopy:
    """Runs a pipeline whose files are in ``folder``, with all its state in another directory.

    pipeline = PipelineCopy(Path("shop"), tmp_path, rocketpipe.name_server)
    pipeline.run()
    assert pipeline.rows("cities") == [{"city": "Oslo", "cents": 1520}]
    """

    def __init__(self, folder: Path, scratch: Path, name_servers: str) -> None:
        """Copy the folder's definitions to below ``scratch``, a directory of the test."""
        from rocketpipe.projects import folder as folders

        given = folders.find(folder)
        root = scratch / given.name
        shutil.copytree(given.root, root, ignore=shutil.ignore_patterns(*_STATE))
        self._folder = folders.read(root / given.spec.name)
        self._name_servers = name_servers

    @property
    def root(self) -> Path:
        """Where the copy is."""
        return self._folder.root

    def run(self) -> None:
        """Run it once, over what the topics have now.

        Raises:
            PipelineError: If a flow failed; the message says why.
        """
        from rocketpipe.pipeline.session import SparkPlace
        from rocketpipe.projects.asks import Ask
        from rocketpipe.projects.errors import PipelineError
        from rocketpipe.projects.lock import held
        from rocketpipe.projects.running import run_recorded, workshop

        place = SparkPlace(master="local[2]")
        with held(self._folder), workshop(self._folder, place, self._name_servers) as shop:
            run = run_recorded(shop, Ask())
        if run.state != "completed":
            raise PipelineError(f"the run {run.state}: {run.error}")

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a table or materialized view, in no order."""
        import pyarrow.parquet as pq

        from rocketpipe.projects.table_files import files_of

        place = self._folder.table_files(table)
        assert place is not None
        return [row for file in files_of(place) for row in pq.read_table(file).to_pylist()]

    def messages(self, topic: str) -> list[bytes]:
        """The bodies of all messages of a topic, in no order."""
        return asyncio.run(self._messages(topic))

    async def _messages(self, topic: str) -> list[bytes]:
        found: list[bytes] = []
        group = f"test-{self._folder.name}"
        async with (
            Admin(self._name_servers) as admin,
            PullConsumer(self._name_servers, group=group) as consumer,
        ):
            ends = await admin.offsets.ends(topic)
            await consumer.assign(ends)
            await consumer.seek_to_begin()
            while len(found) < sum(end.end - end.least for end in ends.values()):
                found.extend(message.body for message in await consumer.poll())
        return found
