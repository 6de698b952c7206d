"""NameServer: the object that a shell drives; all requests and ticks go through it.

The shell owns the clock, the sockets and the file. It loads ``tables``, calls the methods below on
one thread, acts on what they return, and then takes the instructions. A restart loses the route.
Within 30 s every broker has registered again.

Source: org.apache.rocketmq.namesrv.NamesrvController (4.9.3).
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from wakelog.nameserver.config import NameServerSettings, live_settings
from wakelog.nameserver.decision import CloseChannel, Instruction, NotAllowed
from wakelog.nameserver.kv_config import FILE_NAME, KvConfig
from wakelog.nameserver.processors import PROCESSORS, State, unsupported
from wakelog.nameserver.route_table import RouteTable
from wakelog.network.audit_line import AuditLine, audit_line
from wakelog.network.driver import Work
from wakelog.network.handler import Channel
from wakelog.network.refusals import failed
from wakelog.network.request import ADMINISTRATION, BodyTooLarge, Request
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.ext_fields import read_header
from wakelog.storage.errors import IllegalConfiguration
from wakelog.storage.live_settings import TABLE, LiveSettings

FIRST_SCAN_MS = 5_000
SCAN_MS = 10_000
REST_MS = 10
"""Until the scan goes on, if more brokers have expired than may leave at once."""

UNKNOWN_CODE = -1
"""Counts requests without a processor: made-up codes must not grow a table."""


CheckAdministrator: TypeAlias = Callable[[RemotingCommand, Channel, int], None]
"""Let administration by a channel pass, at a time in ms. Raises: RemoteProtocolError."""

LineOf: TypeAlias = Callable[[RemotingCommand | None], AuditLine]
"""The audit line of a request, by the response that leaves."""


class NameServer:
    """One name server."""

    def __init__(
        self, settings: NameServerSettings, now_ms: int, check_administrator: CheckAdministrator
    ) -> None:
        """Know no broker and no value; ``load`` then reads the file."""
        self._check_administrator = check_administrator
        self._refused_count = 0
        self._instructions: list[Instruction] = []
        self.live = live_settings(settings)
        self._state = State(
            settings.config,
            KvConfig(),
            RouteTable(self._instructions),
            self.live,
            self._instructions,
        )
        self.tables: dict[str, KvConfig | LiveSettings] = {
            TABLE: self.live,
            FILE_NAME: self._state.kv_config,
        }
        self._request_counts: Counter[int] = Counter()
        self._scan_due_ms = now_ms + FIRST_SCAN_MS

    def take_instructions(self) -> list[Instruction]:
        """Return the instructions in order, and clear the list."""
        taken = list(self._instructions)
        self._instructions.clear()
        return taken

    def process(
        self, command: RemotingCommand, channel: Channel, now_ms: int
    ) -> RemotingCommand | Work | None:
        """Handle one request; return its response, None if it is one-way, or the work for it."""
        processor, header = PROCESSORS.get(command.code), None
        self._request_counts[UNKNOWN_CODE if processor is None else command.code] += 1
        response: RemotingCommand | Work
        try:
            if processor is None:
                response = unsupported(self._state, command)
            else:
                if command.missing_body_bytes:
                    limit = self.body_bytes_max(command.code)
                    raise BodyTooLarge(command.missing_body_bytes, "bytes", limit)
                if processor.is_administration:
                    self._check(command, channel, now_ms)
                if len(command.body) > processor.unchecked_bytes_max:
                    processor.body.check(command.body)
                if processor.header is not None:
                    header = read_header(processor.header, command.ext_fields)
                request = Request(command, header, channel, now_ms)
                response = processor.handle(self._state, request)
        except (RemoteProtocolError, IllegalConfiguration) as error:
            response = failed(command, error, has_own_words=True)
        line: LineOf | None = None
        if processor is not None and processor.is_audited:
            line = partial(audit_line, command, header, channel, processor)
        if isinstance(response, RemotingCommand):
            return self._ended(command, response, line)
        return self._carry_out(command, response, line)

    def _carry_out(self, command: RemotingCommand, work: Work, line: LineOf | None) -> Work:
        """Do the work of a request, and answer what it raises."""
        response = None
        try:
            response = yield from work
        except (RemoteProtocolError, IllegalConfiguration) as error:
            response = failed(command, error, has_own_words=True)
        finally:
            response = self._ended(command, response, line)
        return response

    def _ended(
        self, command: RemotingCommand, response: RemotingCommand | None, line: LineOf | None
    ) -> RemotingCommand | None:
        """Have the line of a request written, if it has one, and return what leaves."""
        leaving = None if command.is_oneway else response
        if line is not None:
            self._instructions.append(line(leaving))
        return leaving

    def body_bytes_max(self, code: int) -> int:
        """Return how long the body of a request may be; a longer one need not be read."""
        processor = PROCESSORS.get(code)
        return (ADMINISTRATION if processor is None else processor.body).body_bytes_max

    def _check(self, command: RemotingCommand, channel: Channel, now_ms: int) -> None:
        try:
            self._check_administrator(command, channel, now_ms)
        except RemoteProtocolError as error:
            self._refused_count += 1
            self._instructions.append(NotAllowed(command.code, channel.remote_host, error.remark))
            if error.closes_connection:
                self._instructions.append(CloseChannel(channel.id))
            raise

    def channel_closed(self, channel: Channel) -> bool:
        """Remove some brokers of a closed connection from the route; True if it has more."""
        return self._state.routes.channel_closed(channel.id)

    def forget_some(self) -> bool:
        """Forget some topics of brokers that have left; return whether there is more to do."""
        return self._state.routes.forget_some()

    def tick(self, now_ms: int) -> None:
        """Do what is due by time: remove the brokers that stopped registering."""
        # A due time further ahead than one period means that the clock was set back.
        if not now_ms < self._scan_due_ms <= now_ms + SCAN_MS:
            has_more = self._state.routes.expire(now_ms)
            self._scan_due_ms = now_ms + (REST_MS if has_more else SCAN_MS)

    def next_tick_ms(self) -> int:
        """Return when ``tick`` next has something to do."""
        return self._scan_due_ms

    def load(self, name: str, text: str) -> None:
        """Read the contents of a file.

        Raises: ValueError if neither 4.9.3 nor wakelog writes such a text.
        """
        self.tables[name].load(text)

    def statistics(self) -> dict[str, Any]:
        """Return the counters of this name server and of its tables."""
        return {
            "requests_by_code": dict(self._request_counts),
            "refused_count": self._refused_count,
            "routes": self._state.routes.statistics(),
            "kv_config": self._state.kv_config.statistics(),
        }

    def validate(self) -> None:
        """Assert the invariants of every table."""
        self._state.kv_config.validate()
        self._state.routes.validate()
