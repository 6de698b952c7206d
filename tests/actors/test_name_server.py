"""The NameServer's actor: starts once, says why it does not, and stops."""

from pathlib import Path

import msgspec
import pytest

from tests.actors.bounded import run
from tests.actors.client import Client
from wakelog.actors import name_server as module
from wakelog.actors.name_server import NameServerActor
from wakelog.nameserver.config import NameServerConfig
from wakelog.protocol.codes import RequestCode, ResponseCode

pytestmark = pytest.mark.process


def make_actor(directory: Path, port: int) -> NameServerActor:
    config = NameServerConfig(kv_config_path=str(directory / "kv.json"), listen_port=port)
    return NameServerActor(msgspec.to_builtins(config), "127.0.0.1", str(directory))


@pytest.fixture(autouse=True)
def no_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "configure_logs", lambda *_, **__: None)


def test_it_starts_once_answers_and_stops(tmp_path: Path) -> None:
    async def main() -> None:
        actor = make_actor(tmp_path, 0)
        assert actor.statistics() == {} and await actor.ping() > 0
        first = await actor.start()
        assert await actor.start() == first
        client = Client(f"127.0.0.1:{first['port']}")
        answer = await client.call(RequestCode.GET_BROKER_CLUSTER_INFO, {})
        assert answer.code == ResponseCode.SUCCESS
        await client.close()
        await actor.stop()
        await actor.stop()

    run(main)


def test_a_taken_port_is_a_value(tmp_path: Path) -> None:
    async def main() -> None:
        first = make_actor(tmp_path, 0)
        port = (await first.start())["port"]
        failure = (await make_actor(tmp_path, port).start())["failure"]
        assert f"port {port}" in failure["cause"]
        await first.stop()

    run(main)
