"""Reads the texts of options: one function for each kind of value, and tables of them.

Invariants: a reader of one value raises ValueError, and the error says what the option takes.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from wakelog.client.options import ClientOptions
from wakelog.network.errors import TlsRefused
from wakelog.network.signing import Credentials
from wakelog.network.tls import Tls, make_context
from wakelog.protocol.addresses import read_name_servers
from wakelog.protocol.names import is_legal_group
from wakelog.spark.errors import OptionError
from wakelog.typed_values import decode_json

_UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_TIMES: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE = re.compile(r"(\d+)\s*([bkmg]?)b?", re.IGNORECASE)
_TIME = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)", re.IGNORECASE)
BATCH_BYTES_MAX: Final = 1 << 30
"""Arrow counts the bytes of a column with 31 bits, and a batch may exceed this by one record."""

Reader = Callable[[str], Any]


def number_from(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a reader of whole numbers in [least, most]; most: None for no bound."""
    bounds = f"{least} on" if most is None else f"{least} to {most}"

    def read(text: str) -> int:
        number = int(text) if text.strip().isdecimal() else least - 1
        if number < least or (most is not None and number > most):
            raise ValueError(f"a number from {bounds}")
        return number

    return read


def read_bytes(text: str) -> int:
    """Read a size, with or without a unit."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise ValueError("a size such as 1000000, 512k or 128m")
    return int(match[1]) * _UNITS[match[2].lower()]


def read_batch_bytes(text: str) -> int:
    """Read the size of a batch."""
    found = read_bytes(text)
    if found > BATCH_BYTES_MAX:
        raise ValueError("a size of at most 1g, such as 16m")
    return found


def read_delay_ms(text: str) -> int:
    """Read a duration with its unit."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError("a time such as 500ms, 30s or 15m")
    return int(match[1]) * _TIMES[match[2].lower()]


def read_moment_ms(text: str) -> int:
    """Read milliseconds since 1970, or a time in ISO 8601; without a zone it is UTC."""
    if re.fullmatch(r"-?\d+", text.strip()):
        return int(text)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError("milliseconds, or a time such as 2026-11-01T08:00:00Z") from None
    return milliseconds(moment)


def milliseconds(moment: datetime) -> int:
    """Return milliseconds since 1970; a time without a zone is UTC."""
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(zoned.timestamp() * 1000)


