"""`wakelog spark` as a program for spark-submit, which takes a file and not a command.

    spark-submit --master ... $(wakelog spark script) rebuild --store DIR --into DIR

Master and memory are those that spark-submit was told.
"""

from __future__ import annotations

import sys

from wakelog.cli.app import run
from wakelog.cli.stop_signals import StopSignals


def main() -> int:
    """Run the job that the command line names and return the exit code."""
    return run(["spark", *sys.argv[1:]], StopSignals())


if __name__ == "__main__":
    sys.exit(main())
