"""The RocketMQ client. It works with wakelog and with any RocketMQ 4.x.

Read in this order:

    producer consumer sync                      what users send and receive with; without asyncio
    errors options plain messages received      what they give and get
    codecs typed retry_policy                   values of a type in place of bodies
    instance route attempts clocks              what every client has; when a call is made again
    sender queue_choice send_command receipts   one request with messages, and its response
    send_buffer lanes plain_messages            messages of many callers, together in requests
    lone_sender loop_thread                     a send without the loop; the loop of `sync`
    transactions requests delays unique_ids     half messages, replies, delay levels, ids
    group_member group_calls allocation         which queues a consumer has
    queue_reader process_queue inbox            what was pulled, and what comes next
    taken_ahead offset_stores offset_commits    what the user has; how far the user has come
    consumer_arguments consumer_message         topics with filters; what is done with a message
    consumer_questions late_topics              what brokers ask; topics that are not there yet
    pulled_rows arrow arrow_columns arrow_tables    messages as tables
    trace consumer_trace trace_notes appended   what became of a message; properties of tools
    admin broker_calls configuration access     what tools ask of brokers and name servers
    queue_puller message_search message_filter  messages for a person
    message_life tracks waiting failure_lines   what became of one; what waits; repeated failures

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
