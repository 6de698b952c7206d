"""KvConfig: values by namespace and key, kept in kvConfig.json.

The one namespace with a meaning is ORDER_TOPIC_CONFIG. A topic's value there lists the brokers of
an ordered topic with their queue counts, `broker:4;other:8`. Every broker that registers gets the
list of its topics. Clients get a topic's value if orderMessageEnable is on.

Invariants:
    - all names and values together have at most TEXT_BYTES_MAX bytes.
    - an encoded namespace equals a fresh encoding.

Source: org.apache.rocketmq.namesrv.kvconfig.KVConfigManager (4.9.3).
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from wakelog.protocol.bodies import KVConfigSerializeWrapper
from wakelog.protocol.body_codec import decode_file, encode_body
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.fastjson import dumps, loads
from wakelog.protocol.steps import Steps, batched

FILE_NAME = "kvConfig"

TEXT_BYTES_MAX = 2 * 1024 * 1024
"""A namespace travels in one frame of at most 16 MiB, and JSON may need six bytes for one.
4.9.3 has no limit, and any client may put a value."""

VALUES_PER_STEP = 512
"""Some 0.3 ms to encode them."""

Undo: TypeAlias = Callable[[], None] | None
"""Takes a change back that cannot be saved; None if it changed nothing."""


class KvConfig:
    """Values by namespace and key."""

    def __init__(self) -> None:
        self._table: dict[str, dict[str, str]] = {}
        self._text_bytes = 0
        self._encoded: dict[str, bytes] = {}
        self._change_count = 0

    def put(self, namespace: str, key: str, value: str) -> Undo:
        """Set a value. Raises: RemoteProtocolError if there is no room for it."""
        previous = self.get(namespace, key)
        if value == previous:
            return None
        grown = self._text_bytes + _size(value) - _size(previous or "")
        grown += _size(key) if previous is None else 0
        grown += _size(namespace) if namespace not in self._table else 0
        if grown > TEXT_BYTES_MAX:
            raise RemoteProtocolError(
                ResponseCode.SYSTEM_ERROR,
                f"the configuration would have {grown} bytes, at most {TEXT_BYTES_MAX} are kept",
            )
        is_new = namespace not in self._table
        self._text_bytes = grown
        self._table.setdefault(namespace, {})[key] = value
        self._forget_encoded(namespace)
        return partial(self._undo, namespace, key, value, previous, is_new)

    def get(self, namespace: str, key: str) -> str | None:
        """Return a value, None if there is none."""
        return self._table.get(namespace, {}).get(key)

    def delete(self, namespace: str, key: str) -> Undo:
        """Remove a value, if it is there; its namespace stays, even empty."""
        value = self._table.get(namespace, {}).pop(key, None)
        if value is None:
            return None
        self._text_bytes -= _size(key) + _size(value)
        self._forget_encoded(namespace)
        return partial(self._undo, namespace, key, None, value, False)

    def encoded(self, namespace: str) -> Steps[bytes | None]:
        """Return the body of a KVTable of `namespace`, kept until a value changes.

        None if the namespace never had a value.
        """
        body = self._encoded.get(namespace)
        values = self._table.get(namespace)
        if body is not None or values is None:
            return body
        change_count, parts = self._change_count, []
        for some in batched(values.items(), VALUES_PER_STEP):
            parts.append(dumps(dict(some)).strip(b"{}"))
            if len(some) == VALUES_PER_STEP:
                yield
        body = b'{"table":{' + b",".join(parts) + b"}}"
        if change_count == self._change_count:
            self._encoded[namespace] = body
        return body

    def snapshot(self) -> Callable[[], str]:
        """Copy the table; return a function that encodes the copy as kvConfig.json."""
        copy = {namespace: dict(values) for namespace, values in self._table.items()}
        return lambda: encode_body(KVConfigSerializeWrapper(copy)).decode()

    def load(self, text: str) -> None:
        """Read the contents of a file.

        Raises: ValueError if the text is not a configuration, or too long.
        """
        table = decode_file(KVConfigSerializeWrapper, text).config_table
        size = _table_size(table)
        if size > TEXT_BYTES_MAX:
            raise ValueError(f"{size} bytes of names and values, at most {TEXT_BYTES_MAX} are kept")
        self._table = table
        self._text_bytes = size
        self._encoded = {}
        self._change_count += 1

    def statistics(self) -> dict[str, int]:
        """Return the size of the table."""
        key_count = sum(map(len, self._table.values()))
        return {
            "namespace_count": len(self._table),
            "key_count": key_count,
            "text_bytes": self._text_bytes,
        }

    def validate(self) -> None:
        """Assert the invariants of the module."""
        assert self._text_bytes == _table_size(self._table)
        assert self._text_bytes <= TEXT_BYTES_MAX
        for namespace, body in self._encoded.items():
            assert loads(body) == {"table": self._table[namespace]}

    def _undo(
        self, namespace: str, key: str, ours: str | None, before: str | None, is_new: bool
    ) -> None:
        """Undo a change, unless another one came after it."""
        values = self._table[namespace]
        if values.get(key) != ours:
            return
        self._text_bytes += 0 if before is None else _size(before)
        self._text_bytes -= 0 if ours is None else _size(ours)
        if ours is None:
            self._text_bytes += _size(key)
        if before is not None:
            values[key] = before
        else:
            del values[key]
            self._text_bytes -= _size(key)
        if is_new and not values:
            del self._table[namespace]
            self._text_bytes -= _size(namespace)
        self._forget_encoded(namespace)

    def _forget_encoded(self, namespace: str) -> None:
        self._change_count += 1
        self._encoded.pop(namespace, None)


def _size(text: str) -> int:
    # A peer's JSON may have a lone surrogate; it is counted like any other text.
    return len(text.encode("utf-8", "surrogatepass"))


def _table_size(table: dict[str, dict[str, str]]) -> int:
    values = sum(
        _size(key) + _size(value) for part in table.values() for key, value in part.items()
    )
    return sum(map(_size, table)) + values
