"""`python -m wakelog` and the `wakelog` command: the way into `cli`.

Signals come first, imports after: a stop that is asked for while Python still loads modules is
remembered, not answered with a stack trace.
"""

# The public `signal` takes 2 ms to import, in which Ctrl-C would print a traceback.
import _signal  # type: ignore[import-not-found]
import sys


def main() -> int:
    """Run the command line of this process and return its exit code."""
    early: list[int] = []
    _signal.signal(_signal.SIGINT, lambda number, _: early.append(number))
    if not __debug__:
        # Checks of our own mistakes are assertions; without them a mistake would reach the disk.
        sys.stderr.write("wakelog: assertions are off. Start Python without -O.\n")
        return 2
    from wakelog.cli.standard_streams import open_closed_streams

    open_closed_streams()
    from wakelog.cli.stop_signals import StopSignals

    signals = StopSignals()
    signals.install(early)
    from wakelog.cli.app import run

    return run(sys.argv[1:], signals)


if __name__ == "__main__":
    sys.exit(main())