def one_of(*words: str) -> Callable[[str], str]:
    """Return a reader of one of some words."""

    def read(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(" or ".join(words))
        return text.lower()

    return read


def read_flag(text: str) -> bool:
    """Read true or false."""
    return one_of("true", "false")(text) == "true"


def read_names(text: str, separator: str = ",") -> tuple[str, ...]:
    """Read names with commas, or another separator, between them."""
    return tuple(filter(None, (part.strip() for part in text.split(separator))))


def read_columns(text: str) -> tuple[str, ...]:
    """Read names of columns. Spark turns a list in Python into a text such as `['topic']`."""
    if text.strip().startswith("["):
        raise ValueError("names with commas between them, such as topic,body, and no list")
    return read_names(text)


def read_paths(text: str) -> str:
    """Read JSON, as Spark encodes the list in `load([...])`, into the text of one path option."""
    try:
        found = decode_json(text, list[str])
    except msgspec.DecodeError as error:
        raise ValueError("a JSON list of paths") from error
    return ",".join(found)


def read_topics(text: str) -> frozenset[str]:
    """Read names of topics: at least one, because no name would mean all topics."""
    found = frozenset(read_names(text))
    if not found:
        raise ValueError("names of topics, with commas between them")
    return found


def read_tags(text: str) -> tuple[str, ...]:
    """Read a tag expression as FilterAPI does: `*`, or tags joined by `||`."""
    return () if text.strip() == "*" else read_names(text, "||")


def read_pattern(text: str) -> str:
    """Check a regular expression, and return its text."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from None
    return text


def read_expression(text: str) -> str:
    """Check a SQL92 filter, and return its text. Imports the parser only when it is called."""
    from wakelog.filter.errors import IllegalExpression
    from wakelog.filter.sql92 import compile_filter

    try:
        compile_filter(text)
    except IllegalExpression as error:
        raise ValueError(f"an expression of SQL92 ({error.remark.splitlines()[0]})") from error
    return text


def read_addresses(text: str) -> tuple[str, ...]:
    """Read the addresses of name servers."""
    found = read_name_servers(text)
    if not found:
        raise ValueError("HOST:PORT, several with semicolons between them")
    return found


def text_that(is_legal: Callable[[str], object], words: str) -> Callable[[str], str]:
    """Return a reader of texts that are legal; words: what the error says of them."""

    def read(text: str) -> str:
        if not is_legal(text):
            raise ValueError(words)
        return text

    return read


read_secret: Final = text_that(str.strip, "a text that is not empty")
read_group: Final = text_that(
    is_legal_group, "printable ASCII but for blanks, / and @, at most 255 characters"
)


_TLS_FIELDS: Final = {
    "tls.enable": "is_wanted",
    "tls.client.trustCertPath": "trust_path",
    "tls.client.certPath": "cert_path",
    "tls.client.keyPath": "key_path",
    "tls.client.keyPassword": "key_password",
    "tls.client.authServer": "checks_server",
    "tls.client.checkHost": "checks_host",
}
"""The options' names are those of 4.9.3's TlsSystemConfig; `checkHost` is ours."""
_TLS_FLAGS: Final = frozenset({"tls.enable", "tls.client.authServer", "tls.client.checkHost"})

CONNECTION_OPTIONS: Final[Mapping[str, tuple[str, Reader]]] = {
    "nameServer": ("name_servers", read_addresses),
    "namesrvAddr": ("name_servers", read_addresses),
    "accessKey": ("access_key", read_secret),
    "secretKey": ("secret_key", read_secret),
    "securityToken": ("security_token", read_secret),
    **{
        name: (field, read_flag if name in _TLS_FLAGS else read_secret)
        for name, field in _TLS_FIELDS.items()
    },
}
"""What reads and writes over the wire have in common: option name to field and reader."""


def read_values(given: Mapping[str, str], table: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Read texts by their option's reader into values by field.

    given: by the names of the table, whose rows begin with field and reader.
    Raises: OptionError for a text that does not fit, and for two names of one field that disagree.
    """
    values: dict[str, Any] = {}
    names: dict[str, str] = {}
    for name, text in given.items():
        field, read, *_ = table[name]
        try:
            value = read(text)
        except ValueError as error:
            raise OptionError(f"option {name} is {text!r}; it takes {error}") from error
        if values.setdefault(field, value) != value:
            raise OptionError(
                f"options {names[field]} and {name} mean the same, and have two values"
            )
        names.setdefault(field, name)
    return values


def take_fields(values: dict[str, Any], kind: Any, **defaults: Any) -> Any:
    """Take the fields of a named tuple out of the values, and return it."""
    return kind(**defaults | {name: values.pop(name) for name in kind._fields if name in values})


def take_client_options(values: dict[str, Any], **defaults: Any) -> ClientOptions:
    """Take the fields of a client out of the values. Raises: OptionError."""
    credentials: Credentials = take_fields(values, Credentials)
    if bool(credentials.access_key) != bool(credentials.secret_key):
        raise OptionError("options accessKey and secretKey go together")
    if credentials.security_token and not credentials.access_key:
        raise OptionError("option securityToken goes with accessKey and secretKey")
    tls = _take_tls(values)
    client: ClientOptions = take_fields(
        values, ClientOptions, **defaults, credentials=credentials, tls=tls
    )
    return client


def _take_tls(values: dict[str, Any]) -> Tls | None:
    """Take the fields of TLS out of the values, and check the files that they name."""
    if not values.pop("is_wanted", False):
        for word, name in _TLS_FIELDS.items():
            if name in values:
                raise OptionError(f"option {word} goes with tls.enable true")
        return None
    found: Tls = take_fields(values, Tls)
    if found.key_path and not found.cert_path:
        raise OptionError("option tls.client.keyPath goes with tls.client.certPath")
    try:
        make_context(found)
    except TlsRefused as error:
        raise OptionError(f"options tls.client: {error}") from error
    return found
