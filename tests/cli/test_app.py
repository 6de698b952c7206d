"""What can be typed and what comes of it; the command runs as a process where signals matter."""

import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.commands import Command, running
from tests.cli.fakes import FakeDeployment
from tests.compat.processes import free_port
from wakelog.actors.deploy.plan import Plan
from wakelog.actors.errors import DeploymentFailed, NotPossible
from wakelog.cli import app
from wakelog.cli.stop_signals import StopAsked, StopSignals

ENTRY = [str(Path(__file__).with_name("entry.py"))]
READY = "ready after"
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SHELL = "import os, sys; os.execvp('sh', ['sh', '-c', sys.argv[1], sys.executable])"


def run(*arguments: str) -> int:
    return app.run(arguments, StopSignals(), lambda plan: FakeDeployment())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["upp"], "there is no command upp. Did you mean up? See wakelog --help."),
        (
            ["up", "--stroe", "x"],
            "there is no option --stroe. Did you mean --store? See wakelog ",
        ),
        (["up", "--zigzag"], "there is no option --zigzag. See wakelog up --help."),
        (["up", "extra"], "got unexpected extra argument"),
        (["up", "--store"], "option '--store' requires an argument. See wakelog up --help."),
        (
            ["log", "dump", "--limit"],
            "option '--limit' requires an argument. See wakelog log ",
        ),
        (["log", "verify", "x"], "got unexpected extra argument(s) (x). See wakelog log verify "),
        (["up", "--brokers", "two"], "--brokers needs a whole number. See wakelog up --help."),
        (["top", "--interval", "0"], "--interval needs a number of 0.5 or more. See wakelog top "),
        (["top", "--interval", "nan"], "--interval needs a number of 3600 or less. See wakelog "),
        (["bench", "t", "--messages", "9" * 5000], "--messages needs a number of fewer digits. "),
        (["up", "--transport", "doves"], "--transport: 'doves' is not one of 'notifications', "),
        (["topics", "-o", "yaml"], "--output: 'yaml' is not one of 'table', 'json'. See wakelog "),
        (["up", "--brokers", "0"], "--brokers 0 is not possible. Give 1 to 26."),
        (["up", "--set", "listenPort"], "--set listenPort has no value. Write --set key=value"),
        (["up", "--config", "/none.conf"], "--config /none.conf cannot be read: No such file"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    arguments: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    [line] = err.splitlines()
    assert line.startswith(f"wakelog: {message}")


def test_an_obstacle_is_one_line_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "store").write_text("")
    assert run("up", "--store", str(tmp_path / "store")) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line == f"wakelog: {tmp_path}/store is not a directory. Give another --store."


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "Commands:"),
        (["--help"], "Commands:"),
        (["up", "--help"], "--namesrv-port PORT"),
        (["log"], "verify       Prove a store sound, or list its damage."),
        (["spark"], "hotkeys      List the keys with the most messages."),
    ],
)
def test_help_is_printed(
    arguments: Sequence[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 0
    assert part in capsys.readouterr().out


def test_port_0_takes_free_ports(tmp_path: Path) -> None:
    seen: list[Plan] = []

    async def fail() -> None:
        raise DeploymentFailed("this is enough", "Go on.")

    def make(plan: Plan) -> FakeDeployment:
        seen.append(plan)
        return FakeDeployment(on_start=fail)

    words = ["up", "--local", "--store", str(tmp_path / "store"), "--broker-port", "0"]
    words += ["--namesrv-port", str(free_port()), "--metrics-port", "0", "--brokers", "2"]
    words += ["--console-port", "0"]
    assert app.run(words, StopSignals(), make) == 1
    [plan] = seen
    first, second = (broker.settings.broker.listen_port for broker in plan.brokers)
    assert first > 0
    assert second == first + 20


@pytest.mark.parametrize("words", [(), ("log",), ("spark",), ("dlq",), ("cluster",)])
def test_no_line_of_a_list_of_commands_is_cut(
    words: Sequence[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(*words, "--help") == 0
    _, _, commands = capsys.readouterr().out.partition("Commands:\n")
    assert commands and all(re.match("  [a-z-]+ +[A-Z].*[.]$", x) for x in commands.splitlines())


def test_a_short_word_asks_for_help_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("up", "-h") == 0
    assert "--broker-port" in capsys.readouterr().out


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out.startswith("wakelog ")


def test_an_error_of_a_command_is_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*asked: object) -> None:
        raise NotPossible("no", "Yes.")

    monkeypatch.setattr("wakelog.cli.cluster.codes.explain_code", refuse)
    assert run("explain", "17") == 2
    assert capsys.readouterr().err == "wakelog: no. Yes.\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_interrupts_a_command_without_a_loop(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def explain(*asked: object) -> None:
        signal.raise_signal(number)

    monkeypatch.setattr("wakelog.cli.cluster.codes.explain_code", explain)
    before = {each: signal.getsignal(each) for each in STOPS}
    try:
        signals = StopSignals()
        signals.install()
        assert app.run(["explain", "17"], signals) == 128 + number
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert capsys.readouterr().err == "wakelog: interrupted. Run the same command to start again.\n"


@pytest.mark.parametrize(
    ("errors", "code", "words"),
    [
        ([ValueError("late"), StopAsked(signal.SIGINT)], 130, "wakelog: interrupted. "),
        ([ValueError("odd")], 1, "wakelog: an error of wakelog's own, ValueError: odd"),
    ],
)
def test_a_signal_that_stops_one_task_of_several_is_reported_alike(
    errors: list[BaseException],
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def explain(*asked: object) -> None:
        raise BaseExceptionGroup("tasks", errors)

    monkeypatch.setattr("wakelog.cli.cluster.codes.explain_code", explain)
    assert run("explain", "17") == code
    assert capsys.readouterr().err.startswith(words)


def test_sparks_own_interrupt_is_reported_alike(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def explain(*asked: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("wakelog.cli.cluster.codes.explain_code", explain)
    assert run("explain", "17") == 130
    assert capsys.readouterr().err.startswith("wakelog: interrupted. ")


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "ended"),
    [
        (">/dev/full", "1 wakelog: No space left on device. Look where the output goes."),
        ("| true", "141"),
        (">&-", "0"),
    ],
)
def test_output_that_cannot_be_written(target: str, ended: str, tmp_path: Path) -> None:
    # The reader of the pipe has gone before the program writes.
    words = f'{{ sleep 0.2; "$0" -m wakelog --help; echo $? >&2; }} {target}'
    with running(["-c", SHELL, words]) as command:
        _, errors = command.wait_end()
    assert " ".join(reversed(errors.splitlines())) == ended


@pytest.mark.process
@pytest.mark.slow
def test_a_closed_standard_input_is_empty() -> None:
    with running(["-c", SHELL, '"$0" -m wakelog send orders <&-']) as command:
        code, errors = command.wait_end()
    assert code == 2
    assert errors == (
        "wakelog: there is nothing to send. Give a BODY, or lines on standard input.\n"
    )


def test_a_command_line_that_is_not_utf_8_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("topics", "caf\udce9") == 2
    cause, _, remedy = capsys.readouterr().err.partition(". ")
    assert cause.endswith("on the command line is not UTF-8")
    assert remedy.startswith("Give it in UTF-8")


@pytest.mark.process
@pytest.mark.slow
def test_a_character_that_cannot_be_shown_is_escaped() -> None:
    environment = {"PYTHONIOENCODING": "ascii"}
    with running(["-m", "wakelog"], "log", "dump", "--store", "/ñ", environment=environment) as it:
        code, errors = it.wait_end()
    assert (code, errors.split(".")[0]) == (2, "wakelog: /\\xf1 holds no commitlog")


@contextmanager
def up(directory: Path, behaviour: str, *, ignores_interrupt: bool = False) -> Iterator[Command]:
    """Run `wakelog up` with a deployment that behaves so, on ports that are free."""
    base = free_port(1, 2, 3)
    arguments = ["--store", f"{directory}/store", "--broker-port", str(base + 2)]
    arguments += ["--namesrv-port", str(base + 1), "--metrics-port", "0"]
    arguments += ["--console-port", "0"]
    arguments += ["--set", "mappedFileSizeCommitLog=1048576"]
    with running(
        ENTRY, behaviour, "up", *arguments, ignores_interrupt=ignores_interrupt
    ) as command:
        yield command


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "ignored"),
    [(signal.SIGINT, False), (signal.SIGINT, True), (signal.SIGTERM, False)],
)
def test_a_signal_stops_in_order_with_exit_code_0(
    tmp_path: Path, number: signal.Signals, ignored: bool
) -> None:
    with up(tmp_path, "stops", ignores_interrupt=ignored) as command:
        command.wait_line(READY)
        command.signal(number, group=True)
        assert command.wait_end() == (0, "")
        assert command.lines[-1] == "wakelog: stopped"


@pytest.mark.process
@pytest.mark.slow
def test_a_stop_that_does_not_end_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    with up(tmp_path, "never-stops") as command:
        command.wait_line(READY)
        command.signal(signal.SIGINT)
        code, errors = command.wait_end()
    assert code == 1
    [line] = errors.splitlines()
    assert line.startswith("wakelog: not stopped within 0 s, the last step was: stopping broker-a")
