"""A run of code 310 or 320: the plain sends among successive ones are stored together.

A send is plain if its topic exists and takes messages of clients, if its queue is there, and if it
is neither delayed nor half. `store_run` stores plain sends up to the first other one. That one is
for `send.send_message`, and so is every send while the store takes none.

Log, responses and counts are as those of `send.send_message`; a test compares them.

Source: org.apache.rocketmq.broker.processor.SendMessageProcessor (4.9.3).
"""

from collections.abc import Iterable

from wakelog.broker.decision import AwaitFlush
from wakelog.broker.names import NO_SEND_TOPICS
from wakelog.broker.processors.send import added_sys_flag, trace_fields
from wakelog.broker.state import BrokerState
from wakelog.network.handler import Channel
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.message_id import message_id_begin
from wakelog.protocol.names import RETRY_PREFIX
from wakelog.protocol.record import record_encoder
from wakelog.protocol.run_responses import RunResponses
from wakelog.protocol.send_run import RunRules, SendRun
from wakelog.storage.log.queue_offsets import QueueKey


def store_run(
    state: BrokerState, run: SendRun, channel: Channel, now_ms: int
) -> RemotingCommand | AwaitFlush | None:
    """Take and store the next sends of a run that are plain, and return their responses.

    None if no response is due.
    """
    if now_ms < state.config.start_accept_send_request_time_stamp:
        return None
    rules = RunRules(
        record_encoder((channel.remote_host, channel.remote_port), state.store_host),
        state.config.broker_cluster_name,
        state.puts_may_wait,
    )
    sys_flags = _added_sys_flags(state, run.queues)
    stored = state.store.put_run(run, sys_flags, rules, now_ms)
    if stored is None:
        return None
    placed = stored.placed
    run.taken_count += placed.sends_count
    for topic, (sends_count, count, size_bytes) in stored.sizes.items():
        state.traffic.count_put(topic, count, size_bytes, calls_count=sends_count)
    if not placed.responses_count:
        return None
    responses = RunResponses(
        code=int(ResponseCode.SUCCESS),
        ext_fields=trace_fields(state),
        id_begin=message_id_begin(*state.store_host),
        stored=placed.stored,
        count=placed.responses_count,
    )
    return state.when_kept(responses, state.store.log.end_offset, now_ms, None)


def _added_sys_flags(state: BrokerState, queues: Iterable[QueueKey]) -> list[int | None]:
    """Return what the messages of each queue get; None if sends to it are not plain."""
    flags: list[int | None] = []
    of_topics: dict[str, tuple[int, int]] = {}
    for topic, queue_id in queues:
        found = of_topics.get(topic)
        if found is None:
            found = of_topics[topic] = _plain_queues(state, topic)
        queues_count, flag = found
        flags.append(flag if 0 <= queue_id < queues_count else None)
    return flags


def _plain_queues(state: BrokerState, topic: str) -> tuple[int, int]:
    """Return how many queues of a topic take plain sends, and what their messages get."""
    config = state.topics.get(topic)
    if config is None or config.order or topic in NO_SEND_TOPICS or topic.startswith(RETRY_PREFIX):
        return 0, 0
    return max(config.write_queue_nums, config.read_queue_nums), added_sys_flag(config)
