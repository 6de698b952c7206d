"""A service of your own: says how many bytes each folder of the store takes.

Offer it in your package's pyproject.toml, install the package, and start the broker:

    [project.entry-points."wakelog.services"]
    store_sizes = "your_package:StoreSizes"

It runs as an actor beside the broker's own, is started again when its process dies, and its numbers
are the metric `rocketmq_service_value`, by service and name.
"""

from pathlib import Path

from wakelog.actors.services.session import AttachRequest
from wakelog.actors.transport.service_plan import ServicePlan


class StoreSizes:
    """Measures the store at every scrape."""

    def __init__(self, plan: ServicePlan) -> None:
        """Keep the store's path; the plan holds every setting of the broker."""
        self._root = Path(plan.settings.store.store_path_root)
        self._epoch = 0

    def attach(self, request: AttachRequest) -> None:
        """Work for a Broker that has started, or after our own process was started again."""
        self._epoch = request.epoch

    def release(self) -> None:
        """Close what `attach` opened: nothing here."""

    def statistics(self) -> dict[str, float]:
        """Return the numbers."""
        folders = [path for path in self._root.iterdir() if path.is_dir()]
        return {"epoch": self._epoch, **{path.name: _size_bytes(path) for path in folders}}


def _size_bytes(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
