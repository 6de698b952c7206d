"""The files of a slave's tables are those of its master, as JSON; each of either kind.

Check 9: with access control, with delayed messages, and with light queues or without.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.actors.replicas import (
    ACCOUNTS,
    MASTER,
    NAMED,
    SLAVE,
    TOPIC,
    ask,
    commit,
    guarded,
    pulled,
    send,
    wait_until,
)
from tests.compat.real_rocketmq import RealNameServer
from tests.compat.test_slave_kills import Node, make_node
from wakelog.protocol import fastjson
from wakelog.protocol.codes import RequestCode, ResponseCode

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(300),
]

TRUSTING = ACCOUNTS.replace("Addresses: []", "Addresses: [127.0.0.*]")
"""For a real slave, which cannot sign."""

SETTINGS = {False: {}, True: {"enableLmq": "true", "enableMultiDispatch": "true"}}
OFFSETS = {False: "consumerOffset", True: "lmqConsumerOffset"}
LIGHT_QUEUE = "%LMQ%queue"
LIGHT_GROUP = "%LMQ%group"
LEVEL = 1


@pytest.mark.parametrize("light", [False, True], ids=["plain", "light"])
@pytest.mark.parametrize(
    ("kind", "slave_kind"), [("wakelog", "real"), ("real", "wakelog"), ("wakelog", "wakelog")]
)
def test_every_file_is_equal_as_json(
    tmp_path: Path, kind: str, slave_kind: str, light: bool
) -> None:
    with ExitStack() as stack:
        name_server = RealNameServer()
        stack.callback(name_server.kill)
        nodes = []
        for name, own_kind, role in (("master", kind, MASTER), ("slave", slave_kind, SLAVE)):
            accounts = guarded(tmp_path / name, TRUSTING if slave_kind == "real" else ACCOUNTS)
            settings = {**role, **SETTINGS[light], **accounts}
            if own_kind == "wakelog":
                settings["wakelog.accessKey"] = "replica-key"
            node = make_node(own_kind, tmp_path / name, name_server.address, settings)
            node.start()
            stack.callback(node.kill)
            nodes.append(node)
        master = nodes[0]
        wait_until(lambda: send(master.address, 1) == [ResponseCode.SUCCESS], "copied")
        fill(master.address, light=light)
        wait_until(lambda: is_filled(files(master, light=light)), "all is in the master's files")
        copied = not (light and slave_kind == "real")  # it reads no offsets of light queues

        def are_equal() -> bool:
            both = [files(node, light=light) for node in nodes]
            if not copied:
                for one in both:
                    one[OFFSETS[light]].pop("lmqOffsetTable", None)
            return both[0] == both[1]

        wait_until(are_equal, "the slave's files are the master's")


def fill(address: str, *, light: bool) -> None:
    """Let each table have something."""
    texts = f"a=group b={TOPIC} c=TBW102 d=4 e=0 f=0 g=1 h=0 j=0 k=false"
    fields = {**dict(text.split("=") for text in texts.split()), "i": f"DELAY\x01{LEVEL}\x02"}
    assert ask(address, RequestCode.SEND_MESSAGE_V2, fields, b"later").code == 0
    assert pulled(address)[0] == ResponseCode.SUCCESS  # its group is there after that
    assert commit(address, 1) == ResponseCode.SUCCESS
    if light:
        fields["i"] = f"INNER_MULTI_DISPATCH\x01{LIGHT_QUEUE}\x02"
        assert ask(address, RequestCode.SEND_MESSAGE_V2, fields, b"light").code == 0
        place = {"consumerGroup": LIGHT_GROUP, "topic": LIGHT_QUEUE, "queueId": "0"}
        offset = {**place, **NAMED, "commitOffset": "1"}
        assert ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, offset).code == 0


def files(node: Node, *, light: bool) -> dict[str, Any]:
    """Return what the files say that are there and whole."""
    found = {}
    for name in ("topics", "subscriptionGroup", "delayOffset", OFFSETS[light]):
        path = node.store / "config" / f"{name}.json"
        if path.exists() and (text := path.read_bytes()):
            found[name] = fastjson.loads(text)
    return {OFFSETS[light]: {}, **found}


def is_filled(found: dict[str, Any]) -> bool:
    """Tell whether a master has written all that `fill` did."""
    tables = [
        found.get("topics", {}).get("topicConfigTable", {}).get(TOPIC),
        found.get("subscriptionGroup", {}).get("subscriptionGroupTable", {}).get("group"),
        found.get("delayOffset", {}).get("offsetTable"),
    ]
    for name in OFFSETS.values():
        if name in found:
            tables.append(found[name].get("offsetTable"))
    if "lmqConsumerOffset" in found:
        tables.append(found["lmqConsumerOffset"].get("lmqOffsetTable"))
    return all(tables)
