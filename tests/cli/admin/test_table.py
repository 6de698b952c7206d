"""The table of commands, and command lines that reach no cluster."""

from pathlib import Path

import pytest

from wakelog.actors.errors import NotPossible
from wakelog.cli.admin.client_flags import client_options
from wakelog.cli.admin.command import COMMON, Flags
from wakelog.cli.admin.table import COMMANDS, run_admin
from wakelog.client.errors import ClientError


def test_names_of_flags_are_unique_in_a_command() -> None:
    for command in COMMANDS.values():
        shorts = [flag.short for flag in (*command.flags, *COMMON) if flag.short]
        names = [flag.name for flag in (*command.flags, *COMMON)]
        assert len(set(shorts)) == len(shorts), command.name
        assert len(set(names)) == len(names), command.name
        assert set(command.one_of) <= set(shorts), command.name


def test_help_needs_no_cluster() -> None:
    said: list[str] = []
    run_admin([], said.append)
    assert any(line.split()[:1] == ["topicList"] for line in said)
    run_admin(["help", "TOPICSTATUS"], said.append)
    assert said[-10].split()[:2] == ["-t,", "--topic"]


def test_an_unknown_command_is_refused() -> None:
    with pytest.raises(NotPossible, match=r"no command topicLst\. Did you mean topicList"):
        run_admin(["topicLst"], print)
    with pytest.raises(NotPossible, match=r"no command walk\. See"):
        run_admin(["walk"], print)


def test_the_name_server_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "a:1;b:2")
    assert client_options(Flags()).name_servers == ("a:1", "b:2")
    assert client_options(Flags(n="c:3")).name_servers == ("c:3",)
    monkeypatch.delenv("NAMESRV_ADDR")
    for flags in (Flags(), Flags(n="nonsense"), Flags(n="a:1", output="xml")):
        with pytest.raises(NotPossible):
            client_options(flags)


def test_credentials_and_tls_are_passed_on() -> None:
    flags = Flags({"n": "a:1", "access-key": "k", "secret-key": "s", "tls-trust": "f"})
    options = client_options(flags)
    assert options.credentials[:2] == ("k", "s")
    assert options.tls is not None
    assert options.tls.trust_path == "f"


def test_a_tls_properties_brings_a_certificate_of_ones_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tls.properties"
    path.write_text("tls.test.mode.enable=false\ntls.client.certPath=/c\ntls.client.keyPath=/k\n")
    tls = client_options(Flags({"n": "a:1", "tls-config": str(path)})).tls
    assert tls is not None
    assert (tls.cert_path, tls.key_path, tls.checks_server) == ("/c", "/k", False)
    assert capsys.readouterr().err == ""
    path.write_text("tls.client.trustCertPath=/t\n")
    client_options(Flags({"n": "a:1", "tls-config": str(path)}))
    assert "tls.client.trustCertPath has no effect" in capsys.readouterr().err


def test_any_certificate_is_trusted_on_request_alone() -> None:
    tls = client_options(Flags({"n": "a:1", "tls-insecure": "true"})).tls
    assert tls is not None and not tls.checks_server and not tls.checks_host
    plain = client_options(Flags({"n": "a:1", "tls-insecure": "false", "tls": "true"})).tls
    assert plain is not None and plain.checks_server
    for name in ("tls-trust", "tls-config"):
        with pytest.raises(NotPossible, match=f"--{name} and --tls-insecure contradict"):
            client_options(Flags({"n": "a:1", "tls-insecure": "true", name: "f"}))


def test_a_name_server_that_is_away_is_named() -> None:
    with pytest.raises(ClientError, match=r"127\.0\.0\.1:1 does not answer"):
        run_admin(["clusterList", "-n", "127.0.0.1:1"], print)
