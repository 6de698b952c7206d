"""The process that listens on a port: its id and command, read from /proc.

Linux only. Elsewhere, and for processes of other users or of other containers, there is no answer.
An actor's sockets belong to a process of its Ray. The process that started this Ray is named
instead, because that is the one to stop. The same holds for the console of `wakelog up`.

    /proc/net/tcp, tcp6   local address, state 0A for listening, inode (fields 1, 3, 9)
    /proc/<pid>/fd/<n>    link "socket:[inode]"
    /proc/<pid>/stat      the parent's id, second after the name in parentheses
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

COMMAND_CHARACTERS_MAX = 100
"""A Java command line has thousands; its beginning and end say what it is."""

_LISTEN = "0A"
_PART_OF_UP = re.compile(
    r"^ray::|/raylet |^wakelog head|wakelog\.actors\.ray\.head|wakelog\.cli\.console_process"
)
_UP = re.compile(r"(?:^|/|-m )(wakelog (?:up|nameserver)\b.*)")
_INIT = 1


class Holder(msgspec.Struct, frozen=True):
    """A process and its command line, with blanks between the words."""

    process_id: int
    command: str

    def __str__(self) -> str:
        """Name it as a message does, its command shortened."""
        up = _UP.search(self.command)
        command = self.command if up is None else up[1]
        if len(command) > COMMAND_CHARACTERS_MAX:
            half = COMMAND_CHARACTERS_MAX // 2
            command = f"{command[:half]}...{command[-half:]}"
        return f"process {self.process_id} ({command or 'its command cannot be read'})"

    @property
    def how_to_stop(self) -> str:
        """What to do to stop it, a clause."""
        if _UP.search(self.command) is None:
            return "Stop it"
        return f"Stop it with Ctrl-C in its terminal or with `kill {self.process_id}`"


def find_port_holder(port: int, proc: Path = Path("/proc")) -> Holder | None:
    """Return the process that listens on a TCP port, None if it cannot be seen."""
    inodes = set(_listening_inodes(port, proc))
    if not inodes:
        return None
    sockets = {f"socket:[{inode}]" for inode in inodes}
    for process_id in _process_ids(proc):
        if sockets & set(_open_links(proc / str(process_id) / "fd")):
            return holder_of(process_id, proc)
    return None


def holder_of(process_id: int, proc: Path = Path("/proc")) -> Holder:
    """Return a process with its command. For a part of a Ray or of `up`: what started it."""
    found = process = _read_process(process_id, proc)
    while _PART_OF_UP.search(process.command):
        parent_id = _parent_of(process.process_id, proc)
        if parent_id <= _INIT:
            return found  # `ray start` has started this Ray, and has ended
        process = _read_process(parent_id, proc)
    return process


def _read_process(process_id: int, proc: Path) -> Holder:
    try:
        words = (proc / str(process_id) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        words = []
    command = " ".join(word.decode(errors="replace") for word in words if word)
    command = "".join(letter if letter.isprintable() else "?" for letter in command)
    return Holder(process_id, command)


def _parent_of(process_id: int, proc: Path) -> int:
    try:
        text = (proc / str(process_id) / "stat").read_text()
        return int(text.rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _listening_inodes(port: int, proc: Path) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _process_ids(proc: Path) -> list[int]:
    try:
        return [int(name) for name in os.listdir(proc) if name.isdigit()]
    except OSError:
        return []


def _open_links(folder: Path) -> Iterator[str]:
    try:
        names = os.listdir(folder)
    except OSError:
        return  # another user's, or gone meanwhile
    for name in names:
        try:
            yield os.readlink(folder / name)
        except OSError:
            continue
