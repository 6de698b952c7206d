"""How a command reaches a cluster."""

import json
from pathlib import Path
from typing import Any

import pytest

from wakelog.actors.errors import NotPossible
from wakelog.cli.command import Call, read
from wakelog.cli.output import Table, show
from wakelog.cli.root import program
from wakelog.cli.wire import NAME_SERVER_DEFAULT, Wire


def wire(name_server: str | None = None, **given: Any) -> Wire:
    """Return how a cluster is reached by these options; the others are not given."""
    keys = dict.fromkeys(("access_key", "secret_key", "account", "tls_trust", "tls_config"))
    switches = {"tls": False, "tls_insecure": False}
    return Wire(name_server, **{"output": "table", **keys, **switches, **given})


def test_the_name_server_is_the_option_then_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    assert wire().options().name_servers == (NAME_SERVER_DEFAULT,)
    monkeypatch.setenv("NAMESRV_ADDR", "a:1;b:2")
    assert wire().options().name_servers == ("a:1", "b:2")
    assert wire("c:3").options().name_servers == ("c:3",)
    for text, cause in (("nonsense", "-n nonsense is no HOST:PORT"), ("", "no name server is")):
        with pytest.raises(NotPossible, match=cause):
            wire(text).options()


def test_a_command_gets_the_common_options_as_one_value() -> None:
    call = read(program, ["topics", "T", "-n", "a:1", "--tls", "-o", "json"])
    assert isinstance(call, Call)
    assert call.values == {"topic": "T", "shows_all": False}
    assert call.first == wire("a:1", output="json", tls=True)
    assert call.first.as_json


def test_credentials_and_tls_are_passed_on() -> None:
    options = wire("a:1", access_key="k", secret_key="s", tls_trust="f").options()
    assert options.credentials[:2] == ("k", "s")
    assert options.tls is not None
    assert options.tls.trust_path == "f"


def test_a_tls_properties_brings_a_certificate_of_ones_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tls.properties"
    path.write_text("tls.test.mode.enable=false\ntls.client.certPath=/c\ntls.client.keyPath=/k\n")
    tls = wire("a:1", tls_config=str(path)).options().tls
    assert tls is not None
    assert (tls.cert_path, tls.key_path, tls.checks_server) == ("/c", "/k", False)
    assert capsys.readouterr().err == ""
    path.write_text("tls.client.trustCertPath=/t\n")
    wire("a:1", tls_config=str(path)).options()
    assert "tls.client.trustCertPath has no effect" in capsys.readouterr().err


def test_any_certificate_is_trusted_on_request_alone() -> None:
    assert wire("a:1").options().tls is None
    tls = wire("a:1", tls_insecure=True).options().tls
    assert tls is not None and not tls.checks_server and not tls.checks_host
    plain = wire("a:1", tls=True).options().tls
    assert plain is not None and plain.checks_server
    insecure = wire("a:1", tls_insecure=True)
    for name, contrary in (
        ("--tls-trust", insecure._replace(tls_trust="f")),
        ("--tls-config", insecure._replace(tls_config="f")),
    ):
        with pytest.raises(NotPossible, match=f"{name} and --tls-insecure contradict"):
            contrary.options()


def test_a_table_is_columns_or_objects() -> None:
    table = Table("%-6s|%04d|%5.2f", ["Broker Name", "QID", "InTPS(LOAD)"], [("b", 1, 2.5)])
    said: list[str] = []
    show(table, said.append, as_json=False)
    assert said == ["#Broker Name|#QID|#InTPS(LOAD)", "b     |0001| 2.50"]
    show(table, said.append, as_json=True)
    assert json.loads(said[-1]) == {"brokerName": "b", "qid": 1, "inTPS": 2.5}
