"""Background work: an error is reported, endless work begins again, no task begins otherwise."""

import ast
import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import wakelog
from tests.actors.bounded import on_loop
from wakelog.network import background
from wakelog.network.background import awaited, gathered, keep, log_failure, run_once, start_thread
from wakelog.telemetry.logs import Log, logger

PACKAGE = Path(wakelog.__file__).parent

BEGINNINGS = {"create_task", "ensure_future", "Thread"}
"""The calls that begin a task or a thread."""

PROGRAMS = {"cli", "spark", "testing"}
"""They end with their error, or their caller has it."""

BELOW = {PACKAGE / "telemetry" / "logs.py"}
"""It may not import `network`; the handler of its thread says each error itself."""


def beginnings(path: Path) -> Iterator[str]:
    """Yield the place of each call that begins a task or thread outside of a task group."""
    tree = ast.parse(path.read_text())
    groups = {
        item.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncWith)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name) and "TaskGroup" in ast.dump(item.context_expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            called = [base for base in node.bases if ast.unparse(base).split(".")[-1] == "Thread"]
        else:
            called = [node.func] if isinstance(node, ast.Call) else []
        for one in called:
            owner, _, name = ast.unparse(one).rpartition(".")
            if name in BEGINNINGS and owner not in groups:
                yield f"{path.relative_to(PACKAGE)}:{one.lineno}"


def test_every_task_and_thread_of_what_serves_begins_the_shared_way() -> None:
    own = PACKAGE / "network" / "background.py"
    assert len(list(beginnings(own))) == 5
    found = [
        place
        for path in sorted(PACKAGE.rglob("*.py"))
        if path not in {own, *BELOW} and path.relative_to(PACKAGE).parts[0] not in PROGRAMS
        for place in beginnings(path)
    ]
    assert not found, "begin these by wakelog.network.background"


@on_loop
async def test_endless_work_begins_again_after_an_error_and_ends_when_it_returns(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "AGAIN_SECONDS", 0.0)
    begun: list[int] = []

    async def work() -> None:
        begun.append(len(begun))
        if len(begun) < 3:
            raise KeyError(f"no place {len(begun)}")

    await keep(work, log_failure(logger(Log.BROKER), "guard"))
    assert begun == [0, 1, 2]
    assert caplog.text.count("background work failed") == 2
    assert "no place 1" in caplog.text and "Traceback" in caplog.text and "guard" in caplog.text


@on_loop
async def test_work_that_is_not_awaited_reports_to_its_owner_of_an_error() -> None:
    async def work() -> None:
        raise KeyError("gone")

    reported: list[Exception] = []
    with suppress(KeyError):
        await run_once(work(), reported.append)
    assert [repr(one) for one in reported] == ["KeyError('gone')"]


@on_loop
async def test_work_that_is_awaited_keeps_its_result_and_its_error() -> None:
    async def work(value: int) -> float:
        return 1 / value

    assert await awaited(work(2)) == 0.5
    with pytest.raises(ZeroDivisionError):
        await awaited(work(0))


def test_a_thread_reports_to_its_owner_of_an_error() -> None:
    reported: list[Exception] = []

    def work() -> None:
        raise KeyError("gone")

    start_thread(work, reported.append, name="work").join(10)
    assert [repr(one) for one in reported] == ["KeyError('gone')"]


@on_loop
async def test_so_many_are_asked_at_once_and_answers_are_in_order() -> None:
    asked: list[int] = []
    gate = asyncio.Event()

    async def ask(number: int) -> int:
        asked.append(number)
        await gate.wait()
        return -number

    answers = awaited(gathered(ask, range(5), at_once_max=2))
    for _ in range(3):
        await asyncio.sleep(0)
    assert asked == [0, 1]
    gate.set()
    assert await answers == [0, -1, -2, -3, -4]
