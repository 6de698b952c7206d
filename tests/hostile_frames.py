"""Hostile frames, as many as wanted: valid requests of every code, with something wrong in them.

A frame is made of a valid request, in either form of the header, by one to three changes: a field,
the body, the code or the bytes themselves. The seed decides everything. `Attack` gives each frame
to a decoder and a core as a connection would, and collects garbage between rounds only.
"""

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final

from wakelog.network.refusals import failed
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import ONEWAY_FLAG, RemotingCommand
from wakelog.protocol.errors import LocalProtocolError, RemoteProtocolError
from wakelog.protocol.frame import FrameDecoder, encode_frame

SEED: Final = 18
FRAME_SECONDS_MAX: Final = 0.1
AGAIN_COUNT: Final = 3
DRIFT_BYTES_MAX: Final = 16 * 1024 * 1024
ROUND_COUNT: Final = 2_000
"""Frames for each core: they fill its tables, as they may."""

PAGE_BYTES: Final = 4_096
LARGE_COUNT: Final = 1_000
"""One body of so many is large."""

NUMBERS: Final = (
    *("0", "1", "-1", "7", "65536", "2147483647", "-2147483648", "9223372036854775807"),
    *("-9223372036854775809", "1e9", "0x10", "1" * 400, "٣", "1.5", " 1", ""),
)
WORDS: Final = (
    *("T", "g", "%RETRY%g", "%DLQ%g", "%LMQ%q", "TBW102", "SCHEDULE_TOPIC_XXXX", "true", "TAG"),
    *("SQL92", "*", "A||B", "../../etc", "a\x00b", "\x01\x02", "\ud7ff", "x" * 300, "(" * 200),
    *("a > 1 AND " * 50, "a IN ('b'", "null", "{}", "DELAY\x0118\x02", "\x02" * 100),
)
VALUES: Final = NUMBERS + WORDS
PIECES: Final = (
    *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\u", b"null", b"1e999", b"-0", b"NaN"),
    *(b"[" * 200, b'{"a":' * 100, b"\xff\xfe", b"\x00", b"," * 500, b'"\\ud800"', b"{0:1}"),
    *(b"9" * 400, b"x'" * 50, b'{"@type":"java.lang.Runtime"}'),
)

Process = Callable[[RemotingCommand], list[RemotingCommand]]
"""Gives a request to a core; returns all that it sends for it."""


class HostileFrames:
    """An endless supply of frames."""

    def __init__(self, valid: list[RemotingCommand], seed: int = SEED) -> None:
        self._random = Random(seed)
        self._valid = valid

    def __iter__(self) -> Iterator[bytes]:
        count = 0
        while True:
            count += 1
            yield self._frame(large=count % LARGE_COUNT == 0)

    def _frame(self, *, large: bool) -> bytes:
        chance, pick = self._random.random, self._random.choice
        valid = pick(self._valid)
        fields, body, code, flag = dict(valid.ext_fields), valid.body, valid.code, valid.flag
        kind = chance()
        if kind < 0.5 and fields:
            for _ in range(1 + int(chance() * 2)):
                name = pick(tuple(valid.ext_fields))
                fields[name] = pick(VALUES)
                if chance() < 0.2:
                    del fields[name]
        if kind > 0.35:
            body = self._body(body, large=large)
        if chance() < 0.05:
            code = pick((-1, 0, 999, 1 << 31, *RequestCode)) & 0x7FFF
        if chance() < 0.05:
            flag = pick((ONEWAY_FLAG, 1, 3, 1 << 20))
        command = RemotingCommand(code, int(chance() * 1e9), flag, fields, body)
        command.serialize_type = int(chance() < 0.3)
        try:
            frame = encode_frame(command)
        except LocalProtocolError:
            command.serialize_type = 0
            frame = encode_frame(command)
        return self._spoiled(frame) if chance() < 0.15 else frame

    def _body(self, body: bytes, *, large: bool) -> bytes:
        chance = self._random.random
        at = int(chance() * (len(body) + 1))
        kind = chance()
        if large:
            return body[:at] + self._random.choice(PIECES) * int(chance() * 2_000) + body[at:]
        if kind < 0.4:
            return body[:at] + self._random.choice(PIECES) + body[at:]
        if kind < 0.6:
            return body[:at]
        if kind < 0.8:
            return body[:at] + bytes((int(chance() * 256),)) + body[at + 1 :]
        return self._random.choice(self._valid).body if kind < 0.9 else body[at:] + body

    def _spoiled(self, frame: bytes) -> bytes:
        """Change bytes of the header, or one of the two lengths."""
        chance = self._random.random
        spoiled = bytearray(frame)
        for _ in range(1 + int(chance() * 4)):
            begin = 0 if chance() < 0.2 else 8
            at = min(begin + int(chance() * 120), len(spoiled) - 1)
            spoiled[at] = int(chance() * 256)
        return bytes(spoiled)


class Attack:
    """What became of the frames of an attack."""

    def __init__(self, make_core: Callable[[], Process]) -> None:
        self.codes: Counter[int] = Counter()
        self.closed_count = 0
        self.drift_bytes = 0
        self._make_core = make_core
        self._slow: list[bytes] = []

    def run(self, frames: HostileFrames, count: int) -> None:
        """Give so many frames to cores, a new one for each round."""
        source = iter(frames)
        before_bytes = 0
        gc.collect()
        gc.freeze()
        gc.disable()
        try:
            for number in range(0, count, ROUND_COUNT):
                process = self._make_core()
                for _ in range(min(ROUND_COUNT, count - number)):
                    self._give(next(source), process)
                del process
                gc.collect()
                before_bytes = before_bytes or resident_bytes()  # caches are filled
        finally:
            gc.enable()
        self.drift_bytes = resident_bytes() - before_bytes

    def check(self) -> None:
        """Assert that nothing took long, and that nothing is kept.

        A frame that took long is given to a new core again, as other processes may have run.
        """
        for frame in self._slow:
            seconds = min(_seconds(frame, self._make_core()) for _ in range(AGAIN_COUNT))
            assert seconds < FRAME_SECONDS_MAX, f"{seconds:.3f} s for {frame[:400]!r}"
        assert self.drift_bytes < DRIFT_BYTES_MAX, self.drift_bytes

    def _give(self, frame: bytes, process: Process) -> None:
        began = time.perf_counter()
        commands, is_closed = _decoded(frame)
        self.closed_count += is_closed
        try:
            for command in commands:
                for sent in process(command):
                    _encode(sent)
                    if sent.is_response:
                        assert sent.opaque == command.opaque
                        self.codes[sent.code] += 1
        except Exception as error:
            error.add_note(f"frame: {frame[:4_000].hex()}")
            raise
        if time.perf_counter() - began >= FRAME_SECONDS_MAX:
            self._slow.append(frame)


def _seconds(frame: bytes, process: Process) -> float:
    began = time.perf_counter()
    for command in _decoded(frame)[0]:
        process(command)
    return time.perf_counter() - began


def _decoded(frame: bytes) -> tuple[list[RemotingCommand], bool]:
    """Return the requests of a frame, and whether the connection is closed because of it."""
    decoder = FrameDecoder()
    try:
        commands, is_closed = decoder.feed(frame), False
    except RemoteProtocolError:
        commands, is_closed = decoder.preceding, True
    return [command for command in commands if not command.is_response], is_closed


def _encode(sent: RemotingCommand) -> None:
    try:
        encode_frame(sent)
    except LocalProtocolError as error:  # a remark may quote half a character
        encode_frame(failed(sent, error))


def resident_bytes() -> int:
    """Return how much memory this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES
