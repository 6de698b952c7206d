"""A group that admits only certificates and accounts: a master is killed, and an operator asks."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.actors.elected_group import (
    QUICK_PROGRAM,
    Clients,
    ElectedGroup,
    check_group,
    elected_group,
    replace_master,
)
from tests.actors.guarded_group import APPLICATION, KNOWN, OPERATOR, guarded_settings, tls_file
from wakelog.network.signing import Credentials

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.either]

WRONG_SECRET = OPERATOR._replace(secret_key="another-secret")
UNKNOWN = OPERATOR._replace(access_key="unknown-key")


def test_a_killed_master_of_a_guarded_group_loses_nothing(tmp_path: Path) -> None:
    asyncio.run(kill(tmp_path))


async def kill(folder: Path) -> None:
    async with elected_group(
        folder,
        QUICK_PROGRAM,
        settings=guarded_settings(folder),
        tls=KNOWN,
        credentials=APPLICATION,
    ) as group:
        clients = Clients(group)
        await clients.start()
        await replace_master(group, clients)
        await check_group(group, await clients.stop())
        code, said = await asyncio.to_thread(status, group, OPERATOR)
        assert code == 0, said
        for keys, cause in (
            (WRONG_SECRET, "signature"),
            (UNKNOWN, UNKNOWN.access_key),
        ):
            code, said = await asyncio.to_thread(status, group, keys)
            assert code == 1 and cause in said, said
            assert "Check the access key and the secret key" in said, said
            assert "no answer" not in said, said


def status(group: ElectedGroup, keys: Credentials) -> tuple[int, str]:
    """Ask as an operator does; return the exit code and all that was said."""
    words = ("-m", "wakelog", "cluster", "status", "-n", group.name_server)
    options = {
        "--register": group.register,
        "--tls-config": str(tls_file(group.folder)),
        "--access-key": keys.access_key,
        "--secret-key": keys.secret_key,
    }
    given = [word for option in options.items() for word in option]
    done = subprocess.run([sys.executable, *words, *given], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr
