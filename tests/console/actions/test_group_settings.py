"""What a change of a group's settings comes to, and a pause of it."""

from typing import Any

import pytest

from wakelog.console.actions.group_settings import changes_of, values_of
from wakelog.console.actions.table import ACTIONS
from wakelog.protocol.bodies import SubscriptionGroupConfig

NOW = SubscriptionGroupConfig("g", retry_max_times=16)


def test_a_change_is_said_with_both_values_and_how_many_brokers() -> None:
    wanted = SubscriptionGroupConfig("g", False, retry_max_times=5)
    other = SubscriptionGroupConfig("g", retry_max_times=5)
    assert changes_of([NOW, NOW, other, None], wanted) == [
        "the group is new at 1 broker",
        "may consume is yes, and will be no at 3 brokers",
        "retries at most is 16, and will be 5 at 2 brokers",
    ]
    assert changes_of([NOW], NOW) == ["nothing changes at 1 broker"]


@pytest.mark.parametrize("consumes", [True, False])
def test_the_form_of_a_group_as_it_is_changes_nothing(consumes: bool) -> None:
    now = SubscriptionGroupConfig("g", consumes, True, False, 2, 7, 1, 2, False)
    action = ACTIONS["change-group"]
    values, wrong = action.checked({"group": "g", "cluster": "c", **values_of(now)})
    assert not wrong
    words = " ".join(action.words(values))
    flags = f"-s {str(consumes).lower()} -m true -d false -a false -r 7 -q 2 -i 1 -w 2"
    assert words == f"admin updateSubGroup -c c -g g {flags}"


def test_a_broker_that_is_named_is_changed_alone() -> None:
    action = ACTIONS["create-group"]
    values, _ = action.checked({"group": "g", "cluster": "c", "broker": "b:1"})
    assert list(action.words(values))[2:4] == ["-b", "b:1"]


def test_a_pause_says_what_it_comes_to() -> None:
    rows: list[dict[str, Any]] = [
        {"broker": "a", "mayConsume": True, "will": False},
        {"broker": "b", "mayConsume": False, "will": False},
        {"group": "g", "clients": 2, "lag": 1_204, "changed": False},
    ]
    action = ACTIONS["pause-group"]
    assert action.shown is not None
    first, second, _ = action.shown.sums(rows)
    assert first == "1 broker of 2 will be asked to pause it"
    assert second == "2 clients of it now online, 1,204 messages waiting for it"
    assert list(action.words({"group": "g"})) == ["pause", "g", "--yes"]
    assert list(action.shown.words({"group": "g"})) == ["pause", "g"]
    resumed = ACTIONS["resume-group"].shown
    assert resumed is not None and len(resumed.sums(rows)) == 2
