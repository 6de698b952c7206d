"""`wakelog` whose actors lose notifications: run by a test as a program of its own.

The first argument says which notification of each is lost, 1 for all; the rest is the command line.
"""

import sys

from wakelog.cli.stop_signals import StopSignals


def main() -> int:
    signals = StopSignals()
    signals.install()
    from wakelog.actors.deploy.supervised import RayDeployment
    from wakelog.actors.transport.notifications import NotificationFaults
    from wakelog.cli import app

    faults = NotificationFaults(drop_every=int(sys.argv[1]))
    return app.run(sys.argv[2:], signals, lambda plan: RayDeployment(plan, faults))


if __name__ == "__main__":
    sys.exit(main())
