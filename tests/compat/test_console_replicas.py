"""The console's page of a broker with replicas: an elected group, and a master of 4.9.3's."""

import asyncio
from pathlib import Path

import pytest

from tests.actors.elected_group import QUICK_PROGRAM, ElectedGroup, elected_group
from tests.actors.replicas import SLAVE, SMALL, log_end, send, wait_until
from tests.compat.real_rocketmq import RealBroker, RealNameServer
from tests.console.site import console_of

NAME = "broker-a"


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_planned_switch_is_shown_and_done(tmp_path: Path) -> None:
    asyncio.run(switch(tmp_path))


async def switch(folder: Path) -> None:
    async with elected_group(folder, QUICK_PROGRAM, count=2) as group:
        old = await group.serving()
        await asyncio.to_thread(switch_by_console, group, old, 3 - old)
        assert await group.serving() == 3 - old
        await group.until_in_sync(2)
        await asyncio.to_thread(check_page, group, 3 - old)


def check_page(group: ElectedGroup, master: int) -> None:
    """Check the page of the group, which names its master."""
    with console_of(group.name_server) as console:

        def page() -> str:
            console.read()
            return console.browser.get(f"/brokers/{NAME}").text

        said = f"Replica {master} is master in epoch "
        wait_until(lambda: said in page() and "In sync: 1, 2." in page(), said)
        text = page()
        assert f"{master} master" in text and f"{3 - master} follower" in text
        assert f"The register is {group.register}." in text
        wait_until(lambda: "has all yes" in page(), "the follower has all")
        maintenance = console.browser.get(f"/brokers/{NAME}?tab=maintenance").html
        assert "/do/switch-master?broker=broker-a&amp;register=file%3A" in maintenance


def switch_by_console(group: ElectedGroup, master: int, to: int) -> None:
    check_page(group, master)
    with console_of(group.name_server) as console:
        browser = console.browser
        path, fields = "/do/switch-master", {"broker": NAME, "register": group.register, "to": ""}
        shown = browser.get(f"{path}?broker={NAME}&register={group.register}").text
        assert f"replica {master} at {group.address(master)} is master in epoch " in shown
        assert f"replica {to} at {group.address(to)} has all of its log" in shown
        assert f"replica {to} is to be master" in shown
        assert f"replica {to} has every acknowledged message" in shown
        assert browser.submit(path, **fields).status == 422
        done = browser.submit(path, **fields, typed=NAME)
        assert done.status == 200, done.text
        assert f"replica {to} is master of {NAME} in epoch " in done.text
        [entry] = [x for x in console.console.audit.entries if x.result == "done"]
        assert entry.command.startswith(f"wakelog cluster failover {NAME} --register file:")


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_real_master_and_its_slave_say_what_they_know(tmp_path: Path) -> None:
    name_server = RealNameServer()
    brokers: list[RealBroker] = []
    try:
        for name, settings in (("master", {"brokerRole": "ASYNC_MASTER"}), ("slave", SLAVE)):
            broker = RealBroker(
                tmp_path / name,
                tmp_path / f"{name}-store",
                name_server=name_server.address,
                settings={**SMALL, **settings},
            )
            brokers.append(broker)
            broker.start()
        master, slave = brokers
        send(master.address, 3)
        wait_until(lambda: log_end(slave.address) == log_end(master.address), "copied")
        with console_of(name_server.address) as console:
            console.read()
            text = console.browser.get(f"/brokers/{NAME}").text
            assert "RocketMQ 4.9.3 has a master and slaves" in text
            assert "0 master" in text and "1 slave 0 B has all" in text
            assert "This broker does not tell what its services do" in text
            assert "Last start this broker does not tell" in text
            answer = console.browser.get(f"/brokers/{NAME}/1?tab=maintenance")
            assert answer.status == 200 and "Not here: no register decides" in answer.text
    finally:
        for broker in brokers:
            broker.kill()
        name_server.kill()
