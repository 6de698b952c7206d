"""Code 11: messages of one queue from one offset on, now or when there are any.

A pull is checked (``_admit``), in 4.9.3's order and with its codes. The store is read without
waiting for the disk, and by a pool thread if that is not enough. Records that such a thread reads
are filtered in steps on the Broker's thread: a thread that computes would take Python from it.
``_finish`` turns the result into a code, holds the pull if it may wait, and commits the offset that
the client sent with it.

A held pull that was woken goes through all of it again, because permissions and subscriptions may
have changed; it commits no offset. Before its deadline, a pull that found nothing is held again: at
its old offset if its queue has no more, else after the messages that its filter refused.

Source: org.apache.rocketmq.broker.processor.PullMessageProcessor (4.9.3). There an arrival tests
the whole filter before it wakes a pull (PullRequestHoldService#notifyMessageArriving). The check
every five seconds does not, and then answers the client without messages. Here an arrival tests
tags at most, and the woken pull reads for itself.
"""

from functools import partial

import msgspec

from wakelog.broker.decision import Outcome, ReadAhead
from wakelog.broker.effects import FilterPlace, InPool, Work, rest_of
from wakelog.broker.error_response import LimitReached
from wakelog.broker.held_requests import HeldRequest
from wakelog.broker.names import FAQ_HINT, is_lmq
from wakelog.broker.processors.pull_filter import PullFilter, compile_expression, find_filter
from wakelog.broker.state import BrokerState
from wakelog.filter.record_filter import MatchRecord, match_in_steps
from wakelog.filter.sql92 import Sql92Filter
from wakelog.network.driver import NOW
from wakelog.network.request import Request
from wakelog.protocol.bodies import OffsetMovedEvent, SubscriptionGroupConfig, encode_body
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import answer
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.headers.pull import PullMessageRequestHeader
from wakelog.protocol.names import OFFSET_MOVED_EVENT
from wakelog.protocol.properties import DELAY, KEYS, TAGS, encode_properties
from wakelog.protocol.steps import Steps
from wakelog.protocol.sys_flag import (
    PULL_BY_BYTES,
    PULL_COMMIT_OFFSET,
    PULL_LARGE,
    PULL_SUSPEND,
    is_readable,
)
from wakelog.storage.errors import LacksVerdicts
from wakelog.storage.log.append import MessageDraft
from wakelog.storage.read.read_ahead_windows import WINDOW_BYTES
from wakelog.storage.read.reader import GetRequest, GetResult, GetStatus

SUSPEND_MS_MAX = 600_000  # clients ask for 15 to 20 s and give up after 30 s
WITHOUT_TIMEOUT_MS = 1_000
"""How long a pull is held that may wait, for no time: 4.9.3 holds it until it looks, up to 5 s. A
client that pulls in a loop would otherwise never pause."""

CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.NO_MESSAGE_IN_QUEUE: ResponseCode.PULL_OFFSET_MOVED,
}
"""Response code by status; the last one is PULL_NOT_FOUND when offset 0 was asked for."""

assert CODES.keys() == set(GetStatus)


class _Pull(msgspec.Struct):
    """One pull in progress."""

    request: Request[PullMessageRequestHeader]
    group: SubscriptionGroupConfig
    wanted: PullFilter
    held: HeldRequest | None


def pull_message(
    state: BrokerState,
    request: Request[PullMessageRequestHeader],
    held: HeldRequest | None = None,
) -> Outcome | Work:
    """Return messages, hold the pull, or read in the pool.

    held: the entry that a woken pull had in HeldRequests.
    """
    compiling = compile_expression(state, request.header)
    if compiling is not None:
        return _pull_when_compiled(compiling, state, request, held)
    pull = _admit(state, request, held)
    header = request.header
    store = state.store
    asked = GetRequest(
        header.topic,
        header.queue_id,
        header.queue_offset,
        max(header.max_msg_nums, 0),
        codes=pull.wanted.codes,
        blocking=False,
        match_record=pull.wanted.match_record,
        match_unit=pull.wanted.match_unit,
        by_bytes=header.sys_flag & PULL_BY_BYTES != 0,
        is_large=header.sys_flag & PULL_LARGE != 0,
        recent=store.recent.find(header.topic, header.queue_id),
    )
    result = None if pull.wanted.is_long else store.get_message(asked)
    if result is not None:
        return _finish(state, pull, result, request.now_ms)
    asked = asked._replace(blocking=True)
    if pull.wanted.match_record is None:
        return _read_in_pool(state, pull, InPool(partial(store.get_message, asked)))
    return _read_and_match(state, pull, asked, pull.wanted.match_record)


