"""How a cluster is reached, from the flags of a command."""

import pytest

from wakelog.actors.errors import NotPossible
from wakelog.cli.admin.client_flags import ENVIRONMENT_NAME, client_options
from wakelog.cli.admin.command import Flags


def test_name_servers_come_from_a_flag_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_NAME, "10.0.0.1:9876;10.0.0.2:9876")
    assert client_options(Flags()).name_servers == ("10.0.0.1:9876", "10.0.0.2:9876")
    assert client_options(Flags(n="10.0.0.3:9876")).name_servers == ("10.0.0.3:9876",)
    monkeypatch.delenv(ENVIRONMENT_NAME)
    with pytest.raises(NotPossible, match="no name server is given"):
        client_options(Flags())


def test_tls_is_what_the_flags_say() -> None:
    assert client_options(Flags(n="a:1")).tls is None
    for flags, checks in (({"tls": "true"}, True), ({"tls-insecure": "true"}, False)):
        tls = client_options(Flags(n="a:1", **flags)).tls
        assert tls is not None and tls.checks_server is checks
    with pytest.raises(NotPossible, match="contradict each other"):
        client_options(Flags(n="a:1", **{"tls-trust": "x", "tls-insecure": "true"}))
