"""Equal bytes, one that differs wherever it stands, and files that end too soon."""

import itertools

import pytest

from tests.fakes.logs import write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.audit.same_bytes import same_bytes
from wakelog.audit.scratch_files import SPAN_PIECE_BYTES as PIECE_BYTES

LENGTH = 2 * PIECE_BYTES + 100
DATA = bytes(i % 251 for i in range(LENGTH))


def of(one: bytes, other: bytes, length: int = LENGTH) -> tuple[bool, bytes]:
    fs = MemoryFileSystem()
    write_file(fs, "/one", one)
    write_file(fs, "/other", other)
    seen = bytearray()
    result = same_bytes(fs, "/one", "/other", length, seen.extend)
    assert fs.descriptor_count == 0
    return result, bytes(seen)


def test_equal_bytes_are_all_passed_on() -> None:
    assert of(DATA, DATA) == (True, DATA)
    assert of(b"", b"", 0) == (True, b"")


def test_what_is_behind_the_length_does_not_count() -> None:
    assert of(DATA + b"a", DATA + b"bc") == (True, DATA)


@pytest.mark.parametrize("at", [0, PIECE_BYTES - 1, PIECE_BYTES, LENGTH - 1])
def test_one_byte_differs(at: int) -> None:
    other = DATA[:at] + b"\xff" + DATA[at + 1 :]
    result, seen = of(DATA, other)
    assert not result and seen == DATA[: at - at % PIECE_BYTES]


@pytest.mark.parametrize("cut", [1, 100, PIECE_BYTES])
def test_a_shorter_file_differs(cut: int) -> None:
    assert not of(DATA[:-cut], DATA)[0]
    assert not of(DATA, DATA[:-cut])[0]


@pytest.mark.parametrize("length", [PIECE_BYTES, 2 * PIECE_BYTES])
def test_zeros_are_not_what_is_missing_or_another_byte(length: int) -> None:
    one, zeros = DATA[:PIECE_BYTES], bytes(LENGTH - PIECE_BYTES)
    assert of(one, one + zeros, length)[0] == (length == PIECE_BYTES)
    assert of(one + zeros, one, length)[0] == (length == PIECE_BYTES)
    assert not of(DATA, one + zeros)[0]
    assert not of(one + zeros, DATA)[0]


def test_a_file_that_is_cut_meanwhile_differs() -> None:
    class Cut(MemoryFileSystem):
        def pread_into(self, fd: int, buffer: bytearray | memoryview, position: int) -> int:
            return 0

    fs = Cut()
    for path in ("/one", "/other"):
        write_file(fs, path, DATA)
    assert not same_bytes(fs, "/one", "/other", LENGTH)


def test_a_file_that_is_missing_leaves_nothing_open() -> None:
    fs = MemoryFileSystem()
    write_file(fs, "/one", DATA)
    with pytest.raises(FileNotFoundError):
        same_bytes(fs, "/one", "/gone", LENGTH)
    assert fs.descriptor_count == 0


@pytest.mark.parametrize("operation", ["next_data", "pread_into"])
def test_an_error_says_which_file_it_is_of(operation: str) -> None:
    named = []
    for nth in itertools.count(1):
        fs = MemoryFileSystem()
        write_file(fs, "/one", DATA)
        write_file(fs, "/other", DATA)
        fs.fail(operation, nth=nth)
        try:
            same_bytes(fs, "/one", "/other", LENGTH)
            break
        except OSError as error:
            named.append(error.filename)
    assert "/one" in named
    assert set(named) <= {"/one", "/other"}
