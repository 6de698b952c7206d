"""`wakelog` whose elections take three seconds: run by a test as a program of its own."""

import sys

from wakelog.cli.stop_signals import StopSignals


def main() -> int:
    signals = StopSignals()
    signals.install()
    from wakelog.actors.broker.replica import Replica
    from wakelog.actors.deploy.local import LocalDeployment
    from wakelog.broker.replication.election import ElectionSettings
    from wakelog.cli import app

    Replica.times = ElectionSettings(
        patience_ms=2_500, behind_ms=500, fresh_ms=2_000, renew_ms=300, read_ms=150
    )
    return app.run(sys.argv[1:], signals, LocalDeployment)


if __name__ == "__main__":
    sys.exit(main())
