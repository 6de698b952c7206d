"""A broker's start and stop: what each part is asked, in which order, and what a failure leaves."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from tests.actors.asked_parts import Asked, Failed, Given
from tests.actors.bounded import on_loop, run
from tests.fakes.skipped_time import run_skipping
from wakelog.actors.broker import service
from wakelog.actors.broker.service import DECIDED_BY_THE_REGISTER, BrokerService, make_parser
from wakelog.actors.services.reput import ReputClient
from wakelog.broker.broker import POSITIONS
from wakelog.broker.trouble import Trouble, notice_text
from wakelog.storage.errors import NotWriteable, StoreFailed
from wakelog.storage.live_settings import TABLE

NOW_MS = 70_000
OLD = Trouble("old", "Check it.")


class Role(NamedTuple):
    """Which parts a broker has, and what its settings say."""

    is_member: bool = False
    appends: bool = True
    has_slaves: bool = False
    has_follower: bool = False
    has_filters: bool = False
    has_accounts: bool = False
    has_ended_settings: bool = False


ROLES = {
    "alone": Role(),
    "master of slaves": Role(has_slaves=True),
    "slave": Role(appends=False, has_slaves=True, has_follower=True),
    "master of a group": Role(is_member=True),
    "follower of a group": Role(is_member=True, appends=False, has_follower=True),
    "with filters": Role(has_filters=True),
    "with accounts": Role(has_accounts=True),
    "with settings that have ended": Role(has_ended_settings=True),
}
EVERY_PART = Role(True, True, True, True, True, True, True)


class Made:
    """A broker of parts that do nothing. asked: all that they are asked."""

    def __init__(self, patch: pytest.MonkeyPatch, directory: Path, role: Role) -> None:
        self.asked = asked = Asked({"load_tables": Given({"topics.json": OLD})})
        self.runtime = directory / "run"
        self.runtime.mkdir()
        self.store = asked.part(
            "store",
            config=SimpleNamespace(appends=role.appends),
            recovery="found",
            log=asked.part("log", queue_offsets=None, end_offset=100),
            max_physical_offset=100,
            dispatched=100,
        )
        self.progress = asked.part("progress", readable=100, flushed=100, failure=None)
        state = SimpleNamespace(
            live=asked.part("live", ended=["a"] if role.has_ended_settings else []),
            topics=asked.part("topics"),
        )
        parts: dict[str, Any] = {
            "resources": self._resources(role),
            "broker": asked.part("broker", state=state, next_tick_ms=lambda: NOW_MS),
            "services": asked.part("services", get=lambda kind: kind.__name__),
            "progress": self.progress,
            "requests": asked.part("requests", server=asked.part("server")),
            "slaves": asked.part("slaves") if role.has_slaves else None,
            "follower": asked.part("follower") if role.has_follower else None,
            "member": asked.part("member") if role.is_member else None,
        }
        others = ("tables", "name_servers", "own_messages")
        self.service = BrokerService(**parts, **{name: asked.part(name) for name in others})
        self.service._timer = asked.part("timer")
        self.service._client_rates = asked.part("rates")
        self._replace_functions(patch)

    def _resources(self, role: Role) -> SimpleNamespace:
        broker = SimpleNamespace(enable_property_filter=role.has_filters, listen_port=9)
        names = ("pool", "accounts", "certificates", "ports")
        return SimpleNamespace(
            store=self.store,
            store_id="id",
            context=SimpleNamespace(epoch=7),
            plan=SimpleNamespace(
                settings=SimpleNamespace(broker=broker, store="settings"),
                runtime_directory=str(self.runtime),
            ),
            access=self.asked.part("access") if role.has_accounts else None,
            **{name: self.asked.part(name) for name in names},
        )

    def _replace_functions(self, patch: pytest.MonkeyPatch) -> None:
        asked = self.asked
        for name in ("write_recovery", "load_tables", "make_missing_topics", "use_short_slices"):
            patch.setattr(service, name, asked.function(name))
        patch.setattr(self.service, "_tick", asked.function("tick"))
        patch.setattr(service, "wall_ms", lambda: NOW_MS)
        patch.setattr(service, "log_failure", lambda log, name: name)
        patch.setattr(service, "keep", self._keep)

    def _keep(self, work: Callable[[], object], name: str) -> Any:
        self.asked.call(f"keep {name}")
        if isinstance(work, partial):
            work()
        else:
            assert work == self.service._keep_guard
        return self.asked.part(name)


def start_of(role: Role) -> Iterator[tuple[Any, ...]]:
    """Yield all that a start asks, in order, with the arguments that are no parts."""
    steps: tuple[tuple[bool, tuple[Any, ...]], ...] = (
        (True, ("write_recovery", "found")),
        (role.is_member, ("live.refuse", DECIDED_BY_THE_REGISTER)),
        (True, ("load_tables",)),
        (role.has_ended_settings, ("tables.save_soon", TABLE)),
        (role.has_filters, ("pool.submit", make_parser)),
        (True, ("requests.publish_filters",)),
        (role.has_slaves, ("slaves.open",)),
        (True, ("services.start",)),
        (True, ("progress.begin",)),
        (True, ("services.wait_attached",)),
        (role.is_member, ("member.wait_serving",)),
        (True, ("progress.wait_dispatched",)),
        (True, ("services.wait_unless_refused", ReputClient)),
        (role.is_member and role.appends, ("make_missing_topics",)),
        (role.is_member and role.appends, ("topics.renew_version", NOW_MS)),
        (True, ("broker.tick", NOW_MS)),
        (True, ("name_servers.register", 2.0 if role.is_member else 10.0)),
        (True, ("use_short_slices",)),
        (True, ("server.listen",)),
        (True, ("certificates.watch",)),
        (not role.has_filters, ("pool.try_to", make_parser)),
        (role.has_follower, ("follower.start",)),
        (True, ("keep guard",)),
        (role.has_accounts, ("keep accounts",)),
        (role.has_accounts, ("accounts.watch",)),
        (True, ("tick",)),
    )
    return (step for is_asked, step in steps if is_asked)


def without_parts(calls: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Leave what calls were given but for values, and the functions that count."""

    def counts(given: Any) -> bool:
        return isinstance(given, (str, int, float, dict, set)) or given in (
            make_parser,
            ReputClient,
        )

    return [(name, *filter(counts, given)) for name, *given in calls]


