"""The addresses on which processes listen for TCP."""

import os
from collections.abc import Iterable
from pathlib import Path

LOOPBACKS = {
    "0100007F",  # 127.0.0.1
    "0000000000000000FFFF00000100007F",  # the same, as an IPv6 socket says it
}


def listening(process_ids: Iterable[int]) -> set[str]:
    """Return the addresses on which processes listen for TCP, as /proc has them."""
    inodes = set()
    for process_id in process_ids:
        folder = Path(f"/proc/{process_id}/fd")
        try:
            links = [os.readlink(folder / name) for name in os.listdir(folder)]
        except OSError:
            continue
        inodes |= {link[8:-1] for link in links if link.startswith("socket:[")}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                found.add(fields[1].rpartition(":")[0])
    return found
