"""Payload: kombu's message as the body of a RocketMQ message, and back.

The body is kombu's JSON, as in its other transports: `body` in base64, `properties`, `headers`,
`content-type`, `content-encoding`. One name is added: `put_in` has the queues into whose topics the
same message was put, beside the one of the exchange.

What another producer sent is refused here, before it reaches a worker.
"""

import binascii
from base64 import b64decode
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from kombu.utils.json import dumps, loads

from wakelog.tasks.reader import NoTask

Payload = dict[str, Any]

PUT_IN: Final = "put_in"
ENCODINGS: Final = ("base64", "utf-8", "", None)


def encode(payload: Payload) -> bytes:
    """Return the body. Raises: what kombu's JSON raises for a value that is none."""
    return bytes(dumps(payload).encode())


def decode(body: bytes) -> Payload:
    """Return a checked payload. Raises: NoTask, which says what is missing."""
    try:
        payload = _dict(loads(body), "the body")
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise NoTask(f"no JSON of kombu: {error}") from None
    properties = _dict(payload.get("properties"), "properties")
    info = _dict(properties.get("delivery_info"), "properties.delivery_info")
    _dict(payload.setdefault("headers", {}), "headers")
    if not isinstance(info.get("routing_key", ""), str):
        raise NoTask("properties.delivery_info.routing_key is no text")
    if not isinstance(payload.get(PUT_IN, []), list):
        raise NoTask(f"{PUT_IN} is no list")
    encoding = properties.get("body_encoding")
    if encoding not in ENCODINGS:
        raise NoTask(f"the encoding {encoding!r} is unknown")
    _check_text(payload.get("body"), encoding)
    return payload


def _dict(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise NoTask(f"{name} is no object of JSON")
    return value


def _check_text(text: object, encoding: str | None) -> None:
    if not isinstance(text, str | None):
        raise NoTask("body is no text")
    if encoding == "base64":
        try:
            b64decode(text or "", validate=True)
        except (binascii.Error, ValueError) as error:
            raise NoTask(f"body is no base64: {error}") from None


def due_ms_of(payload: Payload) -> int:
    """Return when a message of Celery is due by its header `eta`, in ms; 0 for at once.

    An eta without a time zone is left to the worker: it knows which one is meant.
    """
    eta = payload.get("headers", {}).get("eta")
    try:
        moment = datetime.fromisoformat(eta) if isinstance(eta, str) else None
    except ValueError:
        return 0
    if moment is None or moment.tzinfo is None:
        return 0
    return max(round(moment.timestamp() * 1000), 0)


def key_of(payload: Payload) -> str:
    """Return the id of a task, by which tools find its message; "" without one."""
    return _plain(payload.get("headers", {}), "id")


def tags_of(payload: Payload) -> str:
    """Return the name of a task if it can be a tag, else ""."""
    name = _plain(payload.get("headers", {}), "task")
    return "" if "|" in name else name


def _plain(headers: Mapping[str, object], name: str) -> str:
    value = headers.get(name)
    is_plain = isinstance(value, str) and value.isascii() and value.isprintable()
    return str(value) if is_plain and " " not in str(value) else ""
