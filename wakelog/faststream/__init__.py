"""A FastStream broker for RocketMQ: `from wakelog.faststream import RocketMQBroker`.

    fields.py                      what users give by keyword, once for all
    broker.py, router.py           where subscribers and publishers are declared
    subscriber.py, bad_body.py     the way in: one consumer each, and what no decoder can read
    publisher.py, producer.py      the way out
    message.py, response.py        what functions get, and what they return
    config.py                      the clients of a broker, and its logger
    asyncapi.py, annotations.py    documents, and arguments of functions
    testing.py                     applications without a RocketMQ

It needs the extra `faststream`. FastStream has no public base for brokers of others: this package
stands on `faststream._internal` of 0.7, which is why the extra names that version.

Invariants: it reaches RocketMQ by `wakelog.client` alone, so that it works with any 4.x.
"""

from faststream import TestApp

from wakelog.client import ConsumerMessage, Tls
from wakelog.faststream.annotations import RocketMQMessage
from wakelog.faststream.asyncapi import AsyncAPI
from wakelog.faststream.broker import RocketMQBroker
from wakelog.faststream.response import RocketMQPublishCommand, RocketMQResponse
from wakelog.faststream.router import RocketMQPublisher, RocketMQRoute, RocketMQRouter
from wakelog.faststream.testing import TestRocketMQBroker

RocketMQPublishMessage = RocketMQResponse
"""The same under the name that `publish_batch` suggests."""

__all__ = [
    "AsyncAPI",
    "ConsumerMessage",
    "RocketMQBroker",
    "RocketMQMessage",
    "RocketMQPublishCommand",
    "RocketMQPublishMessage",
    "RocketMQPublisher",
    "RocketMQResponse",
    "RocketMQRoute",
    "RocketMQRouter",
    "TestApp",
    "TestRocketMQBroker",
    "Tls",
]
