"""JSON over HTTP to one of several members, and what is known when no answer comes.

Rules:
- The member that answered last is asked first. One that fails is asked last from then on.
- A call that changes nothing goes to one member after another.
- A call that changes something goes to the next member only if none of it was sent.

A connection is made for each call. A group makes some calls a second, and a kept connection that
has died makes a call unsure that would not be.
"""

import http.client
import json
import re
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from ipaddress import IPv6Address
from typing import Any, Final, NamedTuple

from wakelog.actors.registers.register import (
    CALL_SECONDS_MAX,
    AnswerLost,
    RegisterRefused,
    RegisterUnreachable,
)

CONNECT_SECONDS_MAX: Final = 1.0
ANSWER_BYTES_MAX: Final = 4 << 20
"""More than a value and what an engine says beside it; a stranger's answer may be endless."""

MEMBERS_MAX: Final = 16
REMARK_CHARACTERS_MAX: Final = 300

_HOST = re.compile(r"[A-Za-z0-9_.-]{1,253}")


class HttpAnswer(NamedTuple):
    """An answer's status and its JSON object."""

    status: int
    body: dict[str, Any]
    member: str

    @property
    def remark(self) -> str:
        """What an error answer says."""
        text = self.body.get("message") or self.body.get("error") or f"status {self.status}"
        return str(text)[:REMARK_CHARACTERS_MAX]


class Endpoints:
    """The members of one register, and how they are called."""

    def __init__(self, addresses: Sequence[str], tls: ssl.SSLContext | None = None) -> None:
        """Call nobody yet. addresses: `HOST:PORT` each. Raises: RegisterRefused."""
        for address in addresses:
            _split(address)
        if not 0 < len(addresses) <= MEMBERS_MAX or len(set(addresses)) != len(addresses):
            cause = f"{len(addresses)} addresses of members, or one of them twice"
            raise RegisterRefused(cause, f"Give 1 to {MEMBERS_MAX} different ones.")
        self._addresses = list(addresses)
        self._tls = tls

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> HttpAnswer:
        """Call for an answer that is no failure of the member's own; nothing changes there.

        Raises: RegisterUnreachable.
        """
        failures = []
        for address in list(self._addresses):
            try:
                answer = self._call(address, method, path, body, headers)
            except (OSError, http.client.HTTPException, _BadAnswer) as error:
                failures.append(f"{address}: {error!r}")
            else:
                if answer.status < 500 and answer.status != 429:
                    return answer
                failures.append(f"{address}: {answer.remark}")
            self._ask_last(address)
        raise _none_answers(failures)

    def change(self, method: str, path: str, body: object, **headers: str) -> HttpAnswer:
        """Call once for a change, and return any answer.

        Raises: RegisterUnreachable if nothing was sent, AnswerLost.
        """
        failures = []
        for address in list(self._addresses):
            try:
                connection = self._connect(address)
            except OSError as error:
                failures.append(f"{address}: {error!r}")
                self._ask_last(address)
                continue
            try:
                with closing(connection):
                    _send(connection, method, path, body, headers)
                    return _read_answer(connection, address)
            except (OSError, http.client.HTTPException, _BadAnswer) as error:
                self._ask_last(address)
                raise AnswerLost(f"{address} was asked, and has not answered: {error!r}") from error
        raise _none_answers(failures)

    @contextmanager
    def stream(
        self, method: str, path: str, seconds_max: float, body: object = None, **headers: str
    ) -> Iterator["Lines"]:
        """Give an answer that goes on: an object a line. It may end early, without an error."""
        address = self._addresses[0]
        with ExitStack() as stack:
            try:
                connection = stack.enter_context(closing(self._connect(address)))
                _send(connection, method, path, body, headers)
            except (OSError, http.client.HTTPException):
                stack.close()
                self._ask_last(address)
                yield Lines(None, seconds_max)
                return
            lines = Lines(connection, seconds_max)
            yield lines
            if lines.has_failed:
                self._ask_last(address)

    def _ask_last(self, address: str) -> None:
        self._addresses.remove(address)
        self._addresses.append(address)

    def _call(self, address: str, method: str, path: str, body: object, headers: Any) -> HttpAnswer:
        with closing(self._connect(address)) as connection:
            _send(connection, method, path, body, headers)
            return _read_answer(connection, address)

    def _connect(self, address: str) -> http.client.HTTPConnection:
        """Return an open connection. Raises: OSError; then nothing was sent."""
        host, port = _split(address)
        connection = (
            http.client.HTTPConnection(host, port, timeout=CONNECT_SECONDS_MAX)
            if self._tls is None
            else http.client.HTTPSConnection(
                host, port, timeout=CONNECT_SECONDS_MAX, context=self._tls
            )
        )
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        connection.sock.settimeout(CALL_SECONDS_MAX)
        return connection


