"""A run of code 310 or 320: the plain sends among successive ones are stored together.

A send is plain if its topic exists and takes messages of clients, if its queue is there, and if it
is neither delayed nor half. `store_run` stores plain sends up to the first other one. That one is
for `send.send_message`, and so is every send while the store takes none.

Log, responses and counts are as those of `send.send_message`; a test compares them.

Source: org.apache.rocketmq.broker.processor.SendMessageProcessor (4.9.3).
"""

from wakelog.broker.decision import AwaitFlush
from wakelog.broker.processors.send import trace_fields
from wakelog.broker.state import BrokerState
from wakelog.network.handler import Channel
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.message_id import message_id_begin
from wakelog.protocol.record import record_encoder
from wakelog.protocol.run_responses import RunResponses
from wakelog.protocol.send_run import RunRules, SendRun, placed_in


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
    stored = state.store.put_run(run, state.plain_queues.flags(run.queues), rules, now_ms)
    if stored is None:
        return None
    placed = stored.placed
    run.taken_count += placed.sends_count
    state.uncounted_runs.append((run, stored))
    if not placed.responses_count:
        return None
    responses = RunResponses(
        code=int(ResponseCode.SUCCESS),
        ext_fields=trace_fields(state),
        id_begin=message_id_begin(*state.store_host),
        stored=placed.stored,
        count=placed.responses_count,
    )
    if not state.puts_may_wait:
        return responses
    return state.when_kept(responses, state.store.log.end_offset, now_ms, None)


def count_runs(state: BrokerState, request_counts: dict[int, int]) -> None:
    """Count what was stored of runs since the last call: no response has to wait for that."""
    uncounted, state.uncounted_runs = state.uncounted_runs, []
    for run, stored in uncounted:
        request_counts[run.code] += stored.placed.sends_count
        state.store.count_run(stored)
        for (topic, _), count, size_bytes, sends_count in placed_in(run.queues, stored.queues):
            if count:
                state.traffic.count_put(topic, count, size_bytes, calls_count=sends_count)
