"""The house rules that a machine can check; `test_tidy.py` runs them over the tree.

Each check takes a file and yields complaints, `path:line: what is wrong`. The limits only ever
tighten: a file or function that is over one today stands in `EXCEEDING` with its size, and may
shrink but not grow.
"""

import ast
import functools
import gc
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, NamedTuple

from tests import prose, vocabulary

ROOT = Path(__file__).resolve().parent.parent

MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
EXCEEDING: dict[str, int] = {}  # "path" or "path:function" -> its lines, which may only go down

# A module without a test module of its own, and the reason.
UNTESTED: dict[str, str] = {
    "wakelog/actors/broker/hosted.py": "test_actor.py and test_replica.py run it",
    "wakelog/actors/broker/member.py": "protocols and types, which mypy checks",
    "wakelog/actors/broker/member_connections.py": "test_replica.py runs both ends",
    "wakelog/actors/broker/replica_fetcher.py": "test_replica.py runs it",
    "wakelog/actors/broker/member_server.py": "test_replica.py runs it",
    "wakelog/actors/broker/own_messages.py": "test_transactions.py and test_requests.py run it",
    "wakelog/actors/broker/run.py": "test_replica.py runs it",
    "wakelog/console/actions/brokers.py": "test_table.py has its commands",
    "wakelog/console/pages/audit.py": "test_forms.py reads its page",
    "wakelog/network/handler.py": "protocols and types, which mypy checks",
    "wakelog/compiled/fields.py": "test_plain_columns.py and test_rows.py read them",
    "wakelog/spark/records/functions.py": "test_plain_columns.py compares both choices",
    "wakelog/spark/trigger.py": "test_options.py has its limits",
    "wakelog/testing/plugin.py": "test_embedded_broker.py uses its fixtures",
}

# Modules that the docstring of their package does not name; may only go down.
UNNAMED_MODULES_COUNTS: dict[str, int] = {
    "wakelog/actors": 5,
    "wakelog/actors/deploy": 10,
    "wakelog/actors/ray": 3,
    "wakelog/actors/ray/fast_start": 7,
    "wakelog/actors/services": 12,
    "wakelog/audit": 3,
    "wakelog/cli": 20,
    "wakelog/cli/admin": 6,
    "wakelog/cli/cluster": 10,
    "wakelog/console": 18,
    "wakelog/console/actions": 11,
    "wakelog/console/pages": 16,
    "wakelog/console/views": 21,
    "wakelog/protocol/headers": 1,
    "wakelog/spark": 1,
    "wakelog/spark/records": 1,
    "wakelog/telemetry": 7,
    "wakelog/testing": 2,
}

PYTHON_FILE = re.compile(r"(?<![\w./])[\w/]+\.py\b")

SHARED_CLASS_NAMES_MAX = 61
"""How many names two public classes may have; may only go down."""

SUBJECT_CHARACTERS_MAX = 60
"""A subject is shorter than this."""

CONSTRUCTORS = {"__init__", "__post_init__", "__new__"}
STARTS = re.compile(r"_?(start|begin|open|serve|connect|run|make)(_|$)")

# Hosts that a tracked file may name. Package indexes are not among them: which one is used is the
# business of the machine, and a lock that names one is wrong on the next.
HOSTS = {"www.apache.org", "rocketmq.apache.org", "localhost", "127.0.0.1"}
HOSTS |= {"www.w3.org"}  # the name of SVG, which a picture has to give
WORKPLACE = re.compile(r"/work/(main|shared)|\.\./shared/|/tmp/(plan|tools)")
REMINDERS = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
URL = re.compile(r"https?://([A-Za-z0-9.-]+)")
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)]*)?\)")
PRINTING_FOLDERS = ("wakelog/cli/", "scripts/", "benchmarks/", "deploy/", "examples/", "tests/")


class Commit(NamedTuple):
    """A commit: its name, and when it was made."""

    name: str
    committed: str


SUBJECTS_AFTER = Commit("1fc1e861ffb1ed499d798905cc08188255ae5d83", "2026-11-29T16:46:16+00:00")
"""The last commit before the rule."""


