"""What a broker takes of its machine, and what a start leaves that could not have all of it."""

import asyncio
import socket
from pathlib import Path

import msgspec
import pytest

from tests.actors.bounded import run
from tests.actors.broker.test_service import local_plan
from tests.actors.deployments import small_plan
from tests.actors.plans import service_plan
from wakelog.actors.broker import account_files
from wakelog.actors.deploy.local import start_local_broker
from wakelog.actors.errors import DeploymentFailed
from wakelog.broker.access.failures import FAILURES_MAX
from wakelog.network.client import make_client
from wakelog.network.errors import PortUnavailable
from wakelog.network.signing import Credentials
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.errors import StoreLocked
from wakelog.storage.file_system import FileSystem

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_a_taken_port_leaves_the_store_untouched(short_path: Path) -> None:
    async def main() -> None:
        plan = local_plan(short_path)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", plan.settings.broker.listen_port))
            taken.listen()
            with pytest.raises(PortUnavailable):
                await start_local_broker(plan)
        assert not (short_path / "store").exists()

    run(main)


def test_a_locked_store_leaves_the_ports_free(short_path: Path) -> None:
    async def main() -> None:
        plan, fs = local_plan(short_path), FileSystem()
        # Through the broker's own file system: the kernel would give this process the lock again,
        # and only the table of locks taken through one file system knows better.
        lock = StoreLock(fs, plan.settings.store.paths.lock)
        with pytest.raises(StoreLocked):
            await start_local_broker(plan, fs)
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            free.bind(("127.0.0.1", plan.settings.broker.listen_port))
        lock.release()

    run(main)


ACCOUNTS = "accounts: [{accessKey: somebody, secretKey: hush-hush, defaultTopicPerm: PUB}]"


def test_accounts_are_checked_and_read_again(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account_files, "WATCH_SECONDS", 0.01)
    file = short_path / "conf" / "plain_acl.yml"
    file.parent.mkdir()
    port = small_plan(short_path).brokers[0].settings.broker.listen_port
    plan = service_plan(short_path, listenPort=port, aclEnable="true", rocketmqHome=str(short_path))

    async def main() -> None:
        file.write_text("accounts: [")
        with pytest.raises(DeploymentFailed, match="this is no YAML at line 1"):
            await start_local_broker(plan)
        assert not (short_path / "store").exists()

        file.write_text("accounts: []")
        with pytest.raises(DeploymentFailed, match="there is no account replica"):
            await start_local_broker(msgspec.structs.replace(plan, access_key="replica"))
        broker = await start_local_broker(plan)
        assert broker.service.notices == [f"every request is refused until {file} has an account"]
        client = make_client(Credentials("somebody", "hush-hush"), None)

        async def config() -> RemotingCommand:
            address = broker.plan.settings.broker.broker_addr
            return await client.invoke(address, RemotingCommand(26), timeout_ms=20_000)

        response = await config()
        assert (response.remark or "").endswith("AclException: No acl config for somebody")
        file.write_text(ACCOUNTS)
        while (await config()).code != ResponseCode.SUCCESS:
            await asyncio.sleep(0.01)
        assert broker.service.notices == []
        # Another client of this host that guesses gets the reason before it is cut off.
        guesser = make_client(Credentials("somebody", "guessed"), None)
        address = broker.plan.settings.broker.broker_addr
        remarks: list[str] = []
        while not remarks or not remarks[-1].endswith("this connection is closed"):
            answered = await guesser.invoke(address, RemotingCommand(26), timeout_ms=20_000)
            remarks.append(answered.remark or "")
        assert "Check signature failed" in remarks[-1] and len(remarks) <= FAILURES_MAX + 1
        while any(connection.is_open for connection in guesser._connections.values()):
            await asyncio.sleep(0)
        assert (await config()).code == ResponseCode.SUCCESS
        await guesser.close()
        await client.close()
        assert await broker.stop()

    run(main)
