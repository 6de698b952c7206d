"""The fixtures, as a test of an application gets them."""

import asyncio

import pytest

from tests.actors.client import route_of
from wakelog.testing import AsyncEmbeddedBroker, EmbeddedBroker


@pytest.fixture
def wakelog_settings() -> dict[str, str]:
    return {"brokerName": "of-a-test"}


def test_the_fixture_is_a_broker_with_the_settings_of_the_test(
    wakelog_broker: EmbeddedBroker, async_wakelog_broker: AsyncEmbeddedBroker
) -> None:
    wakelog_broker.create_topic("orders")
    route = asyncio.run(route_of(async_wakelog_broker.name_server, "orders"))
    assert [data.broker_name for data in route.broker_datas] == ["of-a-test"]
