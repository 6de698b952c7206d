"""A dispatcher of your own: counts the messages of each topic into one JSON file.

Offer it in your package's pyproject.toml, install the package, and start the broker:

    [project.entry-points."wakelog.dispatchers"]
    topic_counter = "your_package:TopicCounter"
"""

import json
from collections import Counter
from pathlib import Path

from wakelog.dispatchers.dispatcher import DispatchBatch
from wakelog.storage.config import StoreConfig


class TopicCounter:
    """Keeps the counts and how far they reach together, so that nothing is counted twice."""

    name = "topic_counter"

    def __init__(self, config: StoreConfig) -> None:
        """Start from nothing; `recover` reads what was counted before."""
        self.path = Path(config.store_path_root) / "topic_counts.json"
        self.end, self.counts = 0, Counter[str]()

    def dispatch(self, batch: DispatchBatch) -> None:
        """Count the records that were not counted before."""
        self.counts.update(r.topic for r in batch.requests if r.physical_offset >= self.end)
        self.end = max(self.end, batch.end)

    def flush(self) -> None:
        """Write both in one step."""
        unfinished = self.path.with_suffix(".tmp")
        unfinished.write_text(json.dumps({"end": self.end, "counts": self.counts}))
        unfinished.replace(self.path)

    def recover(self, max_physical_offset: int) -> int:
        """Read what was counted; count again if the log ends before it."""
        if self.path.exists():
            kept = json.loads(self.path.read_text())
            self.end, self.counts = kept["end"], Counter(kept["counts"])
        return self.end if self.end <= max_physical_offset else self.truncate(0)

    def truncate(self, physical_offset: int) -> int:
        """Forget everything: counts cannot be taken back one by one."""
        self.end, self.counts = 0, Counter()
        return self.end

    def statistics(self) -> dict[str, int]:
        """Return counters for the metrics."""
        return {"topics_count": len(self.counts)}
