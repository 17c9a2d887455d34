"""Texts of errors that mean the same, made the same: what differs each time is taken out."""

from __future__ import annotations

import re
from typing import Final

#: A kind of error is told in no more than so many characters.
LONGEST: Final = 200
UNKNOWN: Final = "no reason given"

_TAKEN_OUT: Final = tuple(
    (re.compile(pattern), placeholder)
    for pattern, placeholder in (
        (r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}", "<id>"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?", "<time>"),
        (r"'[^'\n]*'|\"[^\"\n]*\"|`[^`\n]*`", "<text>"),
        (r"\[[0-9a-fA-F:]{3,}\](?::\d+)?|\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b", "<address>"),
        (r"\b0[xX][0-9a-fA-F]+\b|\b(?=\w*\d)(?=\w*[a-fA-F])[0-9a-fA-F]{8,}\b", "<hex>"),
        (r"(?<![\w/<])/(?:[\w.@+-]+/)*[\w.@+-]+", "<path>"),
        (r"(?<![\w<])[-+]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?", "<n>"),
    )
)


def kind_of_error(text: str | None) -> str:
    """What kind of error a text tells of: its first line, without what is of this one alone."""
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    if not lines:
        return UNKNOWN
    kind = lines[0][: 10 * LONGEST]
    for pattern, placeholder in _TAKEN_OUT:
        kind = pattern.sub(placeholder, kind)
    return " ".join(kind.split())[:LONGEST]
