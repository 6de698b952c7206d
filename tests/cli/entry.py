"""`wakelog` with a deployment that does nothing: run by the tests as a program of its own.

The first argument is `stops` or `never-stops`; the rest is the command line.
"""

import sys

from tests.cli.fakes import FakeDeployment, forever, nothing
from wakelog.cli.stop_signals import StopSignals


def main() -> int:
    signals = StopSignals()
    signals.install()
    from wakelog.cli import app, up

    stops = sys.argv[1] == "stops"
    vars(up)["stop_seconds_max"] = lambda in_turn_count: 30.0 if stops else 0.5
    deployment = FakeDeployment(on_stop=nothing if stops else forever)
    return app.run(sys.argv[2:], signals, lambda plan: deployment)


if __name__ == "__main__":
    sys.exit(main())