class Source(NamedTuple):
    """One tracked text file: where it is, relative to the root, and what it says."""

    path: str
    text: str

    @property
    def tree(self) -> ast.Module:
        """What it is as Python."""
        return _parsed(self.text)

    def matches(self, pattern: re.Pattern[str]) -> Iterator[tuple[int, re.Match[str]]]:
        """Yield the line number and the match of everything the pattern finds."""
        for number, line in enumerate(self.text.splitlines(), 1):
            for match in pattern.finditer(line):
                yield number, match


@functools.cache
def _parsed(text: str) -> ast.Module:
    """Parse once for all rules; none changes it."""
    gc.disable()  # it would look through the trees of all files for garbage, time and again
    try:
        return ast.parse(text)
    finally:
        gc.enable()


def sources() -> list[Source]:
    """Return every text file that is tracked, or new and not ignored, without the fixtures."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = []
    for name in sorted(set(filter(None, listed.stdout.split("\0")))):
        path = ROOT / name
        if path.is_symlink() or not path.is_file() or name.startswith("tests/golden/"):
            continue
        try:
            found.append(Source(name, path.read_text(encoding="utf-8")))
        except UnicodeDecodeError:
            continue
    return found


def long_modules(source: Source) -> Iterator[str]:
    """A module fits a few pages."""
    lines = source.text.count("\n")
    if lines > EXCEEDING.get(source.path, MODULE_LINES_MAX):
        yield f"{source.path}:1: {lines} lines, over {MODULE_LINES_MAX}"


def long_functions(source: Source) -> Iterator[str]:
    """A function fits one page, its decorators and docstring included."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > EXCEEDING.get(f"{source.path}:{node.name}", FUNCTION_LINES_MAX):
                yield f"{source.path}:{node.lineno}: {node.name} has {lines} lines"


def missing_docstrings(source: Source) -> Iterator[str]:
    """A module opens with what lives there."""
    if source.text.strip() and ast.get_docstring(source.tree) is None:
        yield f"{source.path}:1: no module docstring"


def untested_modules(source: Source) -> Iterator[str]:
    """A module has a test module of its name, or one of its folder imports it, or a reason."""
    folder, _, name = source.path.removeprefix("wakelog/").rpartition("/")
    test = Path("tests", folder, f"test_{name.removeprefix('_')}")
    listed = source.path in UNTESTED or name == "__init__.py"
    if source.path.startswith("wakelog/") and not listed and not (ROOT / test).is_file():
        module = f"wakelog/{folder}/{name}".removesuffix(".py").replace("/", ".")
        if module not in _imported_by_tests(Path("tests", folder)):
            yield f"{source.path}:1: no {test}, and no reason in tests/tidy.py"


def unnamed_modules(source: Source) -> Iterator[str]:
    """The docstring of a package names each of its modules, so that a reader finds all of them."""
    folder, _, name = source.path.rpartition("/")
    if not folder.startswith("wakelog/") or name != "__init__.py":
        return
    named = set(re.findall(r"\w+", ast.get_docstring(source.tree) or ""))
    modules = {path.stem for path in (ROOT / folder).glob("*.py")} - {"__init__"}
    unnamed = sorted(modules - named)
    if len(unnamed) > UNNAMED_MODULES_COUNTS.get(folder, 0):
        yield f"{source.path}:1: does not name {', '.join(unnamed)}"


def absent_modules(source: Source) -> Iterator[str]:
    """A docstring names no Python file, and no module to read, that is not there."""
    if not source.path.startswith("wakelog/"):
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for name in PYTHON_FILE.findall(ast.get_docstring(node) or ""):
                if not name.startswith("ray/") and not _exists(name):
                    yield f"{source.path}:1: there is no {name}"
    folder = (ROOT / source.path).parent
    for name in _reading_order(ast.get_docstring(source.tree) or ""):
        if not (folder / name).is_dir() and not (folder / f"{name}.py").is_file():
            yield f"{source.path}:1: there is no {name} to read"


@functools.cache
def _exists(name: str) -> bool:
    """Whether a Python file of the repository has this path, or ends with it."""
    return any(ROOT.glob(name)) or any(ROOT.glob(f"[a-z]*/**/{name}"))


