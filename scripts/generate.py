"""`./dev docs`: write the documents that are drawn from tables in the code.

A test holds that each file is what this would write, so that a table and its document cannot part.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from scripts import alert_rules
from scripts import api_document as api
from scripts import client_matrix as matrix
from scripts import configuration_document as configuration
from scripts import metrics_document as metrics
from scripts import requests_document as requests
from scripts.boards import BOARDS
from scripts.boards.grafana import board_json
from scripts.rocketmq_threads import SECTIONS, AbsentThread, Thread
from wakelog.cli.admin.command import mqadmin
from wakelog.cli.command import Command, Option
from wakelog.cli.help_text import help_text, meaning_text
from wakelog.cli.root import program
from wakelog.telemetry.metrics import METRICS_BY_SUBJECT, NAME_SETS

ROOT = Path(__file__).resolve().parent.parent

NOTICE = "<!-- Drawn by `./dev docs` from {source}; change that instead. -->"

THREADS_INTRODUCTION = """\
Every thread and scheduled task of a 4.9.3 broker and name server, and where its work is done here.
What a pool of threads did takes turns on the Broker's loop; what a scheduled thread did is done by
an actor when it is due. Periods, and sizes of pools, are 4.9.3's.
The tests of a core prove that the work is done; the metric, which [metrics.md](metrics.md)
explains, shows it while a broker runs."""

ABSENT_INTRODUCTION = "What these do is not done here."

THREAD_HEADS = ("4.9.3", "does", "when, or how many", "actor", "core", "metric", "test")
ABSENT_HEADS = ("4.9.3", "does", "when, or how many", "absent, because")


def threads_document() -> str:
    """Draw docs/threads.md."""
    parts = ["# Threads", NOTICE.format(source="scripts/rocketmq_threads.py"), THREADS_INTRODUCTION]
    absent: list[AbsentThread] = []
    for title, rows in SECTIONS.items():
        done = [row for row in rows if isinstance(row, Thread)]
        absent += [row for row in rows if isinstance(row, AbsentThread)]
        parts += [f"## {title}", table(THREAD_HEADS, map(thread_cells, done))]
    parts += ["## Absent", ABSENT_INTRODUCTION, table(ABSENT_HEADS, absent)]
    return "\n\n".join(parts) + "\n"


def thread_cells(row: Thread) -> tuple[str, ...]:
    """Return the cells of one row; modules and tests are links."""
    core = f"[{row.core}](../{row.module_path})"
    test = f"[{Path(row.test_path).stem}](../{row.test_path})"
    return (row.name, row.work, row.period, row.actor, core, f"`{row.metric}`", test)


def metrics_document() -> str:
    """Draw docs/metrics.md."""
    parts = ["# Metrics", NOTICE.format(source="wakelog/telemetry/"), metrics.INTRODUCTION]
    for subject, specs in METRICS_BY_SUBJECT.items():
        parts += [f"## {subject}", table(metrics.HEADS, map(metrics.cells, specs))]
    parts += ["## Names of elsewhere", metrics.OTHER_NAMES]
    for name_set, source in metrics.NAMES.items():
        rows = map(metrics.other_cells, NAME_SETS[name_set])
        left_out = table(metrics.LEFT_OUT_HEADS, metrics.left_out_cells(name_set))
        parts += [f"## Names of {source}", metrics.INTRODUCTIONS[name_set]]
        parts += [table(metrics.OTHER_HEADS, rows), left_out]
    return "\n\n".join(parts) + "\n"


def contract_document() -> str:
    """Draw docs/metrics_contract.txt."""
    path = ROOT / metrics.CONTRACT
    return metrics.contract_document(path.read_text(encoding="utf-8") if path.is_file() else "")


def requests_document() -> str:
    """Draw docs/requests.md."""
    notice = NOTICE.format(source="wakelog/ and scripts/requests_document.py")
    rows = table(requests.HEADS, requests.request_rows())
    return "\n\n".join(["# Requests", notice, requests.INTRODUCTION, rows]) + "\n"


def configuration_document() -> str:
    """Draw docs/configuration.md."""
    source = "wakelog/{broker,storage,nameserver}/config.py"
    parts = ["# Configuration", NOTICE.format(source=source), configuration.INTRODUCTION]
    for title, place in configuration.SECTIONS.items():
        rows = configuration.configuration_rows(place)
        parts += [f"## {title}", table(configuration.HEADS, rows)]
    parts += ["## Deployment", table(configuration.HEADS, configuration.own_rows())]
    return "\n\n".join(parts) + "\n"


def api_document() -> str:
    """Draw docs/python_api.md."""
    notice = NOTICE.format(source="the docstrings in wakelog/")
    return "\n\n".join(["# Python reference", notice, api.INTRODUCTION, *api.lines()]) + "\n"


def matrix_document() -> str:
    """Draw docs/compatibility.md."""
    notice = NOTICE.format(source="scripts/client_matrix.py")
    parts = ["# The Python client beside Java's", notice, matrix.INTRODUCTION]
    for title, features in matrix.SECTIONS.items():
        parts += [f"## {title}", table(matrix.HEADS, matrix.cells(features))]
    parts += ["## By other tests", matrix.ALONE, table(matrix.HEADS, matrix.cells(matrix.UNIT))]
    return "\n\n".join(parts) + "\n"


ADMIN_INTRODUCTION = """\
`wakelog admin COMMAND -n HOST:PORT` does what mqadmin's command of that name does, without a JVM,
against any RocketMQ 4.x. Names and flags are mqadmin's. `--output json` gives one object a line.

