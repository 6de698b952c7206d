"""Changes by requests to running brokers and name servers, and the starts after them."""

import asyncio
import errno
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from tests.actors.client import Client, records
from tests.broker.other_values import other_value
from wakelog.actors.deploy.kept_changes import with_kept_changes
from wakelog.actors.deploy.plan import Plan, UpOptions
from wakelog.actors.deploy.planning import make_plan
from wakelog.actors.errors import NotPossible
from wakelog.client.admin import Admin, open_admin
from wakelog.client.errors import ClientError
from wakelog.client.options import ClientOptions
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import DamagedStore
from wakelog.storage.file_system import FileSystem
from wakelog.storage.settings_text import is_live, setting_text
from wakelog.testing import EmbeddedBroker

T = TypeVar("T")
FILE = "changedSettings.json"
BROKERS, NAME_SERVERS = RequestCode.UPDATE_BROKER_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG


def asked(broker: EmbeddedBroker, question: Callable[[Admin], Awaitable[T]]) -> T:
    async def ask() -> T:
        async with open_admin(ClientOptions((broker.name_server,))) as admin:
            return await question(admin)

    return asyncio.run(ask())


def change(broker: EmbeddedBroker, text: str, code: RequestCode = BROKERS) -> str:
    """Change settings and return the remark. Raises: ClientError."""
    to = broker.address if code is BROKERS else broker.name_server
    return asked(broker, lambda admin: admin.ask(to, code, body=text.encode())).remark or ""


def shown(broker: EmbeddedBroker, code: RequestCode = BROKERS) -> dict[str, str]:
    if code is BROKERS:
        return asked(broker, lambda admin: admin.settings(broker.address))
    get = RequestCode.GET_NAMESRV_CONFIG
    return asked(broker, lambda admin: admin.settings(broker.name_server, get))


def test_changes_are_shown_and_kept_and_a_restart_uses_those_that_wait(tmp_path: Path) -> None:
    with EmbeddedBroker(store=tmp_path) as broker:
        remark = change(broker, "maxMsgsNumBatch=7\nflushDiskType=SYNC_FLUSH")
        assert remark == "kept, and used after a restart: flushDiskType"
        change(broker, "orderMessageEnable=true\nserverWorkerThreads=9", NAME_SERVERS)
        for _ in range(2):
            with pytest.warns(UserWarning, match=r"keeps what was changed while it ran"):
                broker.restart()
            values = shown(broker)
            assert (values["maxMsgsNumBatch"], values["flushDiskType"]) == ("7", "SYNC_FLUSH")
            values = shown(broker, NAME_SERVERS)
            assert values["orderMessageEnable"] == "true"
            assert values["serverWorkerThreads"] == "9"
        plan = broker._deployment._plan  # type: ignore[union-attr]
        assert plan.brokers[0].settings.store.synchronous_flush


