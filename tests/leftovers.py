"""What a test session must not leave behind: processes, listening sockets, files.

Other sessions may run on the same machine, so everything is attributed, not merely compared:
- processes carry a word in their environment that only this session's descendants inherit, which
  holds for daemons too, whoever their parent is by then;
- listening sockets are those of such processes (gone with them) and of the test process itself;
- temporary files go to a directory of the session's own (`TMPDIR`);
- a new file in `/dev/shm`, or one with our name in the system's temporary directory, is ours if a
  process of this session was seen to have it open. A process of its own looks for that all along.
  It is left over if no living process has it open.

Invariants: looking changes nothing; what is found is reported by name, never removed or killed.
"""

import getpass
import os
import re
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
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
CHECK_SECONDS = 0.5
CHECKED_ROUNDS = frozenset({0, 1, 3, 9, 27})
"""In which rounds a new file is checked; whose it is shows once that process has opened it."""
_LISTEN_STATE = "0A"  # of /proc/net/tcp


def session_processes(session: str) -> dict[int, str]:
    """Return the processes that inherited this session's word, by id, except this process."""
    return heirs(SESSION_VARIABLE, session)


def heirs(variable: str, value: str) -> dict[int, str]:
    """Return the command lines of the processes, but this one, that inherited a variable, by id."""
    found = {}
    for process_id in _process_ids():
        try:
            if process_id != os.getpid() and _inherits(process_id, value, variable):
                found[process_id] = _command_line(process_id)
        except OSError:
            continue  # gone meanwhile
    return found


def _inherits(process_id: int, value: str, variable: str = SESSION_VARIABLE) -> bool:
    try:
        environment = (_PROC / str(process_id) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False  # gone meanwhile, or not ours to read
    return f"{variable}={value}".encode() in environment


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
    return _covered(wanted, held)


def _covered(paths: set[str], held: Iterable[str]) -> set[str]:
    """Return those of the paths that are held, or under which something is."""
    seen = set(held)
    return {path for path in paths if any(x == path or x.startswith(path + "/") for x in seen)}


def make_session_directory() -> Path:
    """Make the temporary directory of this session; its name says whose it is."""
    return Path(tempfile.mkdtemp(prefix=f"{_SESSION_PREFIX}{os.getpid()}-"))


def held_among(paths: set[str], process_ids: Iterable[int]) -> set[str]:
    """Return those of the paths that one of these processes has open or mapped, or a file below."""
    return _covered(paths, open_paths(process_ids) if paths else ())


def watch(session: str, process_id: int) -> None:
    """Print each file in a shared place that a process of a session holds, until stdin ends.

    process_id: of the session itself.
    """
    rounds: Counter[str] = Counter()
    noted: set[str] = set()
    is_heir: dict[int, bool] = {}
    while True:
        is_over = bool(select.select([sys.stdin], [], [], CHECK_SECONDS)[0])
        new = shared_files() - noted
        due = {path for path in new if is_over or rounds[path] in CHECKED_ROUNDS}
        rounds.update(new)
        if due:
            # What a process has inherited does not change: each is read once.
            is_heir = {
                number: is_heir[number] if number in is_heir else _inherits(number, session)
                for number in _process_ids()
            }
            ours = [number for number, inherits in is_heir.items() if inherits]
            for path in held_among(due, [process_id, *ours]):
                print(path, flush=True)
                noted.add(path)
        if is_over:
            return


class Watcher:
    """The process that watches, which is none of the session's."""

    def __init__(self, session: str, directory: Path) -> None:
        environment = {k: v for k, v in os.environ.items() if k != SESSION_VARIABLE}
        self._notes = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, __file__, session, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=self._notes,
            env=environment,
            start_new_session=True,  # a Ctrl-C is for the session
        )

    def noted(self) -> set[str]:
        """Return the files that were seen to be this session's."""
        size_bytes = os.fstat(self._notes.fileno()).st_size
        return set(os.pread(self._notes.fileno(), size_bytes, 0).decode().split("\n")) - {""}

    def stop(self) -> None:
        """Have it look once more, and end."""
        try:
            self._process.communicate(timeout=GRACE_MS_MAX / 1000)
        except subprocess.TimeoutExpired:  # a fork of this process holds the other end
            self._process.kill()
            self._process.communicate()

    def close(self) -> None:
        """End it if it runs, and forget what it has noted."""
        if self._process.poll() is None:
            self.stop()
        self._notes.close()


class Leftovers:
    """The state before a session, against which the state after it is held."""

    def __init__(self, session: str, directory: Path) -> None:
        self._session = session
        self._directory = directory
        self._sockets = listening_sockets()
        self._files = shared_files()
        self._own_files: set[str] = set()

    def note_files(self, paths: Iterable[str]) -> None:
        """Note files in shared places that are this session's."""
        self._own_files.update(paths)

    def find(self) -> list[str]:
        """Say what is left right now, one line each."""
        processes = session_processes(self._session)
        found = [f"process {number}: {line}" for number, line in sorted(processes.items())]
        found += [f"listening socket: {x}" for x in sorted(listening_sockets() - self._sockets)]
        new = shared_files() - self._files
        self._own_files |= held_among(new, [os.getpid(), *processes])
        new &= self._own_files
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


if __name__ == "__main__":
    watch(sys.argv[1], int(sys.argv[2]))
