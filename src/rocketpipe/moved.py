"""Old paths of modules that users may have imported: each still leads to where the module is now.

What is public has a path that stays: `rocketpipe`, `rocketpipe.errors`, `rocketpipe.strategies`,
`rocketpipe.selectors`, and what `blocking`, `pipeline` and `testing` export. Pages of earlier
versions named some modules behind these. Importing one by its old path gives the module itself,
and a `DeprecationWarning` that says from where to import instead.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

#: Old path, path now, and where users find what they want from it; all below `rocketpipe`.
MOVED: Final = {
    "client.consumer.assignment": ("client.consumer.group.assignment", "strategies"),
    "client.consumer.read_ahead": ("client.consumer.pulling.read_ahead", ""),
    "client.producer.batching": ("client.producer.sending.batching", ""),
    "client.producer.staged": ("client.producer.staging.staged", ""),
    "pipeline.gaps": ("pipeline.planning.gaps", "pipeline"),
    "pipeline.log_decode": ("pipeline.columns.records", "pipeline"),
    "pipeline.log_directory": ("pipeline.log.directory", "pipeline"),
    "pipeline.offsets": ("pipeline.planning.offsets", "pipeline"),
    "pipeline.option_text": ("pipeline.options.text", "pipeline"),
    "pipeline.places": ("pipeline.planning.offset_reader", "pipeline"),
    "pipeline.rows": ("pipeline.columns.rows", "pipeline"),
    "pipeline.write_rows": ("pipeline.columns.write_rows", "pipeline"),
    "testing.history": ("testing.histories.history", "testing"),
}


class OldPaths(MetaPathFinder, Loader):
    """Finds modules by their old paths; asked only for what nobody else finds."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return a spec for an old path, else None."""
        package, _, name = fullname.partition(".")
        if package != "rocketpipe" or name not in MOVED:
            return None
        return ModuleSpec(fullname, self)

    def exec_module(self, module: ModuleType) -> None:
        """Put the module that was moved in the place of an empty one."""
        name = module.__name__
        now, public = MOVED[name.removeprefix("rocketpipe.")]
        better = f"rocketpipe.{public}" if public else "rocketpipe"
        # Behind the frames of the import system: the line that imports.
        warnings.warn(
            f"{name} has moved: import what you need from {better}",
            DeprecationWarning,
            stacklevel=2,
        )
        sys.modules[name] = import_module(f"rocketpipe.{now}")


def install() -> None:
    """Have old paths found, behind all other ways to find a module."""
    if not any(isinstance(finder, OldPaths) for finder in sys.meta_path):
        sys.meta_path.append(OldPaths())
