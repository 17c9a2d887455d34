"""What a run of a job has found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A sentence, some figures, tables by name, and plots (SVG) for the page."""

    headline: str
    #: Whether nothing was found that somebody should look at.
    ok: bool = True
    figures: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    plots: Sequence[str] = ()
