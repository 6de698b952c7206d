"""A run of code 310: the plain sends among successive ones are stored together.

A send is plain if its topic exists and takes messages of clients, if its queue is there, and if it
is neither delayed nor half. `store_run` stores plain sends up to the first other one. That one is
for `send.send_message`, and so is every send while the store takes none.

Log, responses and counts are as those of `send.send_message`; a test compares them.

Source: org.apache.rocketmq.broker.processor.SendMessageProcessor (4.9.3).
"""

from wakelog.broker.decision import AwaitFlush
from wakelog.broker.names import NO_SEND_TOPICS
from wakelog.broker.processors.send import send_sys_flag, trace_fields, when_kept
from wakelog.broker.state import BrokerState
from wakelog.network.handler import Channel
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import ONEWAY_FLAG, RemotingCommand
from wakelog.protocol.java import parse_boolean
from wakelog.protocol.message_id import create_message_id
from wakelog.protocol.names import RETRY_PREFIX
from wakelog.protocol.properties import (
    DELAY,
    PROPERTIES_READ_CHARACTERS_MAX,
    TRANSACTION_PREPARED,
    WAIT,
    read_send_properties,
)
from wakelog.protocol.record import record_encoder
from wakelog.protocol.run_responses import RunResponses
from wakelog.protocol.send_run import PlainHeader, SendRun
from wakelog.protocol.sys_flag import TRANSACTION_MASK
from wakelog.storage.log.append import PlainMessage


def store_run(
    state: BrokerState, run: SendRun, channel: Channel, now_ms: int
) -> RemotingCommand | AwaitFlush | None:
    """Take and store the next messages of a run that are plain, and return their responses.

    None if no response is due.
    """
    if now_ms < state.config.start_accept_send_request_time_stamp:
        return None
    sends = run.sends[run.taken_count :]
    messages: list[PlainMessage] = []
    for index, send in enumerate(sends, run.taken_count):
        message = _plain_message(state, send.header, run.body_of(index))
        if message is None:
            break
        messages.append(message)
    if not messages:
        return None
    encoder = record_encoder((channel.remote_host, channel.remote_port), state.store_host)
    places = state.store.put_run(messages, encoder, now_ms)
    run.taken_count += len(places)
    stored: list[tuple[int, int, str, int]] = []
    sizes: dict[str, list[int]] = {}
    for send, message, (offset, queue_offset, size) in zip(sends, messages, places, strict=False):
        topic, queue_id = message.key
        sizes.setdefault(topic, []).append(size)
        if not send.flag & ONEWAY_FLAG:
            message_id = create_message_id(*state.store_host, offset)
            stored.append((send.opaque, queue_id, message_id, queue_offset))
    for topic, each in sizes.items():
        state.traffic.count_put(topic, len(each), sum(each), calls_count=len(each))
    if not stored:
        return None
    responses = RunResponses(
        code=int(ResponseCode.SUCCESS), ext_fields=trace_fields(state), stored=stored
    )
    return when_kept(state, responses, state.store.log.end_offset, now_ms)


def _plain_message(
    state: BrokerState, header: PlainHeader, body: memoryview
) -> PlainMessage | None:
    """Return what the log has to store; None if the send is not plain."""
    topic, queue_id, text = header.topic, header.queue_id, header.properties or ""
    config = state.topics.get(topic)
    if (
        config is None
        or config.order
        or topic in NO_SEND_TOPICS
        or topic.startswith(RETRY_PREFIX)
        or not 0 <= queue_id < max(config.write_queue_nums, config.read_queue_nums)
        or header.sys_flag & TRANSACTION_MASK
        or len(text) > PROPERTIES_READ_CHARACTERS_MAX
    ):
        return None
    properties, stored = read_send_properties(text, state.config.broker_cluster_name)
    if DELAY in properties or TRANSACTION_PREPARED in properties:
        return None
    waits = state.is_sync_flush or state.is_sync_master
    if waits and not parse_boolean(properties.get(WAIT, "true")):
        return None  # its response does not wait for those of the others
    return PlainMessage(
        (topic, queue_id),
        body,
        stored.encode(),
        header.flag,
        send_sys_flag(header, config),
        header.born_timestamp,
        header.reconsume_times or 0,
    )
