"""Code 11: messages of one queue from one offset on, now or when there are any.

A pull goes through three steps. ``_admit`` checks group, topic, queue and subscription, in
4.9.3's order and with its codes. The store is asked without waiting for the disk, and by a pool
thread if that is not enough. ``_answer`` turns what was found into a code, holds the pull if it
may wait, and takes over the offset that the client commits with it.

A held pull that was woken goes through all of it again, because permissions and subscriptions
may have changed meanwhile; it commits no offset. If its deadline has not come and there was nothing
for it, it is held again: where it was when its queue has no more, behind what it does not want when
that is all that came.

    status of the store                            code
    FOUND                                          SUCCESS
    NO_MATCHED_MESSAGE, MESSAGE_WAS_REMOVING       PULL_RETRY_IMMEDIATELY
    OFFSET_OVERFLOW_ONE, OFFSET_FOUND_NULL         PULL_NOT_FOUND, which may wait
    NO_MESSAGE_IN_QUEUE, NO_MATCHED_LOGIC_QUEUE    PULL_NOT_FOUND from offset 0, else as below
    OFFSET_TOO_SMALL, OFFSET_OVERFLOW_BADLY        PULL_OFFSET_MOVED; on a slave, which corrects
                                                   nobody, PULL_RETRY_IMMEDIATELY

Source: org.apache.rocketmq.broker.processor.PullMessageProcessor (4.9.3). There whoever wakes has
looked at the filter, by the properties too (PullRequestHoldService#notifyMessageArriving), and the
look every five seconds, which has not, wakes in vain: then the client is answered without messages.
Here whoever wakes knows of tags at most, and a pull that was woken looks for itself.
"""

from functools import partial

import msgspec

from wakelog.broker.decision import Channel, Outcome, ReadAhead, RunInPool
from wakelog.broker.held_requests import HeldRequest
from wakelog.broker.names import FAQ_HINT
from wakelog.broker.processors.offset_moved import write_offset_moved_event
from wakelog.broker.processors.pull_filter import PullFilter, find_filter
from wakelog.broker.state import BrokerState
from wakelog.protocol.bodies import SubscriptionGroupConfig
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.ext_fields import read_header
from wakelog.protocol.headers.pull import PullMessageRequestHeader
from wakelog.protocol.sys_flag import PULL_COMMIT_OFFSET, PULL_SUSPEND, is_readable
from wakelog.storage.read.read_ahead_windows import WINDOW_BYTES
from wakelog.storage.read.reader import GetResult, GetStatus

SUSPEND_MS_MAX = 600_000  # clients ask for 15 to 20 s and give up after 30 s

CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.NO_MATCHED_LOGIC_QUEUE: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.NO_MESSAGE_IN_QUEUE: ResponseCode.PULL_OFFSET_MOVED,
}
"""Response code by status; the last two are PULL_NOT_FOUND when offset 0 was asked for."""

_EMPTY_QUEUE = (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE)

assert CODES.keys() == set(GetStatus)


class _Pull(msgspec.Struct):
    """One pull under way."""

    request: RemotingCommand
    channel: Channel
    header: PullMessageRequestHeader
    group: SubscriptionGroupConfig
    wanted: PullFilter
    held: HeldRequest | None


