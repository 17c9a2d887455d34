"""The command as the application of spark-submit, which takes files and no names.

    spark-submit --master spark://spark-1:7077 …/rocketpipe/cli/submitted.py sql "SELECT 1"

Commands that run on Spark then use the one that was submitted. `--print-submit` prints such a line.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    sys.path.pop(0)  # the directory of this file, whose names are not to be imported without theirs
    from rocketpipe.cli.main import main

    sys.exit(main())
