"""Job: print the statistics of every actor of the running deployment, as JSON.

    ray job submit --runtime-env deploy/runtime_env.yaml --working-dir . -- \\
        python deploy/statistics.py
"""

import json
import sys

import ray

from deploy.cluster import connect
from wakelog.actors.deploy.group import SUPERVISOR
from wakelog.actors.ray.options import find_actor

ANSWER_SECONDS_MAX = 30.0


def main() -> int:
    """Print the statistics and return the exit code."""
    connect()
    supervisor = find_actor(SUPERVISOR)
    if supervisor is None:
        print("wakelog: nothing runs in this cluster. Submit deploy/start.py.", file=sys.stderr)
        return 1
    statistics = ray.get(supervisor.statistics.remote(), timeout=ANSWER_SECONDS_MAX)
    print(json.dumps(statistics, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