def pull_message(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Answer a pull that has just come."""
    return _run(state, request, channel, now_ms, None)


def resume_pull(state: BrokerState, held: HeldRequest, now_ms: int) -> Outcome:
    """Answer a pull that was held, or hold it again if it was woken in vain before its deadline."""
    return _run(state, held.request, held.channel, now_ms, held)


def _run(
    state: BrokerState,
    request: RemotingCommand,
    channel: Channel,
    now_ms: int,
    held: HeldRequest | None,
) -> Outcome:
    pull = _admit(state, request, channel, now_ms, held)
    header = pull.header
    read = partial(
        state.store.get_message,
        header.topic,
        header.queue_id,
        header.queue_offset,
        max(header.max_msg_nums, 0),
        match=None if pull.wanted.codes is None else pull.wanted.codes.__contains__,
        match_record=pull.wanted.match_record,
        match_unit=pull.wanted.match_unit,
    )
    result = read(blocking=False)
    if result is None:
        return RunInPool(partial(read, blocking=True), partial(_answer, state, pull))
    return _answer(state, pull, result, now_ms)


def _admit(
    state: BrokerState,
    request: RemotingCommand,
    channel: Channel,
    now_ms: int,
    held: HeldRequest | None,
) -> _Pull:
    """Check that the pull may be served. Raises: RemoteProtocolError with the code that says no."""
    header = read_header(PullMessageRequestHeader, request.ext_fields)
    if not is_readable(state.config.broker_permission):
        raise RemoteProtocolError(
            ResponseCode.NO_PERMISSION,
            f"the broker[{state.config.broker_ip1}] pulling message is forbidden",
        )
    group = state.groups.find(header.consumer_group, now_ms)
    if group is None:
        raise RemoteProtocolError(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"subscription group [{header.consumer_group}] does not exist, {FAQ_HINT}",
        )
    if not group.consume_enable:
        raise RemoteProtocolError(
            ResponseCode.NO_PERMISSION,
            f"subscription group no permission, {header.consumer_group}",
        )
    _check_queue(state, header, channel)
    wanted = find_filter(state, header, group)
    return _Pull(request, channel, header, group, wanted, held)


def _check_queue(state: BrokerState, header: PullMessageRequestHeader, channel: Channel) -> None:
    topic = state.topics.get(header.topic)
    if topic is None:
        raise RemoteProtocolError(
            ResponseCode.TOPIC_NOT_EXIST,
            f"topic[{header.topic}] not exist, apply first please! {FAQ_HINT}",
        )
    if not is_readable(topic.perm):
        raise RemoteProtocolError(
            ResponseCode.NO_PERMISSION, f"the topic[{header.topic}] pulling message is forbidden"
        )
    if not 0 <= header.queue_id < topic.read_queue_nums:
        raise RemoteProtocolError(
            ResponseCode.SYSTEM_ERROR,
            f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
            f"topicConfig.readQueueNums:[{topic.read_queue_nums}] "
            f"consumer:[/{channel.remote_host}:{channel.remote_port}]",
        )


def _answer(state: BrokerState, pull: _Pull, result: GetResult, now_ms: int) -> Outcome:
    header = pull.header
    code = CODES[result.status]
    if header.queue_offset == 0 and result.status in _EMPTY_QUEUE:
        code = ResponseCode.PULL_NOT_FOUND
    broker_id = _suggested_broker_id(state, pull.group, result)
    if code is ResponseCode.PULL_OFFSET_MOVED:
        if state.is_slave and not state.store_config.offset_check_in_slave:
            code, broker_id = ResponseCode.PULL_RETRY_IMMEDIATELY, pull.group.broker_id
        else:
            write_offset_moved_event(state, header, result.next_begin_offset, now_ms)
    wants_commit = pull.held is None and header.sys_flag & PULL_COMMIT_OFFSET
    if wants_commit and header.commit_offset is not None and not state.is_slave:
        state.offsets.commit(
            header.consumer_group, header.topic, header.queue_id, header.commit_offset
        )
    note = _hold(state, pull, result, code, now_ms)
    if note is not None:
        return note
    body = b""
    if code is ResponseCode.SUCCESS:
        body = b"".join(result.frames)
        state.traffic.count_get(header.topic, header.consumer_group, result.count, len(body))
        _read_ahead(state, result)
    fields = {
        "suggestWhichBrokerId": str(broker_id),
        "nextBeginOffset": str(result.next_begin_offset),
        "minOffset": str(result.min_offset),
        "maxOffset": str(result.max_offset),
    }
    return answer(pull.request, code, result.status.value, fields, body)


def _read_ahead(state: BrokerState, result: GetResult) -> None:
    wanted = state.read_ahead_windows.next_wanted(
        result.physical_offsets[-1], result.fall_behind_bytes
    )
    if wanted is not None:
        state.instructions.append(ReadAhead(wanted, WINDOW_BYTES))


def _suggested_broker_id(
    state: BrokerState, group: SubscriptionGroupConfig, result: GetResult
) -> int:
    if not state.config.slave_read_enable:
        return 0
    return group.which_broker_when_consume_slowly if result.suggest_slave else group.broker_id


def _hold(
    state: BrokerState, pull: _Pull, result: GetResult, code: ResponseCode, now_ms: int
) -> Outcome:
    """Keep the pull until its queue grows or its time is over; None if it is to be answered."""
    if pull.held is not None:
        return _hold_again(state, pull.held, result, code, now_ms)
    header, config = pull.header, state.config
    if code is not ResponseCode.PULL_NOT_FOUND or not header.sys_flag & PULL_SUSPEND:
        return None
    wait_ms = header.suspend_timeout_millis
    if not config.long_polling_enable:
        wait_ms = config.short_polling_time_mills
    if wait_ms <= 0:
        return None
    return state.held.hold(
        pull.request,
        pull.channel,
        topic=header.topic,
        queue_id=header.queue_id,
        queue_offset=header.queue_offset,
        held_ms=now_ms,
        deadline_ms=now_ms + min(wait_ms, SUSPEND_MS_MAX),
        codes=pull.wanted.codes,
    )


def _hold_again(
    state: BrokerState, held: HeldRequest, result: GetResult, code: ResponseCode, now_ms: int
) -> Outcome:
    """Keep a pull that was woken in vain, None if it has found something or waited long enough."""
    if held.is_over(now_ms):
        return None
    if code is ResponseCode.PULL_NOT_FOUND:
        return state.held.put_back(held)
    looked_at_all = result.next_begin_offset >= result.max_offset
    if result.status is GetStatus.NO_MATCHED_MESSAGE and looked_at_all:
        return state.held.put_back(held, queue_offset=result.next_begin_offset)
    return None
