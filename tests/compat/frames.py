"""RocketMQ's frames made by hand, for what RocketMQ's own client would never send.

    u32 length | u8 header type (0: JSON) | u24 header length | header | body

It shares no code with wakelog's protocol, so that a mistake there cannot agree with itself here.
"""

import json
import socket
import struct
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

ANSWER_SECONDS_MAX = 20.0
ONEWAY = 2  # of the flag; 1 is a response


class Frame(NamedTuple):
    """What came: a response, or a request of the broker's own."""

    header: dict[str, Any]
    body: bytes

    @property
    def code(self) -> int:
        """Give the response or request code."""
        return int(self.header["code"])

    @property
    def fields(self) -> dict[str, str]:
        """Give the header's own fields, empty where there are none."""
        return self.header.get("extFields") or {}

    @property
    def is_response(self) -> bool:
        """Tell an answer from a request."""
        return bool(self.header["flag"] & 1)


class RawConnection:
    """One connection; answers are matched by opaque, whatever else comes is kept in `pushed`."""

    def __init__(
        self,
        address: str,
        *,
        language: str = "GO",
        version: int = 317,
        seconds_max: float = ANSWER_SECONDS_MAX,
    ) -> None:
        host, _, port = address.rpartition(":")
        self._seconds_max = seconds_max
        self._socket = socket.create_connection((host, int(port)), seconds_max)
        self._dialect = {"language": language, "version": version}
        self._opaque = 0
        self._received = b""
        self._answers: dict[int, Frame] = {}
        self.pushed: list[Frame] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection without a word."""
        self._socket.close()

    def send(
        self,
        code: int,
        fields: Mapping[str, Any] | None = None,
        body: bytes = b"",
        *,
        flag: int = 0,
    ) -> int:
        """Send a request and return its opaque; without fields, it has no `extFields` either."""
        self._opaque += 1
        header = {"code": code, **self._dialect, "opaque": self._opaque, "flag": flag}
        if fields is not None:
            header["extFields"] = {name: str(value) for name, value in fields.items()}
        encoded = json.dumps(header, ensure_ascii=False).encode()
        length = 4 + len(encoded) + len(body)
        self._socket.sendall(struct.pack(">II", length, len(encoded)) + encoded + body)
        return self._opaque

    def reply(self, request: Frame, body: bytes = b"") -> None:
        """Answer a request of the broker's with success."""
        header = {"code": 0, **self._dialect, "opaque": request.header["opaque"], "flag": 1}
        encoded = json.dumps(header).encode()
        length = 4 + len(encoded) + len(body)
        self._socket.sendall(struct.pack(">II", length, len(encoded)) + encoded + body)

    def ask(
        self,
        code: int,
        fields: Mapping[str, Any] | None = None,
        body: bytes = b"",
        *,
        flag: int = 0,
    ) -> Frame:
        """Send a request and return its answer."""
        return self.answer(self.send(code, fields, body, flag=flag))

    def answer(self, opaque: int) -> Frame:
        """Return the answer to a request sent before.

        Raises:
            TimeoutError: if none comes in time.
            ConnectionError: if the connection ends.
        """
        while opaque not in self._answers:
            self._receive(self._seconds_max)
        return self._answers.pop(opaque)

    def unasked(self) -> list[int]:
        """Return the opaque numbers of the answers that came and nobody waited for."""
        return list(self._answers)

    def wait_pushed(self, code: int, *, seconds_max: float = ANSWER_SECONDS_MAX) -> Frame:
        """Return, once, the broker's next request of this code.

        Raises:
            TimeoutError: if none comes in time.
        """
        end = time.monotonic() + seconds_max
        while True:
            for frame in self.pushed:
                if frame.code == code:
                    self.pushed.remove(frame)
                    return frame
            self._receive(max(0.01, end - time.monotonic()))

    def _receive(self, seconds_max: float) -> None:
        """Take in one frame."""
        self._socket.settimeout(seconds_max)
        length, header_length = struct.unpack(">II", self._take(8))
        # The upper byte of the header's length says how it is written: 0 is JSON.
        assert header_length >> 24 == 0
        header = json.loads(self._take(header_length))
        frame = Frame(header, self._take(length - 4 - header_length))
        if frame.is_response:
            self._answers[header["opaque"]] = frame
        else:
            self.pushed.append(frame)

    def _take(self, length: int) -> bytes:
        while len(self._received) < length:
            chunk = self._socket.recv(max(65_536, length - len(self._received)))
            if not chunk:
                raise ConnectionError("closed by the peer")
            self._received += chunk
        taken, self._received = self._received[:length], self._received[length:]
        return taken
