"""RocketMQ 4.9.3 with the face of an embedded broker, so that a test may run at either."""

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.compat.clusters import Cluster, real_cluster
from wakelog.testing import EmbeddedBroker


class RealAsEmbedded(EmbeddedBroker):
    """4.9.3's name server and broker, as processes. They have no faults that a test can set."""

    def __init__(self, **given: Any) -> None:
        """given: as for an embedded broker."""
        super().__init__(**given)
        self._processes = ExitStack()

    def _start_on_free_ports(self) -> None:
        folder = self._processes.enter_context(TemporaryDirectory())
        starting = real_cluster(Path(folder), settings=self._settings)
        cluster: Cluster = self._processes.enter_context(starting)
        ports = [int(each.rpartition(":")[2]) for each in (cluster.name_server, cluster.broker)]
        self._ports = (ports[0], ports[1])

    def _stop_deployment(self) -> None:
        self._processes.close()