def _reading_order(text: str) -> list[str]:
    """Return the modules that a text has `in this order:`, as a sentence or as a table."""
    order = text.partition("in this order:")[2]
    if not order.startswith("\n\n"):
        return re.findall(r"`+([\w/]+?)/?(?:\.py)?`+", order.partition("\n\n")[0])
    rows = order.removeprefix("\n\n").partition("\n\n")[0].splitlines()
    margin = len(rows[0]) - len(rows[0].lstrip())
    columns = [re.split(r" {2,}", row[margin:])[0] for row in rows]
    return [re.sub(r"/$|\.py$", "", x) for one in columns for x in re.findall(r"[\w./]+", one)]


@functools.cache
def _imported_by_tests(folder: Path) -> set[str]:
    """Return the modules that the test modules of a folder import."""
    found: set[str] = set()
    for path in (ROOT / folder).glob("test_*.py"):
        for node in ast.walk(_parsed(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module)
                found.update(f"{node.module}.{each.name}" for each in node.names)
    return found


def late_attributes(source: Source) -> Iterator[str]:
    """An object of an actor's process is complete once it is made: no method adds an attribute."""
    if not source.path.startswith("wakelog/actors/"):
        return
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ClassDef):
            continue
        late = dict(_assigned(node))
        for name in late.keys() - _attributes(source, node):
            yield f"{source.path}:{late[name]}: {node.name}.{name} is not assigned by __init__"


def unstarted_attributes(source: Source) -> Iterator[str]:
    """No attribute of an actor's process is None only until a method starts the object."""
    if not source.path.startswith("wakelog/actors/"):
        return
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ClassDef):
            continue
        methods = [x for x in node.body if isinstance(x, ast.FunctionDef | ast.AsyncFunctionDef)]
        empty = {x for one in methods if one.name in CONSTRUCTORS for x in _assigned_none(one)}
        assigned = [
            (name, line, one.name)
            for one in methods
            if one.name not in CONSTRUCTORS
            for name, line in _assigned(one)
        ]
        places = Counter(name for name, _, _ in assigned)
        for name, line, method in assigned:
            if name in empty and places[name] == 1 and STARTS.match(method):
                yield f"{source.path}:{line}: {node.name}.{name} is None until {method}"


def _assigned_none(method: ast.AST) -> Iterator[str]:
    """Yield each attribute of `self` that a method assigns None."""
    for node in ast.walk(method):
        match node:
            case (
                ast.Assign(value=ast.Constant(value=None))
                | ast.AnnAssign(value=ast.Constant(value=None))
            ):
                yield from (name for name, _ in _assigned(node))


def _attributes(source: Source, node: ast.ClassDef) -> set[str]:
    """Return the attributes that an object of a class has once it is made."""
    found: set[str] = set()
    for part in node.body:
        if isinstance(part, ast.AnnAssign | ast.Assign):
            targets = [part.target] if isinstance(part, ast.AnnAssign) else part.targets
            found.update(x.id for one in targets for x in ast.walk(one) if isinstance(x, ast.Name))
        elif isinstance(part, ast.FunctionDef) and part.name in CONSTRUCTORS:
            found.update(name for name, _ in _assigned(part))
    for base in node.bases:
        found.update(_attributes_of(source, ast.unparse(base).partition("[")[0]))
    return found


def _attributes_of(source: Source, name: str) -> set[str]:
    """Return those of the class that a module calls by a name, if it is one of ours."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return _attributes(source, node)
        if isinstance(node, ast.ImportFrom) and any(one.name == name for one in node.names):
            path = f"{(node.module or '').replace('.', '/')}.py"
            if path.startswith("wakelog/"):
                return _attributes_of(Source(path, (ROOT / path).read_text()), name)
    return set()


def _assigned(method: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield each attribute of `self` that a method assigns, and the line."""
    for node in ast.walk(method):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name, node.lineno


