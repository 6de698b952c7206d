"""Names: the topic and the group of a queue, and the topic of an exchange.

RocketMQ accepts letters, digits, `_`, `-`, `|` and `%` in a topic; `%` stands for a namespace and
for the topics of retries. Frameworks have dots, `@` and anything else in names. So every other
byte of a name in UTF-8 is `_x` and two hexadecimal digits, and so is the `_` of a `_x` that was
there. A name that becomes too long ends with a hash.

    celery            kombu-celery
    mail.out          kombu-mail_x2Eout
    exchange events   kombu_xchange-events

Invariants: two names have two topics, but for a collision of hashes.
"""

import hashlib
import re
from typing import Final

LENGTH_MAX: Final = 100
"""In characters. A topic may have 127, of which `%RETRY%` and a namespace need some."""
HASH_DIGITS: Final = 16

_OTHERS: Final = re.compile(rb"_(?=x)|[^A-Za-z0-9_-]")
_EXCHANGE: Final = "_xchange-"  # no queue's: what follows `_x` there is two capital digits
_BOUND: Final = "_xby-"
_HASHED: Final = "_xh"  # likewise


def topic_of_queue(prefix: str, queue: str) -> str:
    """Return the topic of a queue, which is the name of its group, too."""
    return _bounded(prefix + _encoded(queue))


def topic_of_exchange(prefix: str, exchange: str) -> str:
    """Return the topic of what is sent to an exchange, and not to a queue that is known."""
    return _bounded(prefix.removesuffix("-") + _EXCHANGE + _encoded(exchange))


def group_of_binding(prefix: str, queue: str, exchange: str) -> str:
    """Return the group by which a queue reads the topic of an exchange."""
    return _bounded(f"{prefix}{_encoded(queue)}{_BOUND}{_encoded(exchange)}")


def _encoded(name: str) -> str:
    return _OTHERS.sub(lambda found: b"_x%02X" % found[0][0], name.encode()).decode()


def _bounded(name: str) -> str:
    if len(name) <= LENGTH_MAX:
        return name
    digits = hashlib.sha256(name.encode()).hexdigest()[:HASH_DIGITS]
    return name[: LENGTH_MAX - len(_HASHED) - HASH_DIGITS] + _HASHED + digits
