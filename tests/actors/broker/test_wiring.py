"""The parts of a broker, connected: what a new service needs beside its core and its file."""

from pathlib import Path

import pytest

from tests.actors.bounded import on_loop
from tests.actors.broker.test_service import local_plan
from tests.actors.deployments import wait_until
from tests.actors.services.test_service import is_locked
from tests.actors.services.toy_service import ROW, ToyClient
from wakelog.actors.deploy.local import start_local_broker
from wakelog.actors.services.table import SERVICES

pytestmark = [pytest.mark.process, pytest.mark.slow]


@on_loop
async def test_a_service_is_added_by_its_file_and_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SERVICES, "toy", ROW)
    plan = local_plan(tmp_path)
    broker = await start_local_broker(plan)
    client = broker.service.services.get(ToyClient)
    await wait_until(lambda: client.total == 40, "the sum")
    assert client.begin == 0 and is_locked(plan)
    statistics = broker.statistics()
    assert statistics["service_clients"]["attached"]["toy"]
    assert statistics["services"]["toy"] == {"total": 40}
    assert await broker.stop()
    assert not is_locked(plan)
