"""What a recovery cuts from the log is kept: in its segment, or whole in the quarantine.

That has to hold at every crash of the recovery too: the copy is durable before anything is cut.
What was cut is taken from the image that the recovery began with; its own report is not trusted.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.simulation.disk import Image
from wakelog.storage.config import StoreConfig

QUARANTINE = "wakelog.quarantine"


class Cut(NamedTuple):
    """What a segment held from a position on, the zeros at its end left out."""

    path: str
    position: int
    physical_offset: int
    data: bytes


def cut_from(image: Image, config: StoreConfig, log_end: int) -> list[Cut]:
    """Return the bytes of an image's log after an end."""
    directory = config.paths.commit_log_directories[0] + "/"
    cuts = []
    for path, content in sorted(image.files.items()):
        if path.startswith(directory):
            start = int(path.removeprefix(directory))
            position = max(log_end - start, 0)
            data = bytes(content[position:]).rstrip(b"\0")
            if data:
                cuts.append(Cut(path, position, start + position, data))
    return cuts


def missing_of(
    cuts: Sequence[Cut], files: Mapping[str, bytes | bytearray], config: StoreConfig
) -> Cut | None:
    """Return the first cut that is neither where it was nor in the quarantine, None if all are."""
    for cut in cuts:
        there = files.get(cut.path, b"")[cut.position : cut.position + len(cut.data)]
        prefix = f"{config.paths.root}/{QUARANTINE}/{cut.physical_offset:020d}."
        copies = (data for path, data in files.items() if path.startswith(prefix))
        if there != cut.data and cut.data not in copies:
            return cut
    return None
