"""The change of a setting, in words."""

from wakelog.console.actions.table import ACTIONS


def test_a_change_is_mqadmin_s_command() -> None:
    values = {"broker": "b:1", "key": "fileReservedTime", "value": "48"}
    assert ACTIONS["change-setting"].command(values) == (
        "wakelog admin updateBrokerConfig -b b:1 -k fileReservedTime -v 48"
    )