@pytest.mark.parametrize("role", ROLES.values(), ids=ROLES)
@on_loop
async def test_a_start_asks_each_part_in_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, role: Role
) -> None:
    made = Made(monkeypatch, tmp_path, role)
    await made.service.serve()
    assert without_parts(made.asked.calls) == list(start_of(role))
    assert made.service._backup_notices == {"topics.json": OLD}


GIVEN_UP = [
    ("timer.cancel",),
    ("rates.stop",),
    ("certificates.close",),
    ("server.close",),
    ("slaves.close",),
    ("services.stop",),
    ("name_servers.close",),
    ("store.close", 1),
    ("ports.close",),
    ("tables.close",),
    ("pool.close",),
]


def test_a_start_that_fails_anywhere_closes_everything(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each call fails once. The store is left as after a crash, and nothing more is begun."""
    steps = list(start_of(EVERY_PART))
    before_kept = steps[: steps.index(("keep guard",))]
    for number, (name, *_) in enumerate(before_kept, 1):
        (directory := tmp_path / name).mkdir()

        async def main(name: str = name, directory: Path = directory) -> list[tuple[Any, ...]]:
            made = Made(monkeypatch, directory, EVERY_PART)
            made.asked.fails = name
            with pytest.raises(Failed, match=name):
                await made.service.serve()
            return without_parts(made.asked.calls)

        assert asyncio.run(main()) == before_kept[:number] + GIVEN_UP, name


def stop_of(role: Role, *, leaves_route: bool) -> Iterator[tuple[Any, ...]]:
    """Yield all that a stop asks of a broker that serves, in order."""
    steps: tuple[tuple[bool, tuple[Any, ...]], ...] = (
        (True, ("timer.cancel",)),
        (True, ("rates.stop",)),
        (True, ("guard.cancel",)),
        (role.has_accounts, ("accounts.cancel",)),
        (True, ("certificates.close",)),
        (True, ("server.stop_listening",)),
        (role.has_follower, ("follower.stop",)),
        (leaves_route, ("name_servers.unregister",)),
        (True, ("server.close",)),
        (True, ("progress.wait_dispatched",)),
        (role.has_slaves, ("slaves.close",)),
        (True, ("services.stop",)),
        (True, ("requests.remove_filters",)),
        (True, ("tables.save_all", {TABLE})),
        (True, ("name_servers.close",)),
        (True, ("pool.close",)),
        (True, ("store.close", 0)),
    )
    return (step for is_asked, step in steps if is_asked)


@pytest.mark.parametrize("leaves_route", [True, False])
@pytest.mark.parametrize("role", ROLES.values(), ids=ROLES)
@on_loop
async def test_a_stop_asks_each_part_in_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, role: Role, leaves_route: bool
) -> None:
    made = Made(monkeypatch, tmp_path, role)
    made.asked.gives["store.close"] = True
    await made.service.serve()
    made.asked.calls.clear()
    assert await made.service.stop(leaves_route=leaves_route)
    assert without_parts(made.asked.calls) == list(stop_of(role, leaves_route=leaves_route))
    assert not made.runtime.exists()
    made.service.register()
    assert await made.service.measure_by_name() == []
    assert made.asked.names[-1] == "store.close", "it has ended"


@pytest.mark.parametrize(("leaves_route", "seconds"), [(True, 30), (False, 2)])
def test_a_stop_waits_for_reput_so_long(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    leaves_route: bool,
    seconds: int,
) -> None:
    async def main() -> tuple[float, list[tuple[Any, ...]]]:
        made = Made(monkeypatch, tmp_path, Role())
        made.progress.wait_dispatched = asyncio.Event().wait
        made.store.dispatched = 60
        await made.service.stop(leaves_route=leaves_route)
        return asyncio.get_running_loop().time(), made.asked.calls

    waited, calls = run_skipping(main)
    assert waited == seconds
    assert calls[-1] == ("store.close", 40)
    assert "stopped before the queues reached the log's end" in caplog.text


@pytest.mark.parametrize("failure", [None, "no disk"])
@pytest.mark.parametrize("dispatched", [99, 100, 101])
@pytest.mark.parametrize("is_member", [False, True])
@pytest.mark.parametrize("is_clean", [False, True])
def test_a_store_is_in_order_if_it_is_clean_or_a_member_has_all_confirmed(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    is_clean: bool,
    is_member: bool,
    dispatched: int,
    failure: str | None,
) -> None:
    """A member dispatches what is confirmed; the next start checks the rest."""

    async def main() -> None:
        made = Made(monkeypatch, tmp_path, Role(is_member=is_member))
        made.asked.gives["store.close"] = is_clean
        made.progress.failure, made.store.dispatched = failure, dispatched
        has_all = is_member and dispatched >= 100 and failure is None
        assert await made.service.stop() == (is_clean or has_all)

    run(main)


@pytest.mark.parametrize(
    ("failure", "flushed", "syncs", "is_durable"),
    [
        (None, 99, True, True),
        (None, 100, False, True),
        ("no disk", 99, False, False),
        ("no disk", 100, False, False),
    ],
)
def test_positions_are_saved_at_the_stop_of_a_durable_log(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    failure: str | None,
    flushed: int,
    syncs: bool,
    is_durable: bool,
) -> None:
    """Else a table would count messages that a power cut takes."""

    async def main() -> list[tuple[Any, ...]]:
        made = Made(monkeypatch, tmp_path, Role())
        made.progress.failure, made.progress.flushed = failure, flushed
        await made.service.stop()
        return without_parts(made.asked.calls)

    calls = asyncio.run(main())
    assert (("store.make_durable",) in calls) == syncs
    unsaved = {TABLE} if is_durable else {TABLE, *POSITIONS}
    assert ("tables.save_all", unsaved) in calls


def test_a_last_sync_that_fails_fails_what_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def main() -> list[tuple[Any, ...]]:
        made = Made(monkeypatch, tmp_path, Role())
        made.progress.flushed = 99

        def refuse() -> None:
            raise NotWriteable("no disk")

        def fail_all(cause: str) -> None:
            made.progress.failure = cause

        made.store.make_durable, made.progress.fail_all = refuse, fail_all
        await made.service.stop()
        assert made.progress.failure and "no disk" in made.progress.failure
        return without_parts(made.asked.calls)

    assert ("tables.save_all", {TABLE, *POSITIONS}) in asyncio.run(main())


def test_the_guard_is_renewed_each_second_and_a_failure_logged_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes = ["a", "a", "b", "", "b", "b"]
    found: list[tuple[float, int]] = []

    async def main() -> None:
        made = Made(monkeypatch, tmp_path, Role())
        now = asyncio.get_running_loop().time

        async def submit(work: Callable[[], object]) -> None:
            work()
            found.append((now(), caplog.text.count("guard not renewed")))
            if not outcomes:
                raise Failed
            if cause := outcomes.pop(0):
                raise StoreFailed("lock", cause, OSError(5, "Input/output error"))

        made.service._pool.submit = submit  # type: ignore[method-assign,assignment]
        with pytest.raises(Failed):
            await made.service._keep_guard()
        assert made.asked.names == ["store.renew_guard"] * 7

    run_skipping(main)
    assert found == [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (6, 3), (7, 3)]


@pytest.mark.parametrize(("has_dispatched", "dispatch_from"), [(False, 40), (True, None)])
@on_loop
async def test_an_attach_brings_where_everything_is_and_where_dispatch_begins_once(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    has_dispatched: bool,
    dispatch_from: int | None,
) -> None:
    made = Made(monkeypatch, tmp_path, Role())
    made.store.recovery = SimpleNamespace(clean_exit=True, dispatch_from=40)
    made.store.max_physical_offset, made.store.dispatched = 90, 60
    vars(made.progress).update(appended=100, flushed=80, readable=70, has_dispatched=has_dispatched)
    made.service.broker.state.delayed = SimpleNamespace(offsets=lambda: {3: 7})  # type: ignore[assignment]
    request = made.service.attach_request()
    assert {name: getattr(request, name) for name in request.__struct_fields__} == {
        "epoch": 7,
        "store_id": "id",
        "appended": 100,
        "committed": 90,
        "flushed": 80,
        "readable": 70,
        "dispatched": 60,
        "delay_positions": {3: 7},
        "clean_exit": True,
        "dispatch_from": dispatch_from,
        "store": "settings",
    }


@pytest.mark.parametrize("is_full", [False, True])
@on_loop
async def test_what_retention_did_is_for_the_log_the_store_and_the_state_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_full: bool
) -> None:
    made = Made(monkeypatch, tmp_path, Role())
    made.store.log.files = made.asked.part("files")
    made.service._state_log = made.asked.part("state_log")
    made.service.on_retained(50, is_full)
    assert made.asked.calls == [
        ("files.forget_before", 50),
        ("store.set_disk_full", is_full),
        ("state_log.disk", is_full),
    ]


def test_a_drain_asks_five_times_a_second_and_says_each_reason_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Producers send until 1 s, and are quiet 3 s later; pulls from before are held until 5 s."""
    caplog.set_level("INFO")

    async def main() -> float:
        made = Made(monkeypatch, tmp_path, Role())
        loop, made_service = asyncio.get_running_loop(), made.service
        monkeypatch.setattr(service, "steady_ms", lambda: round(loop.time() * 1000))

        class Held(dict[int, object]):
            next_id = 5

            def has_before(self, hold_id: int) -> bool:
                assert hold_id == 5
                return loop.time() < 5

        class Core(SimpleNamespace):
            @property
            def sends_count(self) -> int:
                return min(5, int(loop.time() / 0.2))

        made_service.broker = Core(  # type: ignore[assignment]
            state=SimpleNamespace(held=Held()), begin_drain=made.asked.function("begin_drain")
        )
        made.asked.gives["name_servers.has_others"] = Given(True)
        await made_service.drain(60.0)
        assert made.asked.calls[1:] == [("begin_drain", NOW_MS), ("name_servers.register", 60.0)]
        return loop.time()

    assert run_skipping(main) == pytest.approx(5.0, abs=0.21)
    waits = ("producers to move", "held pulls to end", "broker drained")
    assert [caplog.text.count(words) for words in waits] == [1, 1, 1]


class Accounts(list[str]):
    """A table of accounts. white_addresses: those that need none."""

    white_addresses: tuple[str, ...] = ()


@pytest.mark.parametrize("is_member", [False, True])
@pytest.mark.parametrize(
    ("accounts", "addresses", "is_usable"),
    [
        (None, (), True),
        ([], (), False),
        ([], ("10.0.0.1",), True),
        (["a"], (), True),
        (["a"], ("10.0.0.1",), True),
    ],
)
@on_loop
async def test_a_user_hears_of_unusable_accounts_the_store_tables_and_the_group(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    accounts: list[str] | None,
    addresses: tuple[str, ...],
    is_usable: bool,
    is_member: bool,
) -> None:
    made = Made(monkeypatch, tmp_path, Role(is_member=is_member))
    access: Any = None
    if accounts is not None:
        table = Accounts(accounts)
        table.white_addresses = addresses
        access = SimpleNamespace(table=table, main_file="plain_acl.yml")
    made.service.broker.state.access = access
    monkeypatch.setattr(service, "recovery_notices", lambda report: [f"of {report}"])
    made.service._backup_notices = {"topics.json": OLD}
    if made.service.member is not None:
        vars(made.service.member)["notices"] = ["of the group"]
    first = "every request is refused until plain_acl.yml has an account"
    assert made.service.notices == [
        *([] if is_usable else [first]),
        "of found",
        notice_text("topics.json", OLD),
        *(["of the group"] if is_member else []),
    ]