These things differ from mqadmin, and nothing else in what commands print:

- An error is one line on standard error, with its cause and a remedy, and the exit code is 1, or 2
  for a mistake in the command line. mqadmin ends with 0, and prints Java's stack or nothing.
- Every line ends; mqadmin leaves out some line breaks. The blanks between columns may differ.
- Rows are sorted where mqadmin has the order of a hash table.
- Signatures come from `$ROCKETMQ_HOME/conf/tools.yml` as mqadmin's, and from what stands
  [below](#the-account-of-a-command).
- A time means the first message of then or later. mqadmin's may be any one of those of a
  millisecond, and for a time in the future it is the last message.
- A query by key leaves out other topics whose hash is the same; mqadmin shows their messages.
- What the last table says of single commands.

Every command also has these flags:"""

HELP_COLUMNS = 80

ACCOUNT = """\
## The account of a command

For all commands of `wakelog`. Who lists processes sees their arguments. So a secret key is better
in a file, in the environment, or typed. The first of these counts:

- `--access-key` and `--secret-key`;
- `--access-key` alone: the secret key is `WAKELOG_SECRET_KEY`, or else asked for at the terminal;
- `--account FILE` with the lines `accessKey: NAME` and `secretKey: KEY`;
- `WAKELOG_ACCESS_KEY` and `WAKELOG_SECRET_KEY`;
- `$ROCKETMQ_HOME/conf/tools.yml`, a file of that form.

## The commands"""

ADMIN_HEADS = ("command", "what", "flags")


def admin_document() -> str:
    """Draw docs/admin.md."""
    notice = NOTICE.format(source="wakelog/cli/admin/")
    commands = list(mqadmin.commands())
    common = "\n".join(f"- `{flag_text(x)}`: {meaning_text(x)}" for x in commands[0].common)
    rows = table(ADMIN_HEADS, map(command_cells, commands))
    parts = ["# Admin", notice, ADMIN_INTRODUCTION, common, ACCOUNT, "Flags in bold must be given."]
    parts.append(rows)
    different = [(f"`{x.name}`", x.differs) for x in commands if x.differs]
    parts += ["## What differs", table(("command", "how its output differs"), different)]
    return "\n\n".join(parts) + "\n"


def command_cells(command: Command) -> tuple[str, ...]:
    """Return the cells of one row."""
    texts = (f"**`{flag_text(x)}`**" if x.is_required else f"`{flag_text(x)}`" for x in command.own)
    choice = " or ".join(x.names[0] for x in command.own if x.name in command.one_of)
    needs = f" Needs {choice}." if choice else ""
    return (f"`{command.name}`", command.summary + needs, " ".join(texts) or "none")


def up_help() -> str:
    """Draw scripts/up_help.txt, which `./dev up --help` prints."""
    return help_text(program.find("up"), "./dev up", HELP_COLUMNS) + "\n"


def flag_text(flag: Option) -> str:
    """Return the names of a flag."""
    return " ".join(flag.names)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


DOCUMENTS: dict[str, Callable[[], str]] = {
    "docs/threads.md": threads_document,
    "docs/metrics.md": metrics_document,
    metrics.CONTRACT: contract_document,
    "docs/requests.md": requests_document,
    "docs/admin.md": admin_document,
    "docs/configuration.md": configuration_document,
    "docs/compatibility.md": matrix_document,
    "docs/python_api.md": api_document,
    **{f"dashboards/{board.name}.json": partial(board_json, board) for board in BOARDS},
    "dashboards/rules/wakelog.yml": alert_rules.rules_document,
    "dashboards/rules/tests/faults.yml": alert_rules.faults_document,
    "dashboards/rules/tests/normal.yml": alert_rules.normal_document,
    "scripts/up_help.txt": up_help,
}
"""What is drawn, by its path in the repository."""


def main(arguments: Sequence[str]) -> int:
    """Write every document that has changed, and say which."""
    if arguments:
        print("docs takes no arguments", file=sys.stderr)
        return 1
    for path, draw in DOCUMENTS.items():
        text = draw()
        target = ROOT / path
        if not target.is_file() or target.read_text(encoding="utf-8") != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
