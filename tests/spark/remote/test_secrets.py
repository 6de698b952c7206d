"""The plans that Spark shows contain no secrets of a read."""

from typing import Any

import pytest

GIVEN = {
    "nameServer": "127.0.0.1:1",
    "subscribe": "orders",
    "accessKey": "the-access-key",
    "secretKey": "the-secret-key",
    "securityToken": "the-token",
    "tls.enable": "true",
    "tls.client.keyPassword": "the-password",
}


@pytest.mark.spark
@pytest.mark.slow
def test_a_plan_shows_the_source_and_neither_keys_nor_token(spark: Any) -> None:
    table = spark.read.format("rocketmq").options(**GIVEN).load()
    plan = table._jdf.queryExecution().toString()
    assert "rocketmq" in plan
    assert not [
        secret
        for secret in ("access-key", "secret-key", "the-token", "the-password")
        if secret in plan
    ]
