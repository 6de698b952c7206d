"""ServerLimits: every bound of the server, its unit in its name and the reason beside it.

Invariants: asserted against each other when a value is made.
"""

import msgspec

KIBIBYTE = 1024
MEBIBYTE = 1024 * KIBIBYTE
GIBIBYTE = 1024 * MEBIBYTE


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one server; the defaults are meant for a broker."""

    turn_budget_seconds: float = 0.002
    """The loop does nothing longer than 2 ms: a pull does not wait for a whole burst of sends."""

    poll_seconds: float = 0.0
    """How long the loop polls for a request before it sleeps, while requests are close together."""

    lane_bytes_max: int = 64 * MEBIBYTE
    """Bytes that wait in all lanes. Above it connections are not read until half is processed.
    4.9.3 bounds the number of frames only: 10,000 could be 40 GB."""

    write_buffer_bytes_high: int = 1 * MEBIBYTE
    """Above it a connection is not read: a peer that reads no responses gets no more of them."""

    write_buffer_bytes_max: int = 64 * MEBIBYTE
    """Above it a connection is closed. A consumer of 200 queues may wait for 200 responses of
    256 KiB (maxTransferBytesOnMessageInMemory)."""

    held_bytes_max: int = 512 * MEBIBYTE
    """Unread responses and unfinished frames of all connections. Above it those that hold most are
    closed, down to three quarters. 128 producers may send 4 MiB each at the same time."""

    held_bytes_step: int = 32 * MEBIBYTE
    """After so many bytes that may be held, they are counted. By so much more may be held, and by
    what one connection is sent in a turn."""

    write_stall_seconds_max: float = 30.0
    """How long a peer may read no byte of its responses; 4.9.3 has no limit."""

    idle_seconds_max: float = 120.0
    """serverChannelMaxIdleTimeSeconds: nothing read and nothing written."""

    frame_seconds_max: float = 20.0
    """For a frame's next ``frame_bytes_step``, or its end; 4.9.3 has no limit. A connection that
    sends nothing is idle: health checks and clients open some ahead."""

    frame_bytes_step: int = 64 * KIBIBYTE
    """In 20 s: a slow line may take minutes for a message of 4 MiB."""

    handshake_seconds_max: float = 10.0
    """A TLS handshake; Netty's SslHandler has the same limit."""

    requests_waiting_max: int = 1_024
    """Requests of the server that wait for a response of one connection; 4.9.3 has no limit."""

    connections_max: int = 20_000
    """4.9.3 has no cap but its file descriptors."""

    connections_per_host_max: int = 10_000
    """One address may not take all; clients behind one NAT share an address."""

    descriptors_reserved: int = 256
    """For the store's files, the sockets between actors, and logs; at most half of all."""

    backlog: int = 1_024
    """serverSocketBacklog of 4.9.3."""

    def __post_init__(self) -> None:
        """Assert the relations."""
        assert 0 < self.turn_budget_seconds < 1
        assert 0 <= self.poll_seconds < 0.001
        assert self.write_buffer_bytes_high < self.write_buffer_bytes_max
        assert 0 < self.held_bytes_step < self.held_bytes_max
        assert 0 < self.handshake_seconds_max < self.frame_seconds_max
        assert 0 < self.connections_per_host_max <= self.connections_max

    def connections_allowed(self, descriptors_max: int) -> int:
        """Return the cap on connections of a process that may open ``descriptors_max`` files."""
        reserved = min(self.descriptors_reserved, descriptors_max // 2)
        return max(1, min(self.connections_max, descriptors_max - reserved))
