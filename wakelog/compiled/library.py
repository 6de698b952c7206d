"""The library if it can be loaded, and which twin runs, in words.

`WAKELOG_COMPILED=no` chooses plain Python; the processes of a broker inherit it. What is loaded
stays for the life of the process.
"""

import os
import zlib
from array import array
from collections.abc import Callable, Collection
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol, cast

from wakelog.compiled.columns import BatchFunctions, Buffer, RowFunctions, ScanFunctions
from wakelog.compiled.source import LIBRARY, is_current

HOW: Final = "python -m wakelog.compiled.build"
SWITCH: Final = "WAKELOG_COMPILED"
COMPILED: Final = "compiled code"
PLAIN: Final = "plain Python"
OFF: Final = frozenset({"0", "no", "off", "false"})


class Library(ScanFunctions, RowFunctions, BatchFunctions, Protocol):
    """The functions; each raises ValueError for arguments that do not fit together."""

    def read_sends(
        self,
        chunk: Buffer,
        begin: int,
        messages_max: int,
        frame_bytes_max: int,
        batch_frame_bytes_max: int,
        header_bytes_max: int,
        /,
    ) -> tuple[int, int, int, int, bytes, tuple[tuple[str, int], ...]]:
        """Read successive plain sends of one code.

        Returns: where they end; their code; how many messages they have, with those of batches; how
            long their records are at most, but for the property CLUSTER; a row for each send
            (`compiled_run.SEND`); their distinct queues.
        """
        ...

    def read_signed(
        self, chunk: Buffer, sends: bytes, index: int, /
    ) -> tuple[bytes, bytes, bytes] | tuple[()]:
        """Return of a send the access key, the signature, and what that covers.

        () if it has no access key, or a value that is no text.
        """
        ...

    def encode_records(
        self,
        chunk: Buffer,
        sends: bytes,
        head: bytes,
        cluster: bytes,
        queues: "array[int]",
        out: bytearray,
        taken_count: int,
        physical_offset: int,
        timestamp_ms: int,
        room_end: int,
        record_bytes_max: int,
        obeys_wait: bool,
        /,
    ) -> tuple[int, int, bytes, int]:
        """Write the records of sends into `out`, up to one that needs more than that.

        Returns: how many sends, how many bytes, a row for each message whose send wants a response
        (`STORED`), and how many do.
        """
        ...

    def encode_responses(self, template: bytes, joint: bytes, stored: bytes, /) -> bytes:
        """Return responses as frames.

        template: the header with a NUL at each of its places. joint: what is between two ids.
        """
        ...

    def encode_list(
        self,
        messages: list[Any],
        unique_keys: list[str],
        sample: tuple[Any, ...],
        topic: str,
        find_around: Callable[[str], tuple[bytes, bytes]],
        begin: int,
        count_max: int,
        bytes_max: int,
        body_bytes_max: int,
        /,
    ) -> tuple[int, bytes]:
        """Write the body of a batch of a list's messages from one on, up to one that needs more.

        sample: a message of the same class; beside topic, body and tags all have its own objects.
        find_around: returns the encoded properties before and behind the key of one with such tags.
        count_max: at most 1,024. bytes_max: of the batch.

        Returns: how many messages it has, and the body. Raises: what `find_around` raises.
        """
        ...

    def decode_record(
        self, buffer: Buffer, position: int, host_text: Callable[[bytes], str], /
    ) -> tuple[Any, ...]:
        """Return the fields of `MessageRecord`, () if the record is damaged.

        host_text: returns the 4 or 16 bytes of an address as text.
        """
        ...

    def make_messages(
        self, body: Buffer, message_type: type[Any], origin: object, tags: Collection[str], /
    ) -> tuple[list[Any], int]:
        """Make a message of each record of a pull, up to one that is damaged.

        message_type: takes no arguments, and has `_begin`, `_origin`, `queue_offset` and
            `size_bytes`; `_begin` is a position in `body`.
        tags: the ones subscribed to, empty for all. Of other records no message is made.

        Returns: the messages, and where the last record ends.
        """
        ...

    def choose_stretch(
        self,
        entries: Buffer,
        count_max: int,
        bytes_max: int,
        begin: int,
        end: int,
        segment_bytes: int,
        gap_bytes_max: int,
        /,
    ) -> tuple[int, int, int, int, int, int]:
        """Choose the first records of queue entries, up to a count, to bytes or to a long gap.

        bytes_max: of the records; the first one may have more.
        begin, end: of the log, as far as it may be sent without a look at where it lies.

        Returns: how many one read brings, none if Python has to look; begin and end of the read;
            the bytes of the records; where the last of them begins, and that of the last entry.
        """
        ...

    def filter_entries(
        self,
        entries: Buffer,
        codes: "array[int]",
        count_max: int,
        bytes_max: int,
        begin: int,
        end: int,
        out: bytearray,
        /,
    ) -> tuple[int, int, int, int, int]:
        """Copy the entries with one of the tags codes to `out`, up to a count or to bytes.

        bytes_max, begin, end: as in `choose_stretch`. out: of the entries' size at least.

        Returns: how many; how many entries it has looked at, none if Python has to; the bytes of
            the records; where the last of them begins, -1 if none is sent, and that of the last
            entry seen.
        """
        ...

    def join_records(
        self,
        view: Buffer,
        begin: int,
        count: int,
        entries: Buffer,
        out: bytearray,
        at: int,
        size_bytes: int,
        /,
    ) -> int:
        """Copy the records of the first entries, which have so many bytes together, to out[at:].

        view: its first byte lies at `begin` of the log. Returns: 0 if one is not of the common
            kind, or not sound; else 1.
        """
        ...

    def make_room(self, size_bytes: int, /) -> bytearray:
        """Return a bytearray that is filled before anybody reads it: its bytes are any."""
        ...

    def crc32(self, data: Buffer, /) -> int:
        """Return what `zlib.crc32` returns."""
        ...