@pytest.mark.parametrize("code", [BROKERS, NAME_SERVERS])
def test_a_full_disk_refuses_a_change_and_nothing_is_changed(
    tmp_path: Path, code: RequestCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(_fs: FileSystem, path: str, _data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    key = "orderMessageEnable" if code is NAME_SERVERS else "longPollingEnable"
    with EmbeddedBroker(store=tmp_path) as broker:
        before = shown(broker, code)
        other = "false" if before[key] == "true" else "true"
        with monkeypatch.context() as patched:
            patched.setattr("wakelog.storage.durability.config_files.write_synced", write)
            with pytest.raises(ClientError, match=r"nothing was changed.*No space left"):
                change(broker, f"{key}={other}", code)
        assert shown(broker, code) == before
        broker.restart()
        assert shown(broker, code) == before


async def until(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    while not (found if isinstance(found := holds(), bool) else await found):
        await asyncio.sleep(0.001)


def test_every_service_goes_by_every_key_that_changes_at_once() -> None:
    fields = [field for field in msgspec.structs.fields(StoreConfig) if is_live(field.type)]
    with EmbeddedBroker() as broker:
        now = shown(broker)
        wanted = {
            field.encode_name: other_value(field.encode_name, now[field.encode_name])
            for field in fields
        }
        assert change(broker, "".join(f"{key}={one}\n" for key, one in wanted.items())) == ""
        [local] = broker._deployment.brokers  # type: ignore[union-attr]
        used = local.plan.settings.store
        for field in fields:
            assert setting_text(getattr(used, field.name)) == wanted[field.encode_name]
        services = local._services.values()
        asyncio.run(until(lambda: all(one.attached.store == used for one in services)))


def test_what_is_missed_most_is_used_by_the_next_request() -> None:
    with EmbeddedBroker(
        settings={"maxMessageSize": "200", "messageIndexEnable": "false"}
    ) as broker:
        asyncio.run(_use_limits(broker))


async def _use_limits(broker: EmbeddedBroker) -> None:
    client = Client(broker.address)

    async def changed(text: str) -> None:
        answer = await client.call(RequestCode.UPDATE_BROKER_CONFIG, {}, text.encode())
        assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)

    async def pulled() -> int:
        return len(records(await client.pull("T", 0)))

    async def found() -> bool:
        async with open_admin(ClientOptions((broker.name_server,))) as admin:
            return bool(await admin.query_messages("T", "k", 1))

    try:
        assert (await client.send("T", b"x" * 300)).code == ResponseCode.MESSAGE_ILLEGAL
        await changed("maxMessageSize=1000")
        for _ in range(9):
            sent = await client.send("T", b"x" * 300, properties="KEYS\x01k\x02")
            assert sent.code == ResponseCode.SUCCESS
        assert await pulled() == 9
        await changed("maxTransferCountOnMessageInMemory=5")
        assert await pulled() == 5
        await changed("maxTransferBytesOnMessageInMemory=1000")
        assert await pulled() == 2
        await changed("accessMessageInMemoryMaxRatio=0\nmaxTransferCountOnMessageInDisk=3")
        assert await pulled() == 3
        await changed("maxTransferBytesOnMessageInDisk=1000")
        assert await pulled() == 2
        assert not await found()
        await changed("messageIndexEnable=true")
        await until(found)
    finally:
        await client.close()


def plan(folder: Path, *settings: str) -> Plan:
    options = UpOptions(store=str(folder), settings=settings, is_local=True)
    return with_kept_changes(make_plan(options), FileSystem())


def keep(folder: Path, name: str, **values: tuple[str, str]) -> Path:
    """Write a file of changes: by key, the value and what it is instead of."""
    path = folder / name / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    changes = {key: {"value": one[0], "insteadOf": one[1]} for key, one in values.items()}
    path.write_text(json.dumps({"changes": changes}))
    return path


def test_an_option_that_says_something_else_than_before_ends_a_change(tmp_path: Path) -> None:
    keep(tmp_path, "config", fileReservedTime=("5", "72"))
    assert plan(tmp_path).brokers[0].settings.store.file_reserved_hours == 5
    assert plan(tmp_path, "fileReservedTime=72").brokers[0].settings.store.file_reserved_hours == 5
    other = plan(tmp_path, "fileReservedTime=9")
    assert other.brokers[0].settings.store.file_reserved_hours == 9
    assert any("ends the change of 72 to 5" in line for line in other.warnings)


def test_a_value_that_no_start_takes_names_the_file(tmp_path: Path) -> None:
    path = keep(tmp_path, "config", deleteWhen=("never", "04"), listenPort=("no", "10911"))
    with pytest.raises(NotPossible) as caught:
        plan(tmp_path)
    assert "as broker-a was changed while it ran" in caught.value.cause
    assert str(path) in caught.value.remedy


def test_a_file_that_cannot_be_read_is_not_taken_for_none(tmp_path: Path) -> None:
    keep(tmp_path, "config").write_text("{")
    with pytest.raises(DamagedStore, match=FILE):
        plan(tmp_path)


def test_brokers_follow_their_name_server_to_another_port(tmp_path: Path) -> None:
    keep(tmp_path, "wakelog.namesrv", listenPort=("9990", "9876"))
    found = plan(tmp_path)
    assert found.name_server_address == "127.0.0.1:9990"
    assert found.brokers[0].settings.broker.namesrv_addr == "127.0.0.1:9990"


def test_two_uses_of_one_port_are_refused(tmp_path: Path) -> None:
    keep(tmp_path, "config", listenPort=("9876", "10911"))
    with pytest.raises(NotPossible, match="port 9876"):
        plan(tmp_path)
