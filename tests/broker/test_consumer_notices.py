"""When the members of a changed group are notified."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.broker.harness import NOW_MS, FakeChannel, Harness, subscription
from wakelog.broker.consumer_notices import (
    MEMBER_PERIOD_MS,
    PERIOD_MS_MAX,
    STEP_COUNT_MAX,
    STEP_MS,
    ConsumerNotices,
)
from wakelog.protocol.codes import RequestCode

NOTIFY = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


class Groups:
    """Notices about groups whose members are set here."""

    def __init__(self) -> None:
        self.members: dict[str, list[int]] = {}
        self.notices = ConsumerNotices(lambda group: self.members.get(group, []))

    def taken(self, now_ms: int) -> dict[str, list[int]]:
        """Return the connections that are notified now, by group."""
        by_group: dict[str, list[int]] = {}
        for group, channel_id in self.notices.take(now_ms):
            by_group.setdefault(group, []).append(channel_id)
        self.notices.validate()
        return by_group


@pytest.fixture
def groups() -> Iterator[Groups]:
    made = Groups()
    yield made
    made.notices.validate()


def test_the_first_change_is_notified_at_once(groups: Groups) -> None:
    groups.members["g"] = [1, 2]
    groups.notices.note("g", NOW_MS)
    assert groups.taken(NOW_MS) == {"g": [1, 2]}
    assert groups.notices.next_ms() is None


def test_changes_within_a_period_go_together_to_the_members_of_then(groups: Groups) -> None:
    members = list(range(1, 21))
    period_ms = len(members) * MEMBER_PERIOD_MS
    groups.members["g"] = members
    groups.notices.note("g", NOW_MS)
    assert groups.taken(NOW_MS) == {"g": members}
    for later_ms in (1, 2, period_ms - 2):
        groups.notices.note("g", NOW_MS + later_ms)
        assert groups.taken(NOW_MS + later_ms) == {}
    groups.members["g"] = [2, 3]
    assert groups.notices.next_ms() == NOW_MS + period_ms
    assert groups.taken(NOW_MS + period_ms - 1) == {}
    assert groups.taken(NOW_MS + period_ms) == {"g": [2, 3]}
    # That notice began a period as well, of two members.
    groups.notices.note("g", NOW_MS + period_ms + 1)
    assert groups.taken(NOW_MS + period_ms + 1) == {}
    assert groups.taken(NOW_MS + period_ms + 2) == {"g": [2, 3]}
    groups.notices.note("g", NOW_MS + 2 * period_ms)
    assert groups.taken(NOW_MS + 2 * period_ms) == {"g": [2, 3]}


def test_a_small_group_learns_of_each_change_before_a_pull_is_answered(groups: Groups) -> None:
    """Two members that both think that they own a queue consume its messages twice."""
    for count in range(1, 5):
        groups.members["g"] = list(range(count))
        groups.notices.note("g", NOW_MS + 5 * count)
        assert groups.taken(NOW_MS + 5 * count) == {"g": list(range(count))}


def test_the_period_of_a_crowd_has_a_limit(groups: Groups) -> None:
    members = list(range(PERIOD_MS_MAX * 5))
    groups.members["g"] = members
    groups.notices.note("g", NOW_MS)
    now_ms = NOW_MS
    while groups.notices.next_ms() is not None:
        groups.taken(now_ms)
        now_ms += STEP_MS
    groups.notices.note("g", now_ms)
    assert groups.taken(NOW_MS + PERIOD_MS_MAX - 1) == {}
    assert groups.taken(NOW_MS + PERIOD_MS_MAX) == {"g": members[:STEP_COUNT_MAX]}


def test_a_small_group_does_not_wait_for_the_crowd_of_another(groups: Groups) -> None:
    """Behind 5,000 notices its members would both have a queue for 0.8 s."""
    groups.members |= {"crowd": list(range(5_000)), "small": [1, 2, 3]}
    groups.notices.note("crowd", NOW_MS)
    assert len(groups.taken(NOW_MS)["crowd"]) == STEP_COUNT_MAX
    groups.notices.note("small", NOW_MS + 1)
    taken = groups.taken(NOW_MS + STEP_MS)
    assert taken["small"] == [1, 2, 3]
    assert len(taken["crowd"]) == STEP_COUNT_MAX - 3


def test_a_short_period_ends_before_a_long_one_that_began_earlier(groups: Groups) -> None:
    groups.members |= {"large": list(range(50)), "small": [1, 2]}
    for group in ("large", "small"):
        groups.notices.note(group, NOW_MS)
    groups.taken(NOW_MS)
    for group in ("large", "small"):
        groups.notices.note(group, NOW_MS + 1)
    assert groups.taken(NOW_MS + 2) == {"small": [1, 2]}


def test_a_second_member_is_noticed_at_once_however_soon_it_comes(groups: Groups) -> None:
    groups.members["g"] = [1]
    groups.notices.note("g", NOW_MS)
    assert groups.taken(NOW_MS) == {"g": [1]}
    groups.members["g"] = [1, 2]
    groups.notices.note("g", NOW_MS + 1)
    assert groups.taken(NOW_MS + 1) == {"g": [1, 2]}


def test_groups_do_not_wait_for_each_other(groups: Groups) -> None:
    groups.members |= {"g": [1, 2], "h": [1, 3]}
    groups.notices.note("g", NOW_MS)
    groups.notices.note("h", NOW_MS + 1)
    assert groups.taken(NOW_MS + 1) == {"g": [1, 2], "h": [1, 3]}


def test_the_notices_of_a_large_group_leave_in_steps(groups: Groups) -> None:
    members = list(range(STEP_COUNT_MAX * 2 + 1))
    groups.members["g"] = members
    groups.notices.note("g", NOW_MS)
    assert groups.taken(NOW_MS) == {"g": members[:STEP_COUNT_MAX]}
    assert groups.taken(NOW_MS + STEP_MS - 1) == {}
    assert groups.notices.next_ms() == NOW_MS + STEP_MS
    assert groups.taken(NOW_MS + STEP_MS) == {"g": members[STEP_COUNT_MAX : 2 * STEP_COUNT_MAX]}
    # A change meanwhile waits, even if the rest leaves only after the period.
    period_ms = len(members) * MEMBER_PERIOD_MS
    groups.notices.note("g", NOW_MS + STEP_MS)
    assert groups.taken(NOW_MS + period_ms) == {"g": members[-1:]}
    assert groups.notices.next_ms() is not None
    assert groups.taken(NOW_MS + 2 * period_ms) == {"g": members[:STEP_COUNT_MAX]}


def test_a_group_that_is_gone_is_forgotten(groups: Groups) -> None:
    groups.members["g"] = [1, 2]
    groups.notices.note("g", NOW_MS)
    groups.taken(NOW_MS)
    groups.notices.note("g", NOW_MS + 1)
    del groups.members["g"]
    assert groups.taken(NOW_MS + PERIOD_MS_MAX) == {}
    assert groups.notices.next_ms() is None
    groups.notices.note("g", NOW_MS + PERIOD_MS_MAX)
    assert groups.notices.next_ms() is None


def test_a_clock_that_is_set_back_holds_nothing_up(groups: Groups) -> None:
    groups.members["g"] = [1, 2]
    groups.notices.note("g", NOW_MS)
    groups.taken(NOW_MS)
    groups.notices.note("g", NOW_MS + 1)
    assert groups.taken(NOW_MS - 3_600_000) == {"g": [1, 2]}


def test_a_broker_ticks_when_notices_leave_or_its_housekeeping_is_due(harness: Harness) -> None:
    others_ms = harness.broker.next_tick_ms()
    for number in range(1, 4):
        harness.beat("g", subscription(), channel=FakeChannel(number), client_id=f"c{number}")
    due_ms = harness.broker.state.notices.next_ms()
    assert due_ms is not None and NOW_MS < due_ms < others_ms
    harness.pushed(NOTIFY)
    for now_ms, count in ((due_ms - 1, 0), (due_ms, 3)):
        assert harness.broker.next_tick_ms() == due_ms
        harness.broker.tick(now_ms)
        assert len(harness.pushed(NOTIFY)) == count
    assert harness.broker.next_tick_ms() == others_ms


def test_thousands_that_join_one_group_get_some_notices_each(harness: Harness) -> None:
    """4.9.3 sends one to every member at each join: 2,000 members would make 2,001,000."""
    joins_count, joins_each_ms, received = 2_000, 2, Counter[int]()
    for number in range(1, joins_count + 1):
        harness.beat("g", subscription(), channel=FakeChannel(number), client_id=f"c{number}")
        received.update(harness.pushed(NOTIFY))
        if number % joins_each_ms == 0:
            harness.now_ms += 1
            harness.broker.tick(harness.now_ms)
            received.update(harness.pushed(NOTIFY))
    while harness.broker.state.notices.next_ms() is not None:
        assert harness.broker.next_tick_ms() <= harness.now_ms + PERIOD_MS_MAX
        harness.now_ms += STEP_MS
        harness.broker.tick(harness.now_ms)
        received.update(harness.pushed(NOTIFY))
        harness.broker.state.notices.validate()
    assert harness.now_ms - NOW_MS < 4_000
    # The first members see each period end; a period is as long as the group is large then.
    assert max(received.values()) <= 10 and received.total() <= 3 * joins_count
    # The last notice was after the last join: everybody knows of everybody.
    assert len(received) == joins_count
