"""A table that was read from its `.bak`: screen, log, `status` and `doctor` say what is lost."""

import asyncio
from pathlib import Path

import pytest

from tests.actors.client import Client
from tests.actors.test_refused_services import Broken, lines_of
from tests.broker.harness import Harness
from wakelog.actors.broker.tables_at_start import missing_names
from wakelog.actors.table_files import SHOWN_MAX, backup_notice
from wakelog.cli.cluster.doctor import doctor
from wakelog.cli.cluster.status import status
from wakelog.client.admin import Admin
from wakelog.storage.durability.config_files import Backup

BACKUP = Backup("/s/config/topics.json: it is missing", 0)


def test_a_broken_table_is_named_with_what_its_backup_lacks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = tmp_path / "config" / "topics.json"
    before = Broken(tmp_path)
    old = ""

    async def send(admin: Admin) -> None:
        nonlocal old
        client = Client(before.plan.brokers[0].address)
        await client.send("kept", b"0")
        old = table.read_text()
        await client.send("lost", b"0")
        await client.close()

    assert asyncio.run(before.run(send)) == 0
    assert "kept" in old and "lost" not in old
    table.write_bytes(b"\xff\xff")
    Path(f"{table}.bak").write_text(old)
    after = Broken(tmp_path)

    async def check(admin: Admin) -> None:
        cause = f"{table}: it cannot be read: it is not UTF-8 from byte 0 on, so its .bak of "
        remedy = "Make them again (wakelog admin updateTopic), or stop and restore the file"
        [line] = [each for each in after.screen.lines if "topics.json" in each]
        assert line.startswith(f"wakelog: broker-a: topics.json: {cause}")
        assert line.endswith(f" is in use: what was changed since is lost, such as lost. {remedy}.")
        rows, failed = await lines_of(status(admin))
        assert not failed and any(x.startswith("warning") and cause in x for x in rows)
        found, failed = await lines_of(doctor(admin, None, None))
        [at] = [at for at, text in enumerate(found) if "topics.json" in text]
        assert not failed and found[at].startswith("warning") and cause in found[at]
        assert remedy in found[at + 1]

    assert asyncio.run(after.run(check)) == 0
    assert "table lacks changes" in caplog.text


def test_groups_that_have_offsets_and_many_names_are_shown() -> None:
    harness = Harness()
    harness.broker.state.offsets.commit("lost", "t", 0, 1)
    harness.broker.state.offsets.commit("CID_RMQ_SYS_TRANS", "t", 0, 1)
    assert missing_names("subscriptionGroup", harness.broker, []) == ["lost"]
    assert missing_names("consumerOffset", harness.broker, ["t"]) == []
    harness.send("known")
    queues = ["known", "t", "%LMQ%q", "no/topic", "%RETRY%g", "b"]
    assert missing_names("topics", harness.broker, queues) == ["%RETRY%g", "b", "t"]
    names = [f"t{number}" for number in range(SHOWN_MAX + 2)]
    notice = backup_notice("topics", BACKUP, names)
    assert notice.reason.endswith("t9 and 2 more")
    assert "such as" not in backup_notice("delayOffset", BACKUP, []).reason
