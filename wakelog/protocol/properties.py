"""The properties string of a message: `name 0x01 value 0x02 name 0x01 value`.

A producer sends it in its request header. The broker decodes it, changes a few names and encodes it
again, so the stored order is that of a Java HashMap. 4.9.3 writes no separator after the last pair.
Other releases and clients do, and both forms are read.

Invariants: decoding drops a pair whose name or value is empty, and never fails. Encoding keeps
every pair.

Source: org.apache.rocketmq.common.message.{MessageDecoder, MessageConst} and
org.apache.rocketmq.broker.processor.SendMessageProcessor (4.9.3)
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Final

from wakelog.protocol.java import iteration_order

NAME_VALUE_SEPARATOR: Final = "\x01"
PROPERTY_SEPARATOR: Final = "\x02"
KEY_SEPARATOR: Final = " "
PROPERTIES_BYTES_MAX: Final = 32767
"""The record's length field is a signed 16-bit number."""

PROPERTIES_READ_CHARACTERS_MAX: Final = 2 * PROPERTIES_BYTES_MAX
"""A longer text is refused unread; without its WAIT and its empty pairs it might have fitted."""

FORM_NAMES_MAX: Final = 32
"""A longer set of names is unusual, and its form is not kept."""
FORMS_REMEMBERED_MAX: Final = 256
"""Of the forms of sets of names; producers use a handful."""

KEYS: Final = "KEYS"
TAGS: Final = "TAGS"
WAIT: Final = "WAIT"
DELAY: Final = "DELAY"
RETRY_TOPIC: Final = "RETRY_TOPIC"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE_ID: Final = "REAL_QID"
TRANSACTION_PREPARED: Final = "TRAN_MSG"
PRODUCER_GROUP: Final = "PGROUP"
MIN_OFFSET: Final = "MIN_OFFSET"
MAX_OFFSET: Final = "MAX_OFFSET"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
RECONSUME_TIME: Final = "RECONSUME_TIME"
MSG_REGION: Final = "MSG_REGION"
TRACE_ON: Final = "TRACE_ON"
UNIQ_KEY: Final = "UNIQ_KEY"
INSTANCE_ID: Final = "INSTANCE_ID"
CORRELATION_ID: Final = "CORRELATION_ID"
MESSAGE_TYPE: Final = "MSG_TYPE"
TIME_TO_LIVE: Final = "TTL"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
CONSUME_START_TIME: Final = "CONSUME_START_TIME"
TRANSACTION_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
CHECK_IMMUNITY_TIME_IN_SECONDS: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
CLUSTER: Final = "CLUSTER"
INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"


def decode_properties(text: str | None) -> dict[str, str]:
    """Read a properties string; the last value of a repeated name counts."""
    properties: dict[str, str] = {}
    if text:
        for pair in text.split(PROPERTY_SEPARATOR):
            name, _, value = pair.partition(NAME_VALUE_SEPARATOR)
            if value and name:
                properties[name] = value
    return properties


def encode_properties(properties: Mapping[str, str]) -> str:
    """Write properties in 4.9.3's form: in HashMap order, no separator after the last."""
    return _join(properties, iteration_order(tuple(properties)))


def read_send_properties(text: str | None, cluster_name: str) -> tuple[dict[str, str], str]:
    """Decode a producer's properties and make the string that a single send stores.

    Returns:
        The properties with CLUSTER added, WAIT still among them because it is obeyed; and
        the string, in HashMap order, without WAIT.
    """
    properties = decode_properties(text)
    properties[CLUSTER] = cluster_name
    names = tuple(properties)
    if len(names) > FORM_NAMES_MAX:
        return properties, _join(properties, _stored_order(names))
    template, values_of = _stored_form(names)
    return properties, template % values_of(properties)


@lru_cache(maxsize=FORMS_REMEMBERED_MAX)
def _stored_form(names: tuple[str, ...]) -> tuple[str, Callable[[Mapping[str, str]], object]]:
    """Return the string that a single send stores, with %s for each value, and what gets these."""
    order = _stored_order(names)
    pairs = [f"{name.replace('%', '%%')}{NAME_VALUE_SEPARATOR}%s" for name in order]
    return PROPERTY_SEPARATOR.join(pairs), itemgetter(*order)


def _stored_order(names: tuple[str, ...]) -> list[str]:
    """Return the names that a single send stores, in order.

    4.9.3 removes WAIT from the map after CLUSTER is in it. WAIT has counted for the growth of the
    table, so the order is that of the map with it.
    """
    return [name for name in iteration_order(names) if name != WAIT]


def split_keys(keys: str) -> list[str]:
    """Split the KEYS property at single spaces; doubled spaces give no empty key."""
    return [key for key in keys.split(KEY_SEPARATOR) if key]


def _join(properties: Mapping[str, str], order: Iterable[str]) -> str:
    return PROPERTY_SEPARATOR.join(
        [f"{name}{NAME_VALUE_SEPARATOR}{properties[name]}" for name in order]
    )