def _read_in_pool(state: BrokerState, pull: _Pull, read: InPool) -> Work:
    result = yield read
    return _finish(state, pull, result, (yield NOW))


def _read_and_match(state: BrokerState, pull: _Pull, asked: GetRequest, match: MatchRecord) -> Work:
    """Read in the pool, and filter between other requests, until no record lacks its verdict."""
    verdicts: dict[int, bool] = {}
    asked = asked._replace(match_record=None, verdicts=verdicts)
    give_back = yield FilterPlace()
    try:
        while True:
            try:
                result = yield InPool(partial(state.store.get_message, asked))
                break
            except LacksVerdicts as lacking:
                records = lacking.records
            passing = yield from match_in_steps(match, [*records.values()])
            verdicts.update(zip(records, passing, strict=True))
    finally:
        give_back()
    return _finish(state, pull, result, (yield NOW))


def _pull_when_compiled(
    compiling: Steps[Sql92Filter | None],
    state: BrokerState,
    request: Request[PullMessageRequestHeader],
    held: HeldRequest | None,
) -> Work:
    compiled = yield from compiling
    outcome = pull_message(state, request, held)
    del compiled  # until here it is in use, and so it is known
    return (yield from rest_of(outcome))


def _admit(
    state: BrokerState, request: Request[PullMessageRequestHeader], held: HeldRequest | None
) -> _Pull:
    """Check that the pull may be served. Raises: RemoteProtocolError with 4.9.3's code."""
    header = request.header
    if not is_readable(state.config.broker_permission):
        remark = f"the broker[{state.config.broker_ip1}] pulling message is forbidden"
        raise RemoteProtocolError(ResponseCode.NO_PERMISSION, remark)
    group = state.groups.find(header.consumer_group, request.now_ms)
    if group is None:
        remark = f"subscription group [{header.consumer_group}] does not exist, {FAQ_HINT}"
        raise RemoteProtocolError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    if not group.consume_enable:
        remark = f"subscription group no permission, {header.consumer_group}"
        raise RemoteProtocolError(ResponseCode.NO_PERMISSION, remark)
    _check_queue(state, request)
    return _Pull(request, group, find_filter(state, header, group), held)


def _check_queue(state: BrokerState, request: Request[PullMessageRequestHeader]) -> None:
    header, channel = request.header, request.channel
    topic = state.topics.get(header.topic)
    if topic is None:
        remark = f"topic[{header.topic}] not exist, apply first please! {FAQ_HINT}"
        raise RemoteProtocolError(ResponseCode.TOPIC_NOT_EXIST, remark)
    if not is_readable(topic.perm):
        remark = f"the topic[{header.topic}] pulling message is forbidden"
        raise RemoteProtocolError(ResponseCode.NO_PERMISSION, remark)
    if not 0 <= header.queue_id < topic.read_queue_nums:
        raise RemoteProtocolError(
            ResponseCode.SYSTEM_ERROR,
            f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
            f"topicConfig.readQueueNums:[{topic.read_queue_nums}] "
            f"consumer:[/{channel.remote_host}:{channel.remote_port}]",
        )
    store = state.store_config
    if is_lmq(header.topic) and store.enable_lmq and store.enable_multi_dispatch:
        _check_light_queues(state.store.light_queue_count, store.lmq_consume_queue_count_max)


def _check_light_queues(count: int, count_max: int) -> None:
    """Refuse pulls of all light queues if there are too many (fact 57)."""
    if count > count_max:
        raise RemoteProtocolError(
            ResponseCode.SYSTEM_ERROR,
            f"store getMessage return null: there are {count} light queues, and "
            f"maxLmqConsumeQueueNum={count_max}",
        )