class Choice(NamedTuple):
    """Which twin runs.

    library: None if plain Python does.
    reason: why plain Python does.
    """

    library: Library | None
    reason: str = ""

    @property
    def is_compiled(self) -> bool:
        """Whether the compiled twin runs."""
        return self.library is not None

    @property
    def remedy(self) -> str:
        """How to get the compiled twin, "" if it runs."""
        if self.is_compiled:
            return ""
        if os.environ.get(SWITCH, "").lower() in OFF:
            return f"unset {SWITCH}, and start the broker again"
        return f"run `{HOW}` with cc or the package ziglang there, and start the broker again"

    def __str__(self) -> str:
        """Say in one line which twin runs, and how to get the other one."""
        if self.is_compiled:
            return f"{COMPILED} ({SWITCH}=no chooses {PLAIN})"
        return f"{PLAIN}, because {self.reason}; {self.remedy}"


def choose() -> Choice:
    """Load the library, unless it is switched off, absent or of other source."""
    if os.environ.get(SWITCH, "").lower() in OFF:
        return Choice(None, f"{SWITCH} says so")
    if not LIBRARY.exists():
        return Choice(None, "the compiled library is not built")
    if not is_current():
        return Choice(None, "the compiled library is of other source")
    try:
        found = import_module("wakelog.compiled.functions")
    except ImportError as error:
        return Choice(None, f"the compiled library does not load: {error}")
    library = cast(Library, found)
    # Both have to agree before either may write to a disk.
    if library.crc32(b"123456789") != zlib.crc32(b"123456789"):
        return Choice(None, "the compiled library computes another CRC")
    return Choice(library)


CHOICE: Final = choose()
"""Of this process."""

crc32: Final[Callable[[Buffer], int]] = CHOICE.library.crc32 if CHOICE.library else zlib.crc32
"""Runs without the interpreter's lock, but for short data."""
