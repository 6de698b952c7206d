"""Properties that a tool adds to messages of a user, encoded, such as the context of a trace.

Invariants: a message that has one of them keeps its own, and gets none of the others. What would
make the properties too long for a record is left out.
"""

from contextvars import ContextVar
from typing import Final

from wakelog.protocol.properties import PROPERTIES_BYTES_MAX, decode_properties

APPENDED_BELOW: Final = 4_096
"""Characters of properties to which a tool's may be added without a look at their length."""
APPENDED_BYTES_MAX: Final = 8_192
"""Of what a tool adds, so that both fit into a record."""

APPENDED: Final[ContextVar[str]] = ContextVar("wakelog_appended", default="")
"""Encoded properties for each message of the call that runs in this context; a tool sets them.

They begin with the separator of properties, and have at most APPENDED_BYTES_MAX bytes.
"""


def with_appended(properties: str, appended: str) -> str:
    """Return encoded properties with those of a tool, which begin with a separator."""
    text = properties + appended
    is_long = len(text.encode()) > PROPERTIES_BYTES_MAX
    has = decode_properties(properties).keys() & decode_properties(appended).keys()
    return properties if is_long or has else text
