"""tls.properties as 4.9.3 reads it, and the keys `tls.*` that are given elsewhere.

    value of a key      the file's, else the one that was given, else 4.9.3's default
    given only          tls.server.mode, tls.enable, tls.config.file: the file's have no effect
    in the file only    tls.server.keyPassword, tls.client.keyPassword

In test mode (tls.test.mode.enable, true by default) paths have no effect: a server signs its own
certificate, and a client trusts any. Outside of it a client trusts any certificate, too, unless
tls.client.authServer is true. No client checks the server's name.

4.9.3 goes on with a default where it cannot use a value; here that is an error.

Source: org.apache.rocketmq.remoting.netty.TlsHelper, TlsSystemConfig (4.9.3).
"""

import os
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from wakelog.network.errors import TlsRefused
from wakelog.network.tls import ClientAuth, ServerTls, Tls, TlsMode

DEFAULT_CONFIG_PATH: Final = "/etc/rocketmq/tls.properties"
CONFIG_BYTES_MAX: Final = 64 * 1024
"""A tls.properties has some hundred bytes; a file of this size is something else."""

PREFIX: Final = "tls."
MODE: Final = "tls.server.mode"
ENABLE: Final = "tls.enable"
CONFIG_FILE: Final = "tls.config.file"

_TEST_MODE = "tls.test.mode.enable"
_NEED_CLIENT_AUTH = "tls.server.need.client.auth"
_AUTH_CLIENT = "tls.server.authClient"
_AUTH_SERVER = "tls.client.authServer"
_SERVER_CERT, _SERVER_KEY, _SERVER_TRUST = (
    f"tls.server.{name}" for name in ("certPath", "keyPath", "trustCertPath")
)
_CLIENT_CERT, _CLIENT_KEY, _CLIENT_TRUST = (
    f"tls.client.{name}" for name in ("certPath", "keyPath", "trustCertPath")
)
_SERVER_PASSWORD, _CLIENT_PASSWORD = "tls.server.keyPassword", "tls.client.keyPassword"

DEFAULTS: Final = {
    _TEST_MODE: "true",
    _NEED_CLIENT_AUTH: ClientAuth.NONE.value,
    _AUTH_CLIENT: "false",
    _AUTH_SERVER: "false",
    **dict.fromkeys((_SERVER_CERT, _SERVER_KEY, _SERVER_PASSWORD, _SERVER_TRUST), ""),
    **dict.fromkeys((_CLIENT_CERT, _CLIENT_KEY, _CLIENT_PASSWORD, _CLIENT_TRUST), ""),
}
"""The keys of the file."""

PASSWORD_KEYS: Final = frozenset({_SERVER_PASSWORD, _CLIENT_PASSWORD})
GIVEN_KEYS: Final = frozenset({MODE, ENABLE, CONFIG_FILE, *DEFAULTS.keys() - PASSWORD_KEYS})
"""The keys that may be given beside the file. A password there would be seen by `ps`."""

ChoiceT = TypeVar("ChoiceT", TlsMode, ClientAuth)


class TlsSource(msgspec.Struct, frozen=True):
    """Where the settings of one process come from; it holds no password.

    config_path: the tls.properties, "" for none.
    directory: where relative paths begin.
    given: keys of the file that were given elsewhere.
    """

    mode: TlsMode = TlsMode.DISABLED
    config_path: str = ""
    directory: str = ""
    given: dict[str, str] = {}


class TlsProperties(NamedTuple):
    """The settings of both ends, and what the user must know of them."""

    server: ServerTls
    client: Tls
    warnings: tuple[str, ...]


def read_choice(key: str, text: str, choices: type[ChoiceT]) -> ChoiceT:
    """Return one of the choices. Raises: TlsRefused.

    4.9.3 reads whether clients are asked in any case. A mode of another case it takes for
    permissive, which lets in clients without TLS.
    """
    text = text.strip()
    try:
        return choices(text if choices is TlsMode else text.lower())
    except ValueError:
        accepted = " or ".join(choices)
        raise TlsRefused(f"{key}={text} is not accepted; give {accepted}") from None


def read_flag(key: str, text: str) -> bool:
    """Return a boolean. Raises: TlsRefused."""
    if text.strip().lower() not in ("true", "false"):
        raise TlsRefused(f"{key}={text} is not accepted; give true or false")
    return text.strip().lower() == "true"


