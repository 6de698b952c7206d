"""How a command reaches a cluster."""

import inspect

import pytest

from wakelog.actors.errors import NotPossible
from wakelog.cli.cluster.wire import NAME_SERVER_DEFAULT, Wire, over_wire


def test_the_name_server_is_the_option_then_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    assert Wire().options().name_servers == (NAME_SERVER_DEFAULT,)
    monkeypatch.setenv("NAMESRV_ADDR", "a:1;b:2")
    assert Wire().options().name_servers == ("a:1", "b:2")
    assert Wire("c:3").options().name_servers == ("c:3",)
    with pytest.raises(NotPossible, match="no HOST:PORT"):
        Wire("nonsense").options()


def test_a_command_gets_the_common_options_as_one_value() -> None:
    found: list[tuple[Wire, str]] = []

    def ask(wire: Wire, topic: str) -> None:
        """Ask."""
        found.append((wire, topic))

    command = over_wire(ask, Wire)
    assert list(inspect.signature(command).parameters) == ["topic", *Wire._fields]
    given = {name: Wire._field_defaults[name] for name in Wire._fields}
    command(topic="T", **{**given, "tls": True})
    assert found == [(Wire(tls=True), "T")]
