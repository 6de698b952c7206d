"""Job: stop the running deployment in order and end once its actors are gone.

ray job submit --runtime-env deploy/runtime_env.yaml --working-dir . -- python deploy/stop.py
"""

import shutil
import sys
import time

import ray
from ray.util import list_named_actors

from deploy.cluster import connect, shared_directory
from wakelog.actors.deploy.group import SUPERVISOR
from wakelog.actors.ray.options import end_actor, end_places, find_actor

STOP_SECONDS_MAX = 120.0
"""As long as the Supervisor gives a broker and the name server together, without a drain."""

GONE_SECONDS_MAX = 30.0
CHECK_SECONDS = 0.1


def wait_gone() -> list[str]:
    """Return the names of the actors that are still there after GONE_SECONDS_MAX."""
    end = time.monotonic() + GONE_SECONDS_MAX
    while (names := list_named_actors()) and time.monotonic() < end:
        time.sleep(CHECK_SECONDS)
    return list(names)


def main() -> int:
    """Stop, wait, and return 0 if every store was left as after a normal exit."""
    connect()
    supervisor = find_actor(SUPERVISOR)
    if supervisor is None and (names := list_named_actors()):
        print(
            f"wakelog: {', '.join(map(str, names))} run without their Supervisor. Submit "
            "deploy/start.py as before, and then this again.",
            file=sys.stderr,
        )
        return 1
    if supervisor is None:
        print("wakelog: nothing runs in this cluster")
        return 0
    seconds_max = STOP_SECONDS_MAX + ray.get(supervisor.drain_seconds.remote())
    is_clean = bool(ray.get(supervisor.stop.remote(), timeout=seconds_max))
    end_actor(supervisor)
    end_places()
    left = wait_gone()
    shutil.rmtree(shared_directory(), ignore_errors=True)
    if left:
        print(f"wakelog: still there: {', '.join(left)}. See Ray's logs.", file=sys.stderr)
        return 1
    print("wakelog: stopped" if is_clean else "wakelog: stopped, but not in order")
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