def prints(source: Source) -> Iterator[str]:
    """Only what a person runs prints; everything else logs."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Name) or node.id != "print":
            continue
        if not source.path.startswith(PRINTING_FOLDERS):
            yield f"{source.path}:{node.lineno}: print outside the command line"


def bare_excepts(source: Source) -> Iterator[str]:
    """An except names what it expects."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield f"{source.path}:{node.lineno}: bare except"


def shared_randomness(source: Source) -> Iterator[str]:
    """The numbers of `random` itself are the user's: who seeds them gets the same ones each time.

    Several processes that are seeded alike would draw alike, too.
    """
    sound = {"Random", "SystemRandom"}
    if source.path.startswith("tests/"):
        sound |= {"seed", "getstate"}  # to see that nothing draws
    nodes = list(ast.walk(source.tree))
    imports = [alias.name for x in nodes if isinstance(x, ast.Import) for alias in x.names]
    drawn: list[tuple[int, str]] = []
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "random":
            drawn += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.Attribute) and _is_of_module(node, "random"):
            drawn += [(node.lineno, node.attr)] if "random" in imports else []
    for line, name in drawn:
        if name not in sound:
            yield f"{source.path}:{line}: random.{name} draws the user's numbers"


def reminders(source: Source) -> Iterator[str]:
    """What is left to do stands in an issue, not in the code."""
    for number, match in source.matches(REMINDERS):
        yield f"{source.path}:{number}: {match[0]}"


def mistaken_repeats(source: Source) -> Iterator[str]:
    """A possessive repeat of a group has a body that cannot fail once it has begun.

    Python 3.11.0 to 3.11.4 do not put the position back where it fails.
    """
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or not node.args or not _is_of_module(node.func, "re"):
            continue
        pattern = _text_of(node.args[0])
        if pattern is not None and not _repeats_soundly(vars(re)["_parser"].parse(pattern)):
            yield f"{source.path}:{node.lineno}: a possessive repeat that Python 3.11.2 mistakes"


def types_read_elsewhere(source: Source) -> Iterator[str]:
    """Only one module has msgspec read a type, since two threads may meet it first at once."""
    if not source.path.startswith("wakelog/") or source.path == "wakelog/typed_values.py":
        return
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        name = called.rpartition(".")[2]
        if (
            (name == "Decoder" and node.args)
            or called == "msgspec.convert"
            or (name == "decode" and any(keyword.arg == "type" for keyword in node.keywords))
        ):
            yield f"{source.path}:{node.lineno}: {called} with a type: see wakelog/typed_values.py"


_ONE_CHARACTER = {"LITERAL", "NOT_LITERAL", "IN", "ANY"}


def _is_of_module(function: ast.expr, module: str) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == module
    )


def _text_of(node: ast.expr) -> str | None:
    """Return a string as it is written; what is put into an f-string counts as one letter."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text_of(part) or "x" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _repeats_soundly(parsed: Any) -> bool:
    for operation, argument in parsed:
        name = str(operation)
        if name == "ATOMIC_GROUP":
            return False
        if name == "POSSESSIVE_REPEAT":
            (first, _), *others = argument[2]
            optional = (str(x) == "POSSESSIVE_REPEAT" and not value[0] for x, value in others)
            if str(first) not in _ONE_CHARACTER or not all(optional):
                return False
        inner = argument if isinstance(argument, tuple | list) else ()
        for part in inner:
            parts = part if isinstance(part, list) else [part]
            if not all(_repeats_soundly(x) for x in parts if hasattr(x, "getwidth")):
                return False
    return True


def foreign_words(source: Source) -> Iterator[str]:
    """No host but the listed ones, and nothing of the place where the code was written."""
    for number, match in source.matches(URL):
        if match[1] not in HOSTS:
            yield f"{source.path}:{number}: names the host {match[1]}"
    for number, match in source.matches(WORKPLACE):
        yield f"{source.path}:{number}: names a place outside the repository, {match[0]}"


def long_sentences(source: Source) -> Iterator[str]:
    """A sentence of a docstring or a document can be read in one breath."""
    for sentence in sentences_of(source):
        if sentence.word_count > prose.SENTENCE_WORDS_MAX:
            words = f"a sentence of {sentence.word_count} words"
            yield f"{source.path}:{sentence.line}: {words}: {sentence.text[:60]}"


def sentences_of(source: Source) -> list[prose.Sentence]:
    """Return the sentences of a module's docstrings, or of a document."""
    if source.path.endswith(".md"):
        return list(prose.document_sentences(source.text))
    return list(prose.docstring_sentences(source.tree))


