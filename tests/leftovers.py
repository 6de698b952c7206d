"""What a test session must not leave behind: processes, listening sockets, files.

Other sessions may run on the same machine, so everything is attributed, not merely compared:
- processes carry a word in their environment that only this session's descendants inherit, which
  holds for daemons too, whoever their parent is by then;
- listening sockets are those of such processes (gone with them) and of the test process itself;
- temporary files go to a directory of the session's own (`TMPDIR`);
- a new file in `/dev/shm`, or one with our name in the system's temporary directory, is ours if no
  living process has it open and no other session is running.

Invariants: looking changes nothing; what is found is reported by name, never removed or killed.
"""

import getpass
import os
import re
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

SESSION_VARIABLE = "WAKELOG_TEST_SESSION"
GRACE_MS_MAX = 10_000  # a process that was told to stop may take this long to be gone
_PROC = Path("/proc")
# Whatever is in shared memory and in nobody's hands is memory lost, whoever named it: Ray's object
# store and Python's own segments have names of their own. Anything may be in the other.
_SHARED_PLACES = {Path("/dev/shm"): re.compile(""), Path("/tmp"): re.compile("wakelog")}
_SESSION_PREFIX = "wl-"  # short: UNIX sockets below it have about a hundred characters in all
# pytest keeps the folders of its own fixtures until the session's directory is removed.
_EXPECTED_FOLDERS = (f"pytest-of-{getpass.getuser()}",)
_LISTEN_STATE = "0A"  # of /proc/net/tcp


def session_processes(session: str) -> dict[int, str]:
    """Return the processes that inherited this session's word, by id, except this process."""
    return heirs(SESSION_VARIABLE, session)


def heirs(variable: str, value: str) -> dict[int, str]:
    """Return the command lines of the processes, but this one, that inherited a variable, by id."""
    word = f"{variable}={value}".encode()
    found = {}
    for process_id in _process_ids():
        if process_id == os.getpid():
            continue
        try:
            inherited = (_PROC / str(process_id) / "environ").read_bytes().split(b"\0")
            if word in inherited:
                found[process_id] = _command_line(process_id)
        except OSError:
            continue  # gone meanwhile, or not ours to read
    return found


def listening_sockets() -> set[str]:
    """Return the TCP and UNIX sockets on which this very process listens."""
    inodes = {link.removeprefix("socket:[")[:-1] for link in _open_links(os.getpid())}
    found = set()
    for table in ("tcp", "tcp6"):
        for fields in _rows(_PROC / "net" / table):
            if fields[3] == _LISTEN_STATE and fields[9] in inodes:
                found.add(f"{table} port {int(fields[1].rpartition(':')[2], 16)}")
    for fields in _rows(_PROC / "net" / "unix"):
        accepts = int(fields[3], 16) & 0x10000  # __SO_ACCEPTCON
        if accepts and fields[6] in inodes:
            found.add(f"unix socket {fields[7] if len(fields) > 7 else '(unnamed)'}")
    return found


def open_paths(process_ids: Iterable[int]) -> set[str]:
    """Return the paths that processes have open or mapped now."""
    found: set[str] = set()
    for process_id in process_ids:
        try:
            found.update(_open_links(process_id), _mapped(process_id))
        except OSError:
            continue  # gone meanwhile
    return found


def shared_files() -> set[str]:
    """Return the files that may be ours in places that every process shares."""
    found: set[str] = set()
    for place, ours in _SHARED_PLACES.items():
        try:
            entries = [entry for entry in os.scandir(place) if ours.search(entry.name)]
            found.update(entry.path for entry in entries if _is_own(entry))
        except OSError:
            continue  # no such place on this system
    return found


def _is_own(entry: os.DirEntry[str]) -> bool:
    """Tell what this user has made: who holds the files of others cannot be seen."""
    try:
        return entry.stat(follow_symlinks=False).st_uid == os.getuid()
    except OSError:
        return False  # gone meanwhile


def in_use(paths: Iterable[str]) -> set[str]:
    """Return those of the paths that a living process has open, mapped or bound, or works below."""
    wanted = set(paths)
    held = {fields[7] for fields in _rows(_PROC / "net" / "unix") if len(fields) > 7}
    held |= open_paths(_process_ids() if wanted else ())
    return {path for path in wanted if any(x == path or x.startswith(path + "/") for x in held)}


def make_session_directory() -> Path:
    """Make the temporary directory of this session; its name says whose it is."""
    return Path(tempfile.mkdtemp(prefix=f"{_SESSION_PREFIX}{os.getpid()}-"))


def other_sessions(own: Path) -> list[Path]:
    """Return the directories of the sessions, other than our own, whose process lives."""
    return [
        path
        for path in own.parent.glob(f"{_SESSION_PREFIX}*")
        if path != own and (_PROC / path.name.split("-")[1]).exists()
    ]


class Leftovers:
    """The state before a session, against which the state after it is held."""

    def __init__(self, session: str, directory: Path) -> None:
        self._session = session
        self._directory = directory
        self._sockets = listening_sockets()
        self._files = shared_files()

    def find(self) -> list[str]:
        """Say what is left right now, one line each."""
        processes = session_processes(self._session)
        found = [f"process {number}: {line}" for number, line in sorted(processes.items())]
        found += [f"listening socket: {x}" for x in sorted(listening_sockets() - self._sockets)]
        new = set() if other_sessions(self._directory) else shared_files() - self._files
        found += [f"file: {path}" for path in sorted(new - in_use(new))]
        inside = [path for path in self._directory.iterdir() if path.name not in _EXPECTED_FOLDERS]
        return found + [f"temporary file: {path}" for path in sorted(inside)]

    def wait_none(self, grace_ms: int = GRACE_MS_MAX) -> list[str]:
        """Look until nothing is left or the grace is over; return what is left then."""
        end = time.monotonic() + grace_ms / 1000
        while (found := self.find()) and time.monotonic() < end:
            time.sleep(0.1)  # processes end when they do; there is nothing to wait on for them all
        return found


def _process_ids() -> list[int]:
    try:
        return [int(name) for name in os.listdir(_PROC) if name.isdigit()]
    except OSError:
        return []  # no /proc on this system: only the session's own directory is checked


def _command_line(process_id: int) -> str:
    words = (_PROC / str(process_id) / "cmdline").read_bytes().split(b"\0")
    return b" ".join(words).decode(errors="replace").strip()[:200] or "(no command line)"


def _open_links(process_id: int) -> list[str]:
    folder = _PROC / str(process_id) / "fd"
    links = []
    for name in os.listdir(folder) if folder.exists() else []:
        try:
            links.append(os.readlink(folder / name))
        except OSError:
            continue  # closed meanwhile
    return links


def _mapped(process_id: int) -> list[str]:
    lines = (_PROC / str(process_id) / "maps").read_text(errors="replace").splitlines()
    return [fields[5] for line in lines if len(fields := line.split(None, 5)) == 6]


def _rows(table: Path) -> Iterator[list[str]]:
    if table.exists():
        for line in table.read_text().splitlines()[1:]:
            yield line.split()
