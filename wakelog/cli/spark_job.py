"""`wakelog spark` as a program for spark-submit, which runs a file and not a command.

    spark-submit --master ... $(wakelog spark script) rebuild --store DIR --into DIR

Master and memory are those of spark-submit.
"""

import sys


def main() -> int:
    """Run the job that the command line names and return the exit code."""
    from wakelog.cli.app import run
    from wakelog.cli.stop_signals import StopSignals

    return run(["spark", *sys.argv[1:]], StopSignals())


if __name__ == "__main__":
    del sys.path[0]  # this folder, in which Python would find our modules before any other
    sys.exit(main())
