"""What the subscribers and publishers of a broker share: its clients, defaults and logger."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Unpack

from faststream._internal.basic_types import LoggerProto
from faststream._internal.configs import BrokerConfig
from faststream._internal.context import ContextRepo
from faststream._internal.logger import DefaultLoggerStorage, make_logger_state
from faststream._internal.logger.logging import get_broker_logger
from faststream.exceptions import SetupError
from faststream.security import BaseSecurity, SASLPlaintext

from wakelog.client import ClientError, Consumer, Producer
from wakelog.client.admin import open_admin
from wakelog.client.options import Settings, Target, with_namespace
from wakelog.client.typed import Bad
from wakelog.faststream.fields import BrokerFields
from wakelog.faststream.producer import RocketMQProducer

CREATED_QUEUES: Final = 4
"""Of a topic that a subscriber creates: defaultTopicQueueNums of 4.9.3's producer."""


class Clients:
    """Makes the clients of one broker, all of the same cluster and account."""

    def __init__(
        self, name_servers: Target, group: str, trace: bool, **settings: Unpack[Settings]
    ) -> None:
        """Make none yet."""
        self.name_servers = name_servers
        self.group = group
        self.trace = trace
        self.settings = settings

    def producer(self) -> Producer:
        """Return a producer that is not open. Raises: InvalidArgument."""
        return Producer(self.name_servers, group=self.group, trace=self.trace, **self.settings)

    def consumer(self, **options: Any) -> Consumer:
        """Return a consumer that is not open. Raises: InvalidArgument."""
        return Consumer(self.name_servers, trace=self.trace, **options, **self.settings)

    async def create_topics(self, topics: Iterable[str]) -> dict[str, ClientError]:
        """Create the topics that are not there; return those that could not be, and why."""
        failures: dict[str, ClientError] = {}
        async with open_admin(self.name_servers, **self.settings) as admin:
            for topic in topics:
                full_topic = with_namespace(self.settings.get("namespace", ""), topic)
                try:
                    if await admin.routes.find(full_topic) is None:
                        await admin.create_topic(topic, queues=CREATED_QUEUES)
                except ClientError as error:
                    failures[topic] = error
        return failures

    async def answer(self) -> bool:
        """Tell whether a name server answers, and knows a broker."""
        try:
            async with open_admin(self.name_servers, **self.settings) as admin:
                return bool((await admin.cluster()).broker_addr_table)
        except ClientError:
            return False


@dataclass(kw_only=True)
class RocketMQBrokerConfig(BrokerConfig):
    """See the module.

    creates_topics: a subscriber creates a topic that is not there.
    """

    producer: RocketMQProducer = field(default_factory=lambda: RocketMQProducer(None, None))
    clients: Clients = field(default_factory=lambda: Clients("localhost:9876", "faststream", False))
    creates_topics: bool = True
    bad_body: Bad = "raise"


def settings_of(security: BaseSecurity | None, given: BrokerFields) -> Settings:
    """Return the settings of clients, also those of a security object. Raises: SetupError."""
    found: Settings = {}
    if security is not None:
        if type(security) not in (BaseSecurity, SASLPlaintext):
            name = type(security).__name__
            raise SetupError(f"RocketMQ has no {name}. Give SASLPlaintext(access key, secret key).")
        if security.ssl_context is not None:
            raise SetupError("The client makes its own context. Give tls=Tls(trust_path=...).")
        found["tls"] = security.use_ssl
        if isinstance(security, SASLPlaintext):
            found["access_key"], found["secret_key"] = security.username, security.password
    settings: Any = {name: given[name] for name in Settings.__optional_keys__ if name in given}  # type: ignore[literal-required]
    merged: Settings = {**found, **settings}
    return merged


class LogParameters(DefaultLoggerStorage):
    """The broker's logger: each line has the topic, the group, and the place of the message."""

    def __init__(self) -> None:
        super().__init__()
        self._widths = {"topic": 4, "group_id": 5}

    def register_subscriber(self, params: Mapping[str, Any]) -> None:
        """Make room for its names."""
        for name, width in self._widths.items():
            self._widths[name] = max(width, len(params.get(name, "")))

    def get_logger(self, *, context: ContextRepo) -> LoggerProto:
        """Return the logger, the same one each time."""
        found = self._get_logger_ref()
        if found is None:
            names = "".join(f"%({name})-{width}s | " for name, width in self._widths.items())
            found = get_broker_logger(
                name="rocketmq",
                default_context={"topic": "", "group_id": "", "place": ""},
                message_id_ln=32,
                fmt=f"%(asctime)s %(levelname)-8s - {names}%(place)s - %(message)s",
                context=context,
                log_level=self.logger_log_level,
            )
            self._logger_ref.add(found)
        return found


make_logger = partial(make_logger_state, default_storage_cls=LogParameters)
