"""What the text of an option may be: each function reads one kind.

Invariants: a text that is none of its kind is a ValueError that says what the option takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from wakelog.broker.names import is_legal_group
from wakelog.network.errors import TlsRefused
from wakelog.network.signing import Credentials
from wakelog.network.tls import Tls, make_context
from wakelog.spark.errors import OptionError

_UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_TIMES: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE = re.compile(r"(\d+)\s*([bkmg]?)b?", re.IGNORECASE)
_TIME = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"[^\s,]+:(\d{1,5})")
_PORT_MAX: Final = 65_535
TLS_FIELDS: Final = {
    "tls.enable": "is_wanted",
    "tls.client.trustCertPath": "trust_path",
    "tls.client.certPath": "cert_path",
    "tls.client.keyPath": "key_path",
    "tls.client.keyPassword": "key_password",
    "tls.client.authServer": "checks_server",
    "tls.client.checkHost": "checks_host",
}
"""By the options' names, which are those of 4.9.3's TlsSystemConfig but for the last."""
TLS_FLAGS: Final = frozenset({"tls.enable", "tls.client.authServer", "tls.client.checkHost"})
BATCH_BYTES_MAX: Final = 1 << 30
"""Arrow counts a column's bytes with 31 bits, and a batch may be one record over."""


def read_text(text: str) -> str:
    """Take a text as it is."""
    return text


def read_flag(text: str) -> bool:
    """Read true or false."""
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def read_count(text: str) -> int:
    """Read a number above 0."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValueError("a number above 0")
    return int(text)


def read_number(text: str) -> int:
    """Read a number from 0 on."""
    if not text.strip().isdecimal():
        raise ValueError("a number")
    return int(text)


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
    """Read a time that passes, with its unit."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError("a time such as 500ms, 30s or 15m")
    return int(match[1]) * _TIMES[match[2].lower()]


def read_moment_ms(text: str) -> int:
    """Read milliseconds, or a time in ISO 8601, which is UTC if it has no zone of its own."""
    if re.fullmatch(r"-?\d+", text.strip()):
        return int(text)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError("milliseconds, or a time such as 2026-11-01T08:00:00Z") from None
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(zoned.timestamp() * 1000)


def one_of(*words: str) -> Callable[[str], str]:
    """Return what reads one of some words."""

    def read(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(" or ".join(words))
        return text.lower()

    return read


def read_names(text: str) -> tuple[str, ...]:
    """Read names with commas between."""
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def read_paths(text: str) -> str:
    """Read what Spark makes of `load` with a list, JSON, into the text of one path option."""
    try:
        found = msgspec.json.decode(text, type=list[str])
    except msgspec.DecodeError as error:
        raise ValueError("a JSON list of paths") from error
    return ",".join(found)


def read_topics(text: str) -> tuple[str, ...]:
    """Read names of topics: one at least, since none would mean all of them."""
    found = read_names(text)
    if not found:
        raise ValueError("names of topics, with commas between")
    return found


def read_tags(text: str) -> tuple[str, ...]:
    """Read a tag expression, as FilterAPI does: `*` or tags joined by `||`."""
    if text.strip() in ("", "*"):
        return ()
    return tuple(filter(None, (tag.strip() for tag in text.split("||"))))


def read_pattern(text: str) -> str:
    """Read a regular expression, as text."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from None
    return text


def read_expression(text: str) -> str:
    """Read a filter of SQL92, as text; what it is made of is imported for that alone."""
    from wakelog.filter.errors import IllegalExpression
    from wakelog.filter.sql92 import compile_filter

    try:
        compile_filter(text)
    except IllegalExpression as error:
        raise ValueError(f"an expression of SQL92 ({error.remark.splitlines()[0]})") from error
    return text


def read_addresses(text: str) -> tuple[str, ...]:
    """Read the addresses of name servers."""
    found = tuple(filter(None, (part.strip() for part in text.split(";"))))
    matches = [_ADDRESS.fullmatch(address) for address in found]
    if not found or not all(x is not None and 0 < int(x[1]) <= _PORT_MAX for x in matches):
        raise ValueError("HOST:PORT, several with semicolons")
    return found


def read_secret(text: str) -> str:
    """Read a key or a token; what is wrong with one is said without it."""
    if not text.strip():
        raise ValueError("something")
    return text


def read_credentials(fields: dict[str, Any]) -> Credentials:
    """Take out who asks. Raises: OptionError."""
    found = Credentials(*(fields.pop(name, "") for name in Credentials._fields))
    if bool(found.access_key) != bool(found.secret_key):
        raise OptionError("options accessKey and secretKey go together")
    if found.security_token and not found.access_key:
        raise OptionError("option securityToken goes with accessKey and secretKey")
    return found


def read_tls(fields: dict[str, Any]) -> Tls | None:
    """Take out how TLS is wanted, None for none; its files are looked at. Raises: OptionError."""
    given = {name: fields.pop(name) for name in TLS_FIELDS.values() if name in fields}
    if not given.pop("is_wanted", False):
        for word, name in TLS_FIELDS.items():
            if name in given:
                raise OptionError(f"option {word} goes with tls.enable true")
        return None
    found = Tls(**given)
    if found.key_path and not found.cert_path:
        raise OptionError("option tls.client.keyPath goes with tls.client.certPath")
    try:
        make_context(found)
    except TlsRefused as error:
        raise OptionError(f"options tls.client: {error}") from error
    return found


def read_group(text: str) -> str:
    """Read the name of a group of producers or consumers."""
    if not is_legal_group(text):
        raise ValueError("printable ASCII but for blanks, / and @, at most 255")
    return text
