"""Holds the headers of one module against the specification: their names on the wire and defaults.

A table has the class name and its fields, `name` optional, `name!` required: the columns of the
specification's sections 1.1 to 1.3. 4.9.3 marks a few more fields as required and still answers
requests without them: producerGroup and the default topic of a send with long names; how a pull
commits, waits and subscribes; the client id of an unregistration; defaultTopic and order of a
topic.
"""

from types import ModuleType

import msgspec
import pytest

from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.ext_fields import Header, read_header, to_ext_fields


def check_headers(module: ModuleType, table: dict[str, str]) -> None:
    """Assert that a module has exactly these headers, and that each reads and writes its fields."""
    types = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Header) and value is not Header
    }
    assert set(types) == set(table)
    for name, text in table.items():
        fields = msgspec.structs.fields(types[name])
        assert {f.encode_name + "!" * f.required for f in fields} == set(text.split()), name
        strings = {f.encode_name: "true" if f.type is bool else "7" for f in fields}
        assert to_ext_fields(read_header(types[name], strings)) == strings, name
        for field in fields:
            if field.required:
                absent = {key: value for key, value in strings.items() if key != field.encode_name}
                with pytest.raises(RemoteProtocolError, match=f"<{field.encode_name}> is null"):
                    read_header(types[name], absent)