def replaced_names(source: Source) -> Iterator[str]:
    """A name says what a network or storage engineer would search for."""
    for line, name in vocabulary.given_names(source.path, source.tree):
        for word in vocabulary.replaced_words(name):
            say = vocabulary.REPLACEMENTS[word]
            yield f"{source.path}:{line}: {name} has {word!r} in it; say {say}"
    for line, name in vocabulary.misnamed_roles(source.path, source.tree):
        yield f"{source.path}:{line}: {name} is named by a word that is not a role"
    for line, name in vocabulary.misnamed_events(source.path, source.tree):
        yield f"{source.path}:{line}: {name} notes something; say on_ and what happened"


def subjects(root: Path = ROOT) -> list[str] | None:
    """Return the subjects of the commits after `SUBJECTS_AFTER`; None without git.

    A shallow clone may lack that commit: then those that were committed later.
    """
    command = ["git", "-C", str(root), "log", "--no-merges", "--format=%s"]
    since = f"--since={SUBJECTS_AFTER.committed}"
    for chosen in (f"{SUBJECTS_AFTER.name}..HEAD", since):
        try:
            listed = subprocess.run([*command, chosen], capture_output=True, text=True, check=False)
        except OSError:
            return None
        if listed.returncode == 0:
            return listed.stdout.splitlines()
    return None


def shared_class_names(found: list[Source]) -> set[str]:
    """Return the names that two public classes of the package have."""
    python = [one for one in found if one.path.endswith(".py")]
    counts = Counter(x for one in python for x in vocabulary.public_classes(one.path, one.tree))
    return {name for name, count in counts.items() if count > 1}


ALLOWED_IMPORTS = {("wakelog", "wakelog.actors.ray.attach")}
"""Those against the layers: within `wakelog.attach`, when it is called."""


def import_cycle(found: list[Source]) -> list[str]:
    """Return modules that import each other in a circle, for types alone too; none if none do."""
    python = [one for one in found if one.path.startswith("wakelog/") and one.path.endswith(".py")]
    modules = {_module_of(one.path): one for one in python}
    imports: dict[str, set[str]] = {}
    for name, source in modules.items():
        wanted = {
            each if each in modules else each.rpartition(".")[0]
            for node in _statements(source.tree)
            for each in _imported(node)
        }
        imports[name] = {x for x in wanted - {name} if (name, x) not in ALLOWED_IMPORTS}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _module_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (each.name for each in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (f"{node.module}.{each.name}" for each in node.names)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements within a node, and those within them."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from _statements(child)


def broken_links(source: Source) -> Iterator[str]:
    """A link in a document leads to a file of the tree."""
    for number, match in source.matches(LINK):
        target = match[1]
        if "://" not in target and not (ROOT / source.path).parent.joinpath(target).exists():
            yield f"{source.path}:{number}: link to {target}, which is not there"


class Check(NamedTuple):
    """A rule and the files it is about."""

    complain: Callable[[Source], Iterator[str]]
    suffixes: tuple[str, ...]


CHECKS = [
    Check(long_modules, (".py",)),
    Check(long_functions, (".py",)),
    Check(missing_docstrings, (".py",)),
    Check(untested_modules, (".py",)),
    Check(unnamed_modules, (".py",)),
    Check(absent_modules, (".py",)),
    Check(late_attributes, (".py",)),
    Check(unstarted_attributes, (".py",)),
    Check(prints, (".py",)),
    Check(bare_excepts, (".py",)),
    Check(shared_randomness, (".py",)),
    Check(mistaken_repeats, (".py",)),
    Check(types_read_elsewhere, (".py",)),
    Check(reminders, ("",)),
    Check(foreign_words, ("",)),
    Check(broken_links, (".md",)),
    Check(long_sentences, (".py", ".md")),
    Check(replaced_names, (".py",)),
]
