"""AcceptedConnection: a connection of a server, which decodes within the server's ReadShare.

Invariants: while bytes are put off, it is not read, and what still comes is put behind them.
"""

from collections.abc import Callable, Collection

from wakelog.network.activity import CloseReason
from wakelog.network.connection import Connection, ConnectionOwner
from wakelog.network.limits import ServerLimits
from wakelog.network.read_share import SLICE_BYTES, SMALL_BYTES, ReadShare
from wakelog.protocol.frame import BodyBytesMax

PAUSED_BY_SHARE = 0x4


class AcceptedConnection(Connection):
    """One socket that was accepted."""

    def __init__(
        self,
        owner: ConnectionOwner,
        limits: ServerLimits,
        share: ReadShare,
        *,
        refused_codes: Collection[int],
        clock_seconds: Callable[[], float],
        body_bytes_max: BodyBytesMax | None,
    ) -> None:
        """Wait for the transport; the options are those of a Connection."""
        super().__init__(
            owner,
            limits,
            refused_codes=refused_codes,
            clock_seconds=clock_seconds,
            body_bytes_max=body_bytes_max,
        )
        self._share = share
        self._late = b""

    def data_received(self, data: bytes | memoryview) -> None:
        """Decode a chunk, or put it off."""
        if self._late:
            self._put_off(data)
        elif len(data) <= SMALL_BYTES:
            super().data_received(data)
        elif self._share.is_over:
            self._put_off(data)
        else:
            self._decode(data)

    def read_slice(self) -> bool:
        """Decode one slice of what was put off; False if it was the last."""
        if self.closed or self._close_reason is not CloseReason.PEER:
            self._late = b""
            return False
        some, self._late = self._late[:SLICE_BYTES], self._late[SLICE_BYTES:]
        self._decode(some)
        if not self._late:
            self.resume_reading(PAUSED_BY_SHARE)
        return bool(self._late)

    @property
    def held_bytes(self) -> int:
        """Count what was put off, too."""
        return super().held_bytes + len(self._late)

    def _decode(self, data: bytes | memoryview) -> None:
        began_seconds = self._clock_seconds()
        super().data_received(data)
        self._share.note_spent(self._clock_seconds() - began_seconds)

    def _put_off(self, data: bytes | memoryview) -> None:
        if not self._late:
            self.pause_reading(PAUSED_BY_SHARE)
            self._share.put_off(self)
        self._late += data
        self._owner.note_held(len(data))