def _finish(state: BrokerState, pull: _Pull, result: GetResult, now_ms: int) -> Outcome:
    header = pull.request.header
    code = CODES[result.status]
    if header.queue_offset == 0 and result.status is GetStatus.NO_MESSAGE_IN_QUEUE:
        code = ResponseCode.PULL_NOT_FOUND
    broker_id = _suggested_broker_id(state, pull.group, result)
    if code is ResponseCode.PULL_OFFSET_MOVED:
        if state.is_slave and not state.store_config.offset_check_in_slave:
            code, broker_id = ResponseCode.PULL_RETRY_IMMEDIATELY, pull.group.broker_id
        else:
            _write_offset_moved_event(state, header, result.next_begin_offset, now_ms)
    wants_commit = pull.held is None and header.sys_flag & PULL_COMMIT_OFFSET
    if wants_commit and header.commit_offset is not None and not state.is_slave:
        _commit(state, header, header.commit_offset)
    note = _hold(state, pull, result, code, now_ms)
    if note is not None:
        return note
    body = b""
    if code is ResponseCode.SUCCESS:
        body = result.frames[0] if len(result.frames) == 1 else b"".join(result.frames)
        state.traffic.count_get(
            header.topic,
            header.consumer_group,
            result.count,
            len(body),
            queue_id=header.queue_id,
            latency_ms=max(0, now_ms - pull.request.now_ms),
        )
        if state.config.disable_consume_if_consumer_read_slowly:
            state.slow_readers.note(
                header.consumer_group,
                header.topic,
                header.queue_id,
                behind_bytes=result.fall_behind_bytes,
                limit_bytes=state.config.consumer_fallbehind_threshold,
            )
        wanted = state.read_ahead_windows.next_wanted(
            result.last_physical_offset, result.fall_behind_bytes
        )
        if wanted is not None:
            state.instructions.append(ReadAhead(wanted, WINDOW_BYTES))
    fields = {
        "suggestWhichBrokerId": str(broker_id),
        "nextBeginOffset": str(result.next_begin_offset),
        "minOffset": str(result.min_offset),
        "maxOffset": str(result.max_offset),
    }
    return answer(pull.request.command, code, result.status.value, fields, body)


def _write_offset_moved_event(
    state: BrokerState, header: PullMessageRequestHeader, offset_new: int, now_ms: int
) -> None:
    """Put an event about a pull whose offset a master corrects; a refusing store loses it.

    Operators watch this topic to find consumers that lost messages.
    """
    group = header.consumer_group
    queue = MessageQueue(header.topic, state.config.broker_name, header.queue_id)
    draft = MessageDraft(
        topic=OFFSET_MOVED_EVENT,
        queue_id=0,
        body=encode_body(OffsetMovedEvent(group, queue, header.queue_offset, offset_new)),
        # 4.9.3 writes level 0 for a message that is not delayed.
        properties_text=encode_properties({TAGS: group, KEYS: group, DELAY: "0"}),
        born_timestamp_ms=now_ms,
        born_host=state.store_host,
        store_host=state.store_host,
    )
    state.store.put_message(draft, now_ms)


def _commit(state: BrokerState, header: PullMessageRequestHeader, offset: int) -> None:
    """Commit the offset of a pull; at the limit of the table the pull goes on without it."""
    try:
        state.offsets.commit(header.consumer_group, header.topic, header.queue_id, offset)
    except LimitReached as error:
        state.log_refusal("limit reached", error, RequestCode.PULL_MESSAGE)


def _suggested_broker_id(
    state: BrokerState, group: SubscriptionGroupConfig, result: GetResult
) -> int:
    if not state.config.slave_read_enable:
        return 0
    return group.which_broker_when_consume_slowly if result.suggest_slave else group.broker_id


def _hold(
    state: BrokerState, pull: _Pull, result: GetResult, code: ResponseCode, now_ms: int
) -> Outcome:
    """Hold the pull until its queue grows or its deadline; None if it gets a response now."""
    if pull.held is not None:
        return _hold_again(state, pull.held, result, code, now_ms)
    header, config = pull.request.header, state.config
    if code is not ResponseCode.PULL_NOT_FOUND or not header.sys_flag & PULL_SUSPEND:
        return None
    wait_ms = header.suspend_timeout_millis
    if not config.long_polling_enable:
        wait_ms = config.short_polling_time_mills
    if wait_ms <= 0:
        wait_ms = WITHOUT_TIMEOUT_MS
    return state.held.hold(
        pull.request,
        held_ms=now_ms,
        deadline_ms=now_ms + min(wait_ms, SUSPEND_MS_MAX),
        codes=pull.wanted.codes,
        wanted=pull.wanted,
    )


def _hold_again(
    state: BrokerState, held: HeldRequest, result: GetResult, code: ResponseCode, now_ms: int
) -> Outcome:
    """Hold a woken pull again; None if it found something or its time is over."""
    if held.is_over(now_ms):
        return None
    if code is ResponseCode.PULL_NOT_FOUND:
        return state.held.put_back(held)
    read_all = result.next_begin_offset >= result.max_offset
    if result.status is GetStatus.NO_MATCHED_MESSAGE and read_all:
        return state.held.put_back(held, queue_offset=result.next_begin_offset)
    return None
