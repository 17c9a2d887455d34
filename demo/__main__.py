"""``python -m demo``, or ``python path/to/demo`` from anywhere."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    if not __package__:
        # Named by its path, the directory itself was put on the import path: wanted is its parent.
        sys.path[0] = str(Path(__file__).resolve().parent.parent)
    try:
        from demo.job import main

        sys.exit(main())
    except KeyboardInterrupt:  # before there was anything to clear away
        sys.exit(130)
