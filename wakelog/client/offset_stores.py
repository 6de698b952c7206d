"""Where the offsets of a consumer are kept: at the brokers, or in a file when it broadcasts.

The file has 4.9.3's name and form, `FOLDER/CLIENT/GROUP/offsets.json`, where CLIENT stays the same
from one start to the next: `ADDRESS@INSTANCE`. A Java consumer with the same names goes on there.

Invariants: the file is replaced as a whole, so that a crash leaves the old or the new one.

Source: org.apache.rocketmq.client.consumer.store.{RemoteBrokerOffsetStore, LocalFileOffsetStore}
(4.9.3).
"""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from wakelog.client.errors import ClientError
from wakelog.client.group_calls import GroupCalls
from wakelog.client.offset_commits import OffsetCommits
from wakelog.client.route import QueueAt
from wakelog.protocol.bodies import ResetOffsetBody
from wakelog.protocol.body_codec import MessageQueue, decode_file, encode_body

LOCAL_FOLDER: Final = Path("~/.rocketmq_offsets")
"""rocketmq.client.localOffsetStoreDir."""


Offsets: TypeAlias = dict[MessageQueue, int]

logger = logging.getLogger("wakelog.client")


class OffsetStore(Protocol):
    """What a consumer needs of either."""

    async def read(self, queue: MessageQueue) -> int | None:
        """Return the stored offset of a queue, None without one. Raises: ClientError."""
        ...

    async def write(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, ClientError]:
        """Store offsets; those of other queues stay as they are.

        Return why some are not stored; the others are.
        """
        ...


class BrokerOffsets:
    """The offsets of a group, each at the broker of its queue."""

    def __init__(self, calls: GroupCalls) -> None:
        """Send no request yet."""
        self._calls = calls
        self._commits = OffsetCommits(calls.offsets, calls.group)

    async def read(self, queue: MessageQueue) -> int | None:
        """Ask the broker (OffsetStore)."""
        calls = self._calls
        return await calls.offsets.committed_offset(calls.at(queue), calls.group)

    async def write(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, ClientError]:
        """Commit to each broker beside the others, so that none holds up another (OffsetStore)."""
        queues: dict[QueueAt, MessageQueue] = {}
        failures: dict[MessageQueue, ClientError] = {}
        for queue in offsets:
            try:
                queues[self._calls.at(queue)] = queue
            except ClientError as error:
                failures[queue] = error
        failed = await self._commits.commit({at: offsets[queues[at]] for at in queues})
        return failures | {queues[at]: error for at, error in failed.items()}


def _read_offsets(path: Path) -> Offsets | None:
    """Return the offsets of a file, None if it is absent or empty. Raises: OSError, ValueError."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return None
    return dict(decode_file(ResetOffsetBody, text).offset_table) if text.strip() else None


class FileOffsets:
    """The offsets of one client that broadcasts, in a file."""

    def __init__(self, folder: Path, client: str, group: str) -> None:
        """Read the file, if there is one. Raises: ClientError for one that cannot be read."""
        self.path = folder / client / group / "offsets.json"
        try:
            found = _read_offsets(self.path)
        except (OSError, ValueError) as error:
            found = self._read_older(error)
        self._offsets = (self._read_older() if found is None else found) or {}

    def _read_older(self, error: OSError | ValueError | None = None) -> Offsets | None:
        """Return the offsets that a Java client left before its last ones, None without a file.

        error: why the newer file cannot be read. Raises: ClientError if neither can be.
        """
        older = self.path.with_suffix(".json.bak")
        try:
            found = _read_offsets(older)
        except (OSError, ValueError):
            found = None
        if found is None and error is not None:
            remedy = "Repair the file, or remove it to begin where start= says"
            raise ClientError(f"{self.path} cannot be read: {error}", remedy) from error
        if found is not None:
            logger.warning("%s is empty or damaged: offsets are those of %s", self.path, older)
        return found

    async def read(self, queue: MessageQueue) -> int | None:
        """Return what the file has (OffsetStore)."""
        return self._offsets.get(queue)

    async def write(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, ClientError]:
        """Replace the file (OffsetStore)."""
        self._offsets.update(offsets)
        data = encode_body(ResetOffsetBody(offset_table=self._offsets))
        new = self.path.with_suffix(".json.tmp")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(new, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
        except OSError as error:
            cause = f"the offsets cannot be written to {self.path}: {error.strerror}"
            failure = ClientError(cause, "Give offset_folder= a folder with room")
            return dict.fromkeys(offsets, failure)
        return {}
