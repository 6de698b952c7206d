"""Annotations of the arguments of functions: FastStream's own, and those of this broker."""

from typing import Annotated

from faststream import Context
from faststream.annotations import ContextRepo, Logger
from faststream.params import NoCast

from wakelog.client import Consumer as ClientConsumer
from wakelog.client import Producer as ClientProducer
from wakelog.faststream.broker import RocketMQBroker as Broker
from wakelog.faststream.message import RocketMQMessage as Message

__all__ = [
    "Consumer",
    "ContextRepo",
    "Logger",
    "NoCast",
    "Producer",
    "RocketMQBroker",
    "RocketMQMessage",
]

Consumer = Annotated[ClientConsumer, Context("handler_.consumer")]
Producer = Annotated[ClientProducer, Context("broker._producer.client")]
RocketMQBroker = Annotated[Broker, Context("broker")]
RocketMQMessage = Annotated[Message, Context("message")]
