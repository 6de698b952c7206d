"""Work that goes on after an error, and says so."""

import pytest

from tests.actors.bounded import on_loop
from wakelog.actors.transport.kept_task import keep_on
from wakelog.telemetry.logs import Log, logger


@on_loop
async def test_work_begins_again_after_an_error_and_ends_when_it_returns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun: list[int] = []

    async def work() -> None:
        begun.append(len(begun))
        if len(begun) < 3:
            raise KeyError(f"no place {len(begun)}")

    await keep_on(work, logger(Log.BROKER), "guard", again_seconds=0.0)
    assert begun == [0, 1, 2]
    assert caplog.text.count("task begins again") == 2
    assert "no place 1" in caplog.text and "Traceback" in caplog.text and "guard" in caplog.text
