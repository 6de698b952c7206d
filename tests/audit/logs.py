"""Logs with all that queues and index have to cope with, and what a rebuild makes of them."""

import random
from pathlib import Path

from tests.fakes.records import STORE_MS, LogBytes, properties

TRANSACTIONS = (0, 0, 0, 0, 4, 8, 12)
TOPICS = ("A", "B", "B", "SCHEDULE_TOPIC_XXXX", "no path", "täg")


def derived_files(root: Path) -> tuple[dict[str, bytes], list[bytes]]:
    """Return the queue files below a root by name, and the index files in order."""
    queues = root / "consumequeue"
    found = sorted(path for path in queues.rglob("*") if path.is_file())
    return (
        {str(path.relative_to(queues)): path.read_bytes() for path in found},
        [path.read_bytes() for path in sorted((root / "index").glob("*"))],
    )


def random_log(seed: int, *, segment_bytes: int, count: int, damaged: bool = True) -> LogBytes:
    """Return a log in which queues begin late, repeat, leave out and jump, and bytes rot."""
    rng = random.Random(seed)
    log = LogBytes(segment_bytes, begin=segment_bytes * rng.randrange(3))
    places: dict[tuple[str, int], int] = {}
    for i in range(count):
        queue = rng.choice(TOPICS), rng.randrange(3)
        following = places.get(queue, rng.choice((0, 0, 70)))
        jump = rng.choice((0,) * 30 + (-2, 3, 400_000, -(1 << 40), 1 << 62))
        places[queue] = following + 1
        names = {"KEYS": " ".join(f"k{rng.randrange(40)}" for _ in range(rng.randrange(4)))}
        if rng.random() < 0.8:
            names["UNIQ_KEY"] = f"U{i:06}"
        if rng.random() < 0.1:
            names |= {
                "INNER_MULTI_DISPATCH": "%LMQ%a,B",
                "INNER_MULTI_QUEUE_OFFSET": f"{i},{rng.randrange(200)}",
            }
        log.add(
            properties(**{name: value for name, value in names.items() if value}),
            topic=queue[0],
            queue_id=queue[1],
            queue_offset=following + jump,
            sys_flag=rng.choice(TRANSACTIONS),
            store_timestamp_ms=STORE_MS + 700 * i,
            body=bytes(rng.randrange(300)),
        )
    for _ in range(count // 100 if damaged else 0):
        log.damage(rng.choice(log.offsets) + rng.randrange(60), rng.randbytes(3))
    return log
