"""The RocketMQ client. It works with wakelog and with any RocketMQ 4.x.

    producer.py       Producer: what users send with
    consumer.py       Consumer: what users receive with
    errors.py         the errors, as a tree
    instance.py       what every client has: connections, routes, heartbeats
    sender.py, route.py, broker_calls.py, admin.py    what Producer and the tools stand on
    group_member.py   which queues a Consumer has; allocation, group_calls and queue_reader below it
    codecs.py, typed.py, retry_policy.py              values of a type in place of bodies
    inbox.py, process_queue.py, offset_stores.py      what was pulled, and how far the user has come

Spark's remote reader, its sink, `wakelog hello` and `wakelog admin` use it, too.

Invariants: of wakelog this package imports `network`, `protocol`, `filter`, `compiled` and the
modules for typed values and Arrow arrays. It knows neither Spark nor Ray.
"""

from wakelog.client.codecs import Codec, JsonCodec, MsgpackCodec
from wakelog.client.consumer import Consumer
from wakelog.client.consumer_arguments import Sql
from wakelog.client.consumer_message import ConsumerMessage
from wakelog.client.errors import ClientError, InvalidArgument, NoReply, NotAcknowledged
from wakelog.client.messages import Message
from wakelog.client.producer import Producer
from wakelog.client.receipts import Receipt
from wakelog.client.received import ReceivedMessage
from wakelog.client.retry_policy import RetryPolicy
from wakelog.client.transactions import Transaction, TransactionState
from wakelog.client.typed import BadBody, TypedConsumer, TypedMessage, TypedProducer
from wakelog.network.tls import Tls
from wakelog.protocol.bodies import TopicConfig
from wakelog.protocol.body_codec import MessageQueue

__all__ = [
    "BadBody",
    "ClientError",
    "Codec",
    "Consumer",
    "ConsumerMessage",
    "InvalidArgument",
    "JsonCodec",
    "Message",
    "MessageQueue",
    "MsgpackCodec",
    "NoReply",
    "NotAcknowledged",
    "Producer",
    "Receipt",
    "ReceivedMessage",
    "RetryPolicy",
    "Sql",
    "Tls",
    "TopicConfig",
    "Transaction",
    "TransactionState",
    "TypedConsumer",
    "TypedMessage",
    "TypedProducer",
]