class Lines:
    """The objects of an answer that goes on. is_over: its time is; has_failed: its member has."""

    def __init__(self, connection: http.client.HTTPConnection | None, seconds_max: float) -> None:
        self._connection = connection
        self._end = time.monotonic() + seconds_max
        self.has_failed = False

    @property
    def is_over(self) -> bool:
        """Whether the time has passed."""
        return time.monotonic() >= self._end

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield one object after another."""
        try:
            yield from self._objects()
        except (OSError, http.client.HTTPException, _BadAnswer):
            self.has_failed = not self.is_over

    def _objects(self) -> Iterator[dict[str, Any]]:
        if self._connection is None:
            return
        sock = self._connection.sock
        sock.settimeout(max(CALL_SECONDS_MAX, self._end - time.monotonic()))
        response = self._connection.getresponse()
        while response.status == 200 and (left := self._end - time.monotonic()) > 0:
            sock.settimeout(left)
            line = response.readline(ANSWER_BYTES_MAX)
            if not line:
                return
            yield _object(line)


class _BadAnswer(Exception):
    """Not the answer of a register."""


def trusting(ca: str, certificate: str = "", key: str = "") -> ssl.SSLContext:
    """Return the TLS settings for files of PEM. Raises: RegisterRefused."""
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate:
            context.load_cert_chain(certificate, key or None)
    except OSError as error:  # an SSLError is one
        names = ", ".join(name for name in (ca, certificate, key) if name)
        raise RegisterRefused(f"TLS with {names}: {error}", "Name files of PEM.") from error
    return context


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    is_port = port.isascii() and port.isdecimal() and 0 < int(port) <= 0xFFFF
    if not is_port or not _is_host(host):
        raise RegisterRefused(f"{address!r} is no HOST:PORT", "Give each member's client address.")
    return host, int(port)


def _is_host(host: str) -> bool:
    """Tell whether a host can be looked up and be named in a request, without doing either."""
    try:
        if ":" in host:
            IPv6Address(host)
            return True
        return _HOST.fullmatch(host.encode("idna").decode()) is not None
    except ValueError:  # a UnicodeError is one, and an AddressValueError
        return False


def _send(
    connection: http.client.HTTPConnection, method: str, path: str, body: object, headers: Any
) -> None:
    text = None if body is None else json.dumps(body).encode()
    kind = {} if text is None else {"Content-Type": "application/json"}
    connection.request(method, path, text, {"Accept": "application/json", **kind, **headers})


def _read_answer(connection: http.client.HTTPConnection, address: str) -> HttpAnswer:
    response = connection.getresponse()
    text = response.read(ANSWER_BYTES_MAX + 1)
    if len(text) > ANSWER_BYTES_MAX:
        raise _BadAnswer(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
    if response.status >= 400:
        try:
            return HttpAnswer(response.status, _object(text), address)
        except _BadAnswer:  # a proxy's page
            return HttpAnswer(response.status, {"message": text.decode(errors="replace")}, address)
    return HttpAnswer(response.status, _object(text), address)


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _BadAnswer(f"no JSON object: {text[:80]!r}")
    return found


def _none_answers(failures: Sequence[str]) -> RegisterUnreachable:
    text = "; ".join(failures)
    return RegisterUnreachable(
        f"no member of the register answers: {text}", "Look whether a majority of them runs."
    )
