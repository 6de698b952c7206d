"""The AsyncAPI document of an application, as it is written."""

from typing import Any

import pytest
from faststream.security import SASLPlaintext
from faststream.specification.asyncapi import AsyncAPI as FastStreamAsyncAPI
from pydantic import BaseModel

from wakelog.faststream import AsyncAPI, RocketMQBroker, RocketMQResponse, RocketMQRouter


class Order(BaseModel):
    number: int


def application() -> RocketMQBroker:
    broker = RocketMQBroker("mq:9876", security=SASLPlaintext("k", "s", use_ssl=True), logger=None)
    router = RocketMQRouter(prefix="eu-")

    @router.subscriber("orders", group_id="billing", tags="paid || late", ordered=True)
    @router.publisher("bills", batch=True)
    async def bill(order: Order) -> int:
        """Write a bill."""
        return order.number

    @router.subscriber("numbers", "figures", sql="n > 1", batch=True, include_in_schema=True)
    async def add(numbers: list[int]) -> None: ...

    @router.subscriber("hidden", include_in_schema=False)
    async def hide(body: str) -> None: ...

    broker.include_router(router)
    return broker


def billing(**more: Any) -> dict[str, Any]:
    return {
        "topic": "eu-orders", "group": "billing", "tags": "paid || late", "ordered": True,
        "broadcast": False, "batch": False, **more,
    }  # fmt: skip


def test_a_document_has_channels_and_bindings() -> None:
    document = AsyncAPI(application(), title="Shop").to_specification().to_jsonable()
    assert document["servers"] == {
        "development": {
            "host": "mq:9876", "pathname": "", "protocol": "rocketmq-secure",
            "protocolVersion": "4.9.3",
            "security": [{"$ref": "#/components/securitySchemes/user-password"}],
        }
    }  # fmt: skip
    channels = document["channels"]
    assert sorted(channels) == [
        "eu-bills:Publisher", "eu-figures:Add", "eu-numbers:Add", "eu-orders:Bill",
    ]  # fmt: skip
    assert channels["eu-orders:Bill"] == {
        "address": "eu-orders",
        "description": "Write a bill.",
        "servers": [{"$ref": "#/servers/development"}],
        "messages": {
            "SubscribeMessage": {"$ref": "#/components/messages/eu-orders:Bill:SubscribeMessage"}
        },
        "bindings": {"x-rocketmq": billing()},
    }
    group = "eu-numbers-eu-figures-Add"
    for topic in ("eu-numbers", "eu-figures"):
        assert channels[f"{topic}:Add"]["bindings"]["x-rocketmq"] == {
            "topic": topic, "group": group, "sql": "n > 1", "ordered": False, "broadcast": False,
            "batch": True,
        }  # fmt: skip
    publisher = channels["eu-bills:Publisher"]["bindings"]
    assert publisher == {"x-rocketmq": {"topic": "eu-bills", "batch": True}}
    message = document["components"]["messages"]["eu-orders:Bill:SubscribeMessage"]
    assert message["payload"] == {"$ref": "#/components/schemas/Order"}
    assert document["components"]["schemas"]["Order"]["properties"]["number"]["type"] == "integer"


def test_a_function_may_say_that_it_returns_a_response() -> None:
    broker = RocketMQBroker(logger=None)

    @broker.subscriber("orders")
    @broker.publisher("bills")
    async def bill(order: Order) -> RocketMQResponse:
        return RocketMQResponse(order.number)

    document = AsyncAPI(broker).to_specification().to_jsonable()
    message = document["components"]["messages"]["bills:Publisher:Message"]
    assert message["payload"]["$ref"].startswith("#/components/schemas/")


@pytest.mark.parametrize("version", ["2.6.0", "3.0.0"])
def test_each_version_of_asyncapi_has_the_bindings(version: str) -> None:
    document = AsyncAPI(application(), schema_version=version).to_specification().to_jsonable()
    assert document["asyncapi"] == version
    assert document["channels"]["eu-orders:Bill"]["bindings"] == {"x-rocketmq": billing()}


def test_faststreams_own_document_lacks_the_bindings_only() -> None:
    ours = AsyncAPI(application()).to_specification().to_jsonable()
    own = FastStreamAsyncAPI(application()).to_specification().to_jsonable()
    for channel in ours["channels"].values():
        del channel["bindings"]
    assert own == ours
