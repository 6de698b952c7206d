"""Java clients of a group, each in a JVM of its own, that go on whatever happens to the group."""

import threading
import time
from collections.abc import Mapping
from typing import Final

from tests.actors.elected_group import TOPIC, Account
from tests.compat.driver import JavaDriver, bodies, message

WAIT_SECONDS_MAX: Final = 90.0
TIMEOUT_MS: Final = 3_000
"""What a producer of RocketMQ's has by itself."""

THINK_SECONDS: Final = 0.02


class JavaClients:
    """A producer and a push consumer, each in a JVM of its own, which go on whatever happens."""

    def __init__(
        self,
        name_server: str,
        routes_ms: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Start nothing. routes_ms: how often they ask for routes, instead of each 30 s."""
        given = {"driver.sendTimeoutMs": str(TIMEOUT_MS), **(properties or {})}
        if routes_ms is not None:
            given["driver.routesMs"] = str(routes_ms)
        self._sender = JavaDriver(name_server, properties=given)
        self._receiver = JavaDriver(name_server, properties=given)
        self._is_stopping = threading.Event()
        self._threads = [threading.Thread(target=self._send), threading.Thread(target=self._take)]
        self.account = Account()

    def start(self) -> None:
        """Begin."""
        self._threads[0].start()
        self.until_sent(1)
        self._receiver("consume", name="reader", group="java_readers", topics=[TOPIC])
        self._threads[1].start()

    def until_sent(self, count: int) -> float:
        """Return after so many further acknowledgements, with the seconds that it took."""
        account, began = self.account, time.monotonic()
        wanted = len(account.acknowledged) + count
        while len(account.acknowledged) < wanted:
            assert time.monotonic() < began + WAIT_SECONDS_MAX, account.failures
            time.sleep(THINK_SECONDS)
        return time.monotonic() - began

    def stop(self) -> None:
        """End both."""
        self._is_stopping.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        self._sender.stop()
        self._receiver.stop()

    def _send(self) -> None:
        account, last = self.account, time.monotonic()
        while not self._is_stopping.is_set():
            account.attempts += 1
            body = b"java-%d" % account.attempts
            try:
                [sent] = self._sender("send", group="g", messages=[message(TOPIC, body)])
            except Exception as error:
                account.failures[str(error)[:120]] += 1
                time.sleep(THINK_SECONDS)
                continue
            if sent["status"] == "SEND_OK":
                account.acknowledged.add(body)
                now = time.monotonic()
                account.gaps_seconds.append(now - last)
                last = now
            else:  # stored, and not on all in-sync replicas
                account.failures[sent["status"]] += 1
            time.sleep(THINK_SECONDS)

    def _take(self) -> None:
        account = self.account
        while not self._is_stopping.is_set():
            taken = self._receiver("takeConsumed", name="reader")
            for one, body in zip(taken, bodies(taken), strict=True):
                place = one["queueId"], one["queueOffset"]
                if account.shown.setdefault(place, body) != body:
                    account.changed.append(place)
            time.sleep(10 * THINK_SECONDS)