def read_tls(source: TlsSource) -> TlsProperties:
    """Read the file; it may block, and certificates are not read yet. Raises: TlsRefused."""
    found = _read_file(source.config_path) if source.config_path else {}
    values = ChainMap(found, dict(source.given), DEFAULTS)
    warnings = [
        f"{key} in {source.config_path} has no effect, {_why(key)}"
        for key in found
        if key not in DEFAULTS
    ]
    is_test = read_flag(_TEST_MODE, values[_TEST_MODE])
    paths = _Paths(values, source.directory)
    ignored = [key for key in (_SERVER_CERT, _CLIENT_TRUST) if is_test and values[key]]
    warnings += [f"{key} has no effect while {_TEST_MODE} is true" for key in ignored]
    server = ServerTls(source.mode, is_self_signed=True)
    client = Tls(checks_server=False, checks_host=False)
    if not is_test:
        server, client = _server(source.mode, values, paths), _client(values, paths)
    return TlsProperties(server, client, tuple(warnings))


class _Paths:
    """Paths of files by key."""

    def __init__(self, values: Mapping[str, str], directory: str) -> None:
        self._values = values
        self._directory = directory

    def __getitem__(self, key: str) -> str:
        path = self._values[key]
        return os.path.join(self._directory, path) if path else ""


def _why(key: str) -> str:
    if key in GIVEN_KEYS:
        return "as in 4.9.3: put it into broker.conf, or give it with --set"
    return "and is no key of RocketMQ 4.9.3"


def _server(mode: TlsMode, values: Mapping[str, str], paths: _Paths) -> ServerTls:
    if mode is not TlsMode.DISABLED and not (values[_SERVER_CERT] and values[_SERVER_KEY]):
        missing = _SERVER_KEY if values[_SERVER_CERT] else _SERVER_CERT
        remedy = f"give it, or set {_TEST_MODE} to true for a self-signed certificate"
        raise TlsRefused(f"{_TEST_MODE} is false and {missing} is missing; {remedy}")
    needed = read_choice(
        _NEED_CLIENT_AUTH, values[_NEED_CLIENT_AUTH] or ClientAuth.NONE.value, ClientAuth
    )
    if not read_flag(_AUTH_CLIENT, values[_AUTH_CLIENT]):
        if needed is ClientAuth.REQUIRE:
            # 4.9.3 wants a certificate then and accepts any, which keeps nobody out.
            cause = f"{_NEED_CLIENT_AUTH}=require without {_AUTH_CLIENT}=true checks no client"
            raise TlsRefused(f"{cause}; set {_AUTH_CLIENT} and {_SERVER_TRUST} as well")
        needed = ClientAuth.NONE
    return ServerTls(
        mode,
        paths[_SERVER_CERT],
        paths[_SERVER_KEY],
        values[_SERVER_PASSWORD],
        paths[_SERVER_TRUST],
        needed,
    )


def _client(values: Mapping[str, str], paths: _Paths) -> Tls:
    return Tls(
        paths[_CLIENT_TRUST],
        paths[_CLIENT_CERT],
        paths[_CLIENT_KEY],
        values[_CLIENT_PASSWORD],
        checks_server=read_flag(_AUTH_SERVER, values[_AUTH_SERVER]),
        checks_host=False,
    )


def _read_file(path: str) -> dict[str, str]:
    import javaproperties  # takes 18 ms, and a start without a file does without it

    try:
        with Path(path).open("rb") as file:
            data = file.read(CONFIG_BYTES_MAX + 1)
    except OSError as error:
        reason = f"{path} cannot be read: {error.strerror or error}"
        raise TlsRefused(f"{reason}; name a readable file with {CONFIG_FILE}") from None
    if len(data) > CONFIG_BYTES_MAX or b"\0" in data:
        raise TlsRefused(f"{path} is not a text of settings; name a tls.properties")
    text = data.decode("latin-1")
    try:
        return {key: value.strip() for key, value in javaproperties.loads(text).items()}
    except ValueError as error:
        reason = f"{path} is not as Java writes properties: {error}"
        raise TlsRefused(f"{reason}; write \\\\ for a backslash") from None
