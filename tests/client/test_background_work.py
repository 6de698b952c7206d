"""Background work of a client: an error is reported, and endless work goes on."""

import ast
import asyncio
import inspect
import logging
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import wakelog.client
from tests.client.clusters import NAME_SERVER, messages
from tests.client.group_cluster import RETRY, GroupCluster, two_queues
from tests.client.test_group_member import until
from wakelog.client.consumer import Consumer
from wakelog.client.errors import CHECK_LOG, ClientError
from wakelog.client.group_member import GroupMember
from wakelog.client.loop_thread import LoopThread
from wakelog.client.producer import Producer
from wakelog.network import background
from wakelog.protocol.codes import ResponseCode

PLANTED = "a planted error"


class Work(NamedTuple):
    """A method that runs in the background. owner: the class that has it."""

    owner: type
    name: str


def works() -> Iterator[Work]:
    """Yield what `keep` and `run_once` are called with in the code of the client."""
    folder = Path(wakelog.client.__file__).parent
    modules = {
        path.stem: import_module(f"wakelog.client.{path.stem}") for path in folder.glob("[a-z]*.py")
    }
    classes = [
        found
        for module in modules.values()
        for found in vars(module).values()
        if inspect.isclass(found) and found.__module__ == module.__name__
    ]
    for name, module in sorted(modules.items()):
        for node in ast.walk(ast.parse((folder / f"{name}.py").read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {"keep", "run_once"}:
                method = ast.unparse(node.args[0]).removeprefix("partial(").split("(")[0]
                attribute = method.split(",")[0].rpartition(".")[2]
                owners = [each for each in classes if attribute in vars(each)]
                owners.sort(key=lambda each: each.__module__ != module.__name__)
                yield Work(owners[0], attribute)


WORKS = sorted(set(works()), key=str)


@pytest.fixture
def planted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Have a method raise in endless work, and in every call while `PLANTING` says so."""
    owner, name = request.param
    method, raised = getattr(owner, name), list[str]()

    async def fail(*given: Any) -> Any:
        task = asyncio.current_task()
        assert task is not None
        if PLANTING[0] or getattr(task.get_coro(), "__name__", "") == "_keep_on":
            raised.append(name)
            raise KeyError(PLANTED)
        return await method(*given)

    monkeypatch.setattr(owner, name, fail)
    monkeypatch.setattr(background, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr("wakelog.client.trace.FLUSH_SECONDS", 0.0)
    monkeypatch.setattr("wakelog.client.group_member.COMMIT_SECONDS", 0.001)
    yield raised


PLANTING = [False]


async def live(cluster: GroupCluster, *, ordered: bool) -> None:
    """Do with a consumer and a producer what begins each kind of background work."""
    cluster.region = "DefaultRegion"
    cluster.routes["RMQ_SYS_TRACE_TOPIC"] = {"a": 1}
    given: dict[str, Any] = {"group": "g", "trace": True, "retries_max": 0, "connect": cluster.join}
    async with (
        Producer(NAME_SERVER, **given) as producer,
        Consumer(NAME_SERVER, topics="T", start="first", ordered=ordered, **given) as consumer,
    ):
        PLANTING[0] = True
        sends = asyncio.gather(*(producer.send("T", b"x") for _ in range(50)))
        with suppress(ClientError):
            await consumer.fetch(1)
        forgotten = ResponseCode.SUBSCRIPTION_NOT_EXIST
        for error in ClientError("", CHECK_LOG, code=forgotten), ClientError("", "", passes=True):
            await consumer._member._note("a test", error)
        for instance in cluster.instances:
            instance.reopened("a:10911")
        cluster.members.insert(0, "another")
        await consumer._member.balance()
        for _ in range(100):
            await asyncio.sleep(0)
        PLANTING[0] = False
        sends.cancel()
        with suppress(asyncio.CancelledError, KeyError):
            await sends


@pytest.mark.parametrize("planted", WORKS, ids=lambda work: work.name, indirect=True)
def test_an_error_of_background_work_is_reported(
    planted: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    for ordered in (True, False):
        with suppress(ClientError):  # a start raises it
            asyncio.run(asyncio.wait_for(live(two_queues(), ordered=ordered), 60))
        PLANTING[0] = False
    assert planted, "this work was not begun"
    reported = [one for one in caplog.records if one.exc_info and PLANTED in str(one.exc_info[1])]
    assert reported, "nobody heard of it"


def test_the_work_of_a_client_is_found() -> None:
    assert {"_balance_forever", "_run", "_keep", "_flush_often"} <= {work.name for work in WORKS}


def consumer_of(cluster: GroupCluster, **more: Any) -> Consumer:
    given = {"group": "g", "topics": "T", "start": "first", "retries_max": 0, **more}
    return Consumer(NAME_SERVER, connect=cluster.join, **given)


@pytest.mark.parametrize("step", ["balance", "commit", "renew_locks"])
def test_a_member_reports_an_error_to_its_user_and_goes_on(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had ended in silence, and read nothing for ever."""
    monkeypatch.setattr(background, "AGAIN_SECONDS", 0.0)
    for name in ("COMMIT_SECONDS", "LOCK_SECONDS", "AGAIN_SECONDS"):
        monkeypatch.setattr(f"wakelog.client.group_member.{name}", 0.001)
    cluster = GroupCluster({("a", "T", 0): messages(1), RETRY: []})

    async def body() -> None:
        calls, is_open = list[int](), asyncio.Event()
        real = getattr(GroupMember, step)

        async def fail_once(member: GroupMember) -> Any:
            if is_open.is_set():
                calls.append(1)
                if len(calls) == 1:
                    raise ValueError(PLANTED)
            return await real(member)

        monkeypatch.setattr(GroupMember, step, fail_once)
        async with consumer_of(cluster, ordered=True) as consumer:
            assert await consumer.fetch(1, 10.0)
            is_open.set()
            consumer._member.balance_soon()
            with pytest.raises(ClientError, match=f"{PLANTED}.*wakelog's own"):
                await consumer.fetch(1, 10.0)
            consumer._member.balance_soon()
            await until(lambda: len(calls) > 1)

    asyncio.run(body())


def test_a_function_of_the_user_that_fails_is_reported() -> None:
    def share(*_: object) -> Any:
        raise ValueError(PLANTED)

    async def body() -> None:
        async with consumer_of(two_queues(), allocation=share):
            pass

    with pytest.raises(ClientError, match=PLANTED):
        asyncio.run(body())


def test_senders_hear_of_an_error_of_the_batch_that_has_their_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body() -> list[object]:
        cluster = two_queues()
        given: dict[str, Any] = {"group": "g", "retries_max": 0, "connect": cluster.join}
        async with Producer(NAME_SERVER, **given) as producer:

            async def fail(*_: object) -> Any:
                raise KeyError(PLANTED)

            monkeypatch.setattr(producer._buffer, "_send_batch", fail)
            sends = (producer.send("T", b"x") for _ in range(50))
            return await asyncio.gather(*sends, return_exceptions=True)

    outcomes = asyncio.run(body())
    failed = [each for each in outcomes if isinstance(each, BaseException)]
    assert failed
    assert {repr(each) for each in failed} == {repr(KeyError(PLANTED))}


def test_the_thread_of_all_clients_survives_an_exit_in_one_of_them() -> None:
    """Its loop ends by `sys.exit()` in a task; every other client would wait for ever."""
    loop = LoopThread()
    loop.acquire()

    async def leave() -> None:
        sys.exit(3)

    async def work() -> int:
        return 5

    try:
        with pytest.raises(SystemExit):
            loop.run(leave())
        assert loop.run(work()) == 5
    finally:
        loop.release()


def test_a_failure_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    from wakelog.client.errors import log_unexpected

    with caplog.at_level(logging.ERROR):
        log_unexpected("work")(KeyError(PLANTED))
    assert PLANTED in caplog.text
    assert "work failed" in caplog.text
