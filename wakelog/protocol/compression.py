"""Compressed bodies: which method the flag of a message names, and how such a body is inflated.

4.9.3 knows zlib alone. Later clients write the method into three bits of the flag.

Invariants: a body of more than `INFLATED_BYTES_MAX` bytes is never returned, and little more than
that is ever made.

Source: org.apache.rocketmq.common.UtilAll#uncompress (4.9.3),
org.apache.rocketmq.common.compression.CompressionType (5.1).
"""

import zlib
from importlib import import_module
from typing import Any, Final

from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.sys_flag import MESSAGE_COMPRESSED

INFLATED_BYTES_MAX: Final = 64 << 20
"""Of one body: sixteen times what a client sends. More means an attack or damage."""

ZSTD_PIECE_BYTES: Final = 256
"""Inflated at a time: four bytes may stand for 128 KiB, and one call has no limit of its own."""

METHOD_MASK: Final = 0x700
_METHODS: Final = {0: "zlib", 0x100: "lz4", 0x200: "zstd", 0x300: "zlib"}


def inflate(body: bytes | memoryview, sys_flag: int) -> bytes:
    """Return a body as its producer gave it; one that is not compressed as it is.

    Raises: RemoteProtocolError if it cannot be read, ModuleNotFoundError if the package lz4 or
    zstandard is needed and absent.
    """
    if not sys_flag & MESSAGE_COMPRESSED:
        return bytes(body)
    method = _METHODS.get(sys_flag & METHOD_MASK)
    if method is None:
        raise _unreadable(f"method {(sys_flag & METHOD_MASK) >> 8} is unknown")
    if method == "zlib":
        return _inflate_zlib(body)
    return _inflate_lz4(body) if method == "lz4" else _inflate_zstd(body)


def _inflate_zlib(body: bytes | memoryview) -> bytes:
    stream = zlib.decompressobj()
    try:
        inflated = stream.decompress(body, INFLATED_BYTES_MAX)
    except zlib.error as error:
        raise _unreadable(str(error)) from error
    return _checked(inflated, is_complete=stream.eof)


def _inflate_lz4(body: bytes | memoryview) -> bytes:
    stream = _optional("lz4.frame", "lz4").LZ4FrameDecompressor()
    try:
        inflated: bytes = stream.decompress(body, max_length=INFLATED_BYTES_MAX)
    except (RuntimeError, EOFError) as error:
        raise _unreadable(str(error)) from error
    return _checked(inflated, is_complete=stream.eof)


def _inflate_zstd(body: bytes | memoryview) -> bytes:
    zstandard = _optional("zstandard", "zstandard")
    stream = zstandard.ZstdDecompressor().decompressobj()
    inflated = bytearray()
    try:
        for begin in range(0, len(body), ZSTD_PIECE_BYTES):
            inflated += stream.decompress(body[begin : begin + ZSTD_PIECE_BYTES])
            if stream.eof or len(inflated) > INFLATED_BYTES_MAX:
                break
    except zstandard.ZstdError as error:
        raise _unreadable(str(error)) from error
    is_complete = stream.eof and len(inflated) <= INFLATED_BYTES_MAX
    return _checked(bytes(inflated), is_complete=is_complete)


def _optional(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        error.add_note(f"A body is compressed with {package}: pip install {package}")
        raise


def _checked(inflated: bytes, *, is_complete: bool) -> bytes:
    if not is_complete:
        raise _unreadable(f"it is incomplete, or over {INFLATED_BYTES_MAX} bytes")
    return inflated


def _unreadable(reason: str) -> RemoteProtocolError:
    return RemoteProtocolError(
        ResponseCode.SYSTEM_ERROR, f"a compressed body cannot be read: {reason}"
    )
