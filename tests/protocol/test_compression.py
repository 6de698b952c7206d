"""Compressed bodies: methods, limits, and packages that may be absent."""

import sys
import zlib
from types import ModuleType

import pytest

from wakelog.protocol import compression
from wakelog.protocol.compression import inflate
from wakelog.protocol.errors import RemoteProtocolError

COMPRESSED = 0x1


def test_a_body_is_returned_as_its_producer_gave_it() -> None:
    packed = zlib.compress(b"body")
    assert inflate(b"body", 0) == b"body"
    assert inflate(packed, COMPRESSED) == b"body"
    assert inflate(memoryview(packed), COMPRESSED | 0x300) == b"body"


def test_a_body_that_grows_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = zlib.compress(bytes(1_001))
    monkeypatch.setattr(compression, "INFLATED_BYTES_MAX", 1_000)
    with pytest.raises(RemoteProtocolError, match="over 1000 bytes"):
        inflate(packed, COMPRESSED)


@pytest.mark.parametrize("body", [b"", b"no zlib", zlib.compress(b"body")[:-1]])
def test_a_damaged_body_is_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="cannot be read"):
        inflate(body, COMPRESSED)


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="method 7 is unknown"):
        inflate(b"", COMPRESSED | 0x700)


@pytest.mark.parametrize(("method", "package"), [(0x100, "lz4"), (0x200, "zstandard")])
def test_a_package_that_is_absent_is_named(
    method: int, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    with pytest.raises(ModuleNotFoundError) as caught:
        inflate(b"", COMPRESSED | method)
    assert f"pip install {package}" in caught.value.__notes__[0]


def test_lz4_is_read_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    class Decompressor:
        eof = True

        def decompress(self, body: bytes, max_length: int) -> bytes:
            if body == b"bad":
                raise RuntimeError("LZ4F_decompress failed")
            self.eof = len(body) <= max_length
            return body[:max_length]

    lz4 = ModuleType("lz4.frame")
    lz4.LZ4FrameDecompressor = Decompressor  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lz4", ModuleType("lz4"))
    monkeypatch.setitem(sys.modules, "lz4.frame", lz4)
    monkeypatch.setattr(compression, "INFLATED_BYTES_MAX", 4)
    assert inflate(b"body", COMPRESSED | 0x100) == b"body"
    for body in (b"bad", b"long body"):
        with pytest.raises(RemoteProtocolError):
            inflate(body, COMPRESSED | 0x100)


def test_zstd_is_read_in_pieces_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream:
        """A frame ends with a full stop."""

        eof = False

        def decompress(self, piece: bytes) -> bytes:
            self.eof = bytes(piece[-1:]) == b"."
            return bytes(piece)

    class Decompressor:
        def decompressobj(self) -> Stream:
            return Stream()

    zstandard = ModuleType("zstandard")
    zstandard.ZstdDecompressor = Decompressor  # type: ignore[attr-defined]
    zstandard.ZstdError = RuntimeError  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "zstandard", zstandard)
    monkeypatch.setattr(compression, "INFLATED_BYTES_MAX", 1_000)
    assert inflate(b"x" * 999 + b".", COMPRESSED | 0x200) == b"x" * 999 + b"."
    for body in (b"", b"cut off", b"x" * 1_000 + b"."):
        with pytest.raises(RemoteProtocolError, match="incomplete, or over"):
            inflate(body, COMPRESSED | 0x200)
