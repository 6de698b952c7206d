"""Every key that 4.9.3 shows is changed while wakelog runs, and is there after a restart.

By mqadmin of 4.9.3 and by `wakelog admin`, on a deployment in Ray: by turns every day, and each of
them changes every key in the long run.
"""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import cycle
from pathlib import Path

import pytest

from tests.actors.client import Client
from tests.broker.other_values import ONE_VALUE, other_value
from tests.compat.admin_play import mqadmin, wakelog_admin
from tests.compat.clusters import Wakelog, real_cluster
from tests.compat.driver import JavaDriver
from wakelog.broker.config_file import FIXED_KEYS
from wakelog.nameserver import config as name_server
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.storage.settings_text import parse_properties

pytestmark = [pytest.mark.java, pytest.mark.slow]

MOVES = {
    *("brokerIP1", "brokerIP2", "listenPort", "namesrvAddr", "useTLS"),
    *("brokerId", "brokerRole", "haMasterAddress"),
}
"""Keys with which the next start would be elsewhere, or a slave; they are changed back."""

Tool = Callable[[list[str]], object]


def ask(address: str, code: RequestCode) -> dict[str, str]:
    async def answer() -> bytes:
        client = Client(address)
        try:
            found = await client.call(code, {})
        finally:
            await client.close()
        assert found.code == ResponseCode.SUCCESS
        return found.body

    return parse_properties(asyncio.run(answer()).decode())


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> tuple[set[str], set[str]]:
    """Return the keys that a real broker and a real name server show."""
    with real_cluster(tmp_path_factory.mktemp("real")) as cluster:
        return (
            set(ask(cluster.broker, RequestCode.GET_BROKER_CONFIG)),
            set(ask(cluster.name_server, RequestCode.GET_NAMESRV_CONFIG)),
        )


def change(keys: set[str], shown: dict[str, str], tool: Tool, words: list[str]) -> dict[str, str]:
    """Change each key, one after the other, and return the new values."""
    wanted = {}
    for key in sorted(keys):
        wanted[key] = other_value(key, shown.get(key, ""))
        tool([*words, "-k", key, "-v", wanted[key]])
    return wanted


def by_turns(*tools: Tool) -> Tool:
    """Return a tool that is each of them in turn."""
    turns = cycle(tools)
    return lambda words: next(turns)(words)


@pytest.mark.parametrize(
    "kind",
    ["by turns", *(pytest.param(one, marks=pytest.mark.long) for one in ("mqadmin", "wakelog"))],
)
def test_all_keys_are_set_read_back_and_kept(
    kind: str, theirs: tuple[set[str], set[str]], tmp_path: Path
) -> None:
    first = Wakelog(tmp_path)
    java = ExitStack()
    broker, names = first.cluster.broker, first.cluster.name_server
    get_broker = partial(ask, broker, RequestCode.GET_BROKER_CONFIG)
    get_names = partial(ask, names, RequestCode.GET_NAMESRV_CONFIG)
    update, update_names = ["updateBrokerConfig", "-b", broker], ["updateNamesrvConfig"]
    try:
        first.wait_ready()
        tool: Tool = partial(wakelog_admin, cluster=first.cluster)
        if kind != "wakelog":
            theirs_tool: Tool = partial(mqadmin, java.enter_context(JavaDriver(names)))
            tool = theirs_tool if kind == "mqadmin" else by_turns(theirs_tool, tool)
        before = get_broker()
        keys = theirs[0] - FIXED_KEYS.keys() - ONE_VALUE.keys() - {"brokerRole"}
        assert keys <= before.keys() and len(keys) > 150
        wanted = change(keys, before, tool, update)
        wanted |= change({"brokerRole"}, before, tool, update)  # after brokerId
        assert get_broker().items() >= wanted.items()
        for key in sorted(MOVES & wanted.keys(), reverse=True):
            tool([*update, "-k", key, "-v", before[key]])
            wanted[key] = before[key]
        names_before = get_names()
        names_keys = theirs[1] - name_server.FIXED_KEYS.keys()
        assert names_keys <= names_before.keys() and len(names_keys) == 17
        names_wanted = change(names_keys, names_before, tool, update_names)
        assert get_names().items() >= names_wanted.items()
        tool([*update_names, "-k", "listenPort", "-v", names_before["listenPort"]])
        names_wanted["listenPort"] = names_before["listenPort"]
    finally:
        java.close()
        first.stop()
    again = Wakelog(tmp_path, ports=first.ports)
    try:
        again.wait_ready()
        assert get_broker().items() >= wanted.items()
        assert get_names().items() >= names_wanted.items()
    finally:
        again.stop()
