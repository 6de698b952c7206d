"""Ray's daemons, started by `ray.init`, its public options and environment variables only.

Works with every Ray that `pyproject.toml` allows. It takes some seconds more than the fast start,
and Ray's dashboard, log monitor and agents run beside the broker.

Source: ray.init (2.60).
"""

import logging
import os
from pathlib import Path


class PlainRay:
    """The daemons of a Ray on the loopback interface; they end with this process."""

    def __init__(self, *, worker_count: int, object_store_bytes: int, directory: str) -> None:
        """Start them. Raises: RuntimeError, ValueError, as Ray does."""
        os.environ["RAY_TMPDIR"] = str(Path(directory).parent)
        import ray

        ray.init(
            address="local",
            num_cpus=worker_count,
            num_gpus=0,
            object_store_memory=object_store_bytes,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
        self.address: str = ray.get_runtime_context().gcs_address

    def has_ended(self) -> bool:
        """Return whether a daemon has died: each is a child of this process."""
        try:
            # WNOWAIT leaves the dead child to Ray, which collects it when it ends.
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        return found is not None

    def end(self) -> None:
        """End the daemons."""
        import ray

        ray.shutdown()
