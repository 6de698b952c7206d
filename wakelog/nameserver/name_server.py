"""NameServer: the object a shell drives; every request, tick and closed connection goes through it.

The shell owns the clock, the sockets and the file. It calls one of the methods below on one
thread, acts on what came back and drains ``take_instructions``. Requests are dispatched by the
table in ``processors``.

    at start      load(kvConfig), then process requests
    each request  process(...), take_instructions()
    by time       tick(now_ms) at next_tick_ms()

Nothing of the route is kept over a restart: within 30 s every broker has registered again.

Source: org.apache.rocketmq.namesrv.NamesrvController (4.9.3).
"""

from collections import Counter
from collections.abc import Callable

import msgspec

from wakelog.nameserver.config import NameServerSettings
from wakelog.nameserver.decision import Channel, Instruction
from wakelog.nameserver.kv_config import FILE_NAME, KvConfig, KvConfigStatistics
from wakelog.nameserver.processors import PROCESSORS, NameServerState, unsupported
from wakelog.nameserver.route_table import RouteStatistics, RouteTable
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.storage.errors import IllegalConfiguration

FIRST_SCAN_MS = 5_000
SCAN_MS = 10_000

UNKNOWN_CODE = -1
"""Under which requests without a processor are counted: made-up codes must not grow a table."""


class NameServerStatistics(msgspec.Struct, frozen=True):
    """What a name server can say about itself."""

    requests_by_code: dict[int, int]
    routes: RouteStatistics
    kv_config: KvConfigStatistics


class NameServer:
    """One name server."""

    def __init__(self, settings: NameServerSettings, now_ms: int) -> None:
        """Know no broker and no value; ``load`` then reads the file."""
        self._instructions: list[Instruction] = []
        self._state = NameServerState(
            settings, KvConfig(self._instructions), RouteTable(self._instructions)
        )
        self._request_counts: Counter[int] = Counter()
        self._scan_due_ms = now_ms + FIRST_SCAN_MS

    def take_instructions(self) -> list[Instruction]:
        """Return what the shell has to do, in order, and forget it."""
        taken = list(self._instructions)
        self._instructions.clear()
        return taken

    def process(
        self, request: RemotingCommand, channel: Channel, now_ms: int
    ) -> RemotingCommand | None:
        """Answer one request; None if it is one-way."""
        processor = PROCESSORS.get(request.code)
        self._request_counts[UNKNOWN_CODE if processor is None else request.code] += 1
        try:
            if processor is None:
                response = unsupported(self._state, request)
            else:
                response = processor(self._state, request, channel, now_ms)
        except RemoteProtocolError as error:
            response = answer(request, error.code, error.remark)
        except IllegalConfiguration as error:
            response = answer(request, ResponseCode.SYSTEM_ERROR, str(error))
        return None if request.is_oneway else response

    def channel_closed(self, channel: Channel, now_ms: int) -> None:
        """Take the brokers of a closed connection out of the route."""
        self._state.routes.channel_closed(channel.id)

    def tick(self, now_ms: int) -> None:
        """Do what is due by time: take out the brokers that were not heard of."""
        # What is due in more than the time between two is of a clock that was set back since.
        if not now_ms < self._scan_due_ms <= now_ms + SCAN_MS:
            self._scan_due_ms = now_ms + SCAN_MS
            self._state.routes.expire(now_ms)

    def next_tick_ms(self) -> int:
        """Return when ``tick`` next has something to do."""
        return self._scan_due_ms

    def file_names(self) -> list[str]:
        """Return the stems of the files to load."""
        return [FILE_NAME]

    def load(self, name: str, text: str) -> None:
        """Take over the contents of a file.

        Raises: ValueError if the text is not what 4.9.3 or we would have written.
        """
        assert name == FILE_NAME
        self._state.kv_config.load(text)

    def snapshot(self, name: str) -> Callable[[], str]:
        """Copy a table and return what makes the text of its file; any thread may call that."""
        assert name == FILE_NAME
        return self._state.kv_config.snapshot()

    def statistics(self) -> NameServerStatistics:
        """Return the counters of this name server and of its tables."""
        return NameServerStatistics(
            requests_by_code=dict(self._request_counts),
            routes=self._state.routes.statistics(),
            kv_config=self._state.kv_config.statistics(),
        )

    def validate(self) -> None:
        """Assert the invariants of every table."""
        self._state.kv_config.validate()
        self._state.routes.validate()
