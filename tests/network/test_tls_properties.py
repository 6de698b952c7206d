"""Every rule of the module's docstring."""

from pathlib import Path

import pytest

from wakelog.network.errors import TlsRefused
from wakelog.network.tls import ClientAuth, ServerTls, Tls, TlsMode
from wakelog.network.tls_properties import (
    CONFIG_BYTES_MAX,
    MODE,
    TlsProperties,
    TlsSource,
    read_choice,
    read_tls,
)

ANY_SERVER = Tls(checks_server=False, checks_host=False)
REAL = """
tls.test.mode.enable=false
tls.server.need.client.auth=require
tls.server.keyPath=/opt/certFiles/server.key
tls.server.keyPassword=12\\u0033456
tls.server.certPath=server.pem
tls.server.authClient=true
tls.server.trustCertPath=/opt/certFiles/ca.pem
tls.client.keyPath=/opt/certFiles/client.key
tls.client.keyPassword=654321
tls.client.certPath=/opt/certFiles/client.pem
tls.client.authServer=true
tls.client.trustCertPath=/opt/certFiles/ca.pem
"""


def read(
    directory: Path, text: str, mode: TlsMode = TlsMode.PERMISSIVE, **given: str
) -> TlsProperties:
    path = directory / "tls.properties"
    path.write_text(text)
    keys = {f"tls.{key.replace('_', '.')}": value for key, value in given.items()}
    return read_tls(TlsSource(mode, str(path), "/opt/certFiles", keys))


def test_without_a_file_a_server_signs_its_own_certificate() -> None:
    assert read_tls(TlsSource(TlsMode.PERMISSIVE)) == (
        ServerTls(TlsMode.PERMISSIVE, is_self_signed=True),
        ANY_SERVER,
        (),
    )
    assert read_tls(TlsSource()).server.mode is TlsMode.DISABLED


def test_a_file_of_rocketmq_is_read_unchanged(tmp_path: Path) -> None:
    found = read(tmp_path, REAL, TlsMode.ENFORCING)
    assert found.server == ServerTls(
        TlsMode.ENFORCING,
        "/opt/certFiles/server.pem",
        "/opt/certFiles/server.key",
        "123456",
        "/opt/certFiles/ca.pem",
        ClientAuth.REQUIRE,
    )
    assert found.client == Tls(
        "/opt/certFiles/ca.pem",
        "/opt/certFiles/client.pem",
        "/opt/certFiles/client.key",
        "654321",
        checks_host=False,
    )
    assert found.warnings == ()
    assert "123456" not in repr(found) and "654321" not in repr(found)


def test_the_file_beats_what_is_given(tmp_path: Path) -> None:
    text = "tls.server.certPath=a.pem\ntls.test.mode.enable=false"
    found = read(tmp_path, text, server_certPath="b.pem", server_keyPath="b.key")
    assert found.server.cert_path == "/opt/certFiles/a.pem"
    assert found.server.key_path == "/opt/certFiles/b.key"
    assert found.client == ANY_SERVER


@pytest.mark.parametrize(
    ("auth", "checks", "expected"),
    [
        ("none", "true", ClientAuth.NONE),
        ("", "true", ClientAuth.NONE),
        ("OPTIONAL", "true", ClientAuth.OPTIONAL),
        ("require", "true", ClientAuth.REQUIRE),
        ("optional", "false", ClientAuth.NONE),
    ],
)
def test_clients_are_asked_for_a_certificate_that_is_checked(
    tmp_path: Path, auth: str, checks: str, expected: ClientAuth
) -> None:
    text = f"{REAL}tls.server.need.client.auth={auth}\ntls.server.authClient={checks}\n"
    assert read(tmp_path, text).server.client_auth is expected


def test_settings_without_effect_are_named(tmp_path: Path) -> None:
    text = "tls.server.certPath=a.pem\ntls.server.mode=enforcing\ntls.server.certPaht=a.pem\n"
    found = read(tmp_path, text)
    assert found.server == ServerTls(TlsMode.PERMISSIVE, is_self_signed=True)
    path = tmp_path / "tls.properties"
    assert found.warnings == (
        f"tls.server.mode in {path} has no effect, as in 4.9.3: put it into broker.conf, or give "
        "it with --set",
        f"tls.server.certPaht in {path} has no effect, and is no key of RocketMQ 4.9.3",
        "tls.server.certPath has no effect while tls.test.mode.enable is true",
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tls.test.mode.enable=no", "tls.test.mode.enable=no is not accepted; give true or false"),
        ("tls.test.mode.enable=false", "tls.server.certPath is missing; give it, or set"),
        (REAL.replace("keyPath", "key"), "tls.server.keyPath is missing"),
        (f"{REAL}tls.server.need.client.auth=yes", "give none or optional or require"),
        (f"{REAL}tls.server.authClient=false", "checks no client; set tls.server.authClient"),
        ("a=\\u12", "is not as Java writes properties"),
        ("a\0", "is not a text of settings; name a tls.properties"),
        ("#" * (CONFIG_BYTES_MAX + 1), "is not a text of settings"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(TlsRefused, match=words):
        read(tmp_path, text)


def test_a_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(TlsRefused, match="/nowhere cannot be read: No such file or directory; "):
        read_tls(TlsSource(TlsMode.PERMISSIVE, "/nowhere"))


def test_a_server_without_tls_needs_no_certificate(tmp_path: Path) -> None:
    found = read(tmp_path, "tls.test.mode.enable=false", TlsMode.DISABLED)
    assert found.server.mode is TlsMode.DISABLED


@pytest.mark.parametrize("text", ["ENFORCING", "Permissive", "on", ""])
def test_a_mode_of_another_spelling_is_refused(text: str) -> None:
    with pytest.raises(TlsRefused, match="give disabled or permissive or enforcing"):
        read_choice(MODE, text, TlsMode)
