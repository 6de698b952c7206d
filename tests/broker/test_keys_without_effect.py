"""Keys of 4.9.3 with nothing to act on here."""

import pytest

from wakelog.broker.config import KEYS_REFUSED_WHEN_TRUE, BrokerConfig
from wakelog.broker.keys_without_effect import DEFAULTS_WITHOUT_EFFECT, KEYS_WITHOUT_EFFECT
from wakelog.storage.config import StoreConfig


@pytest.mark.parametrize("config", [BrokerConfig, StoreConfig])
def test_no_key_is_both_obeyed_and_without_effect(
    config: type[BrokerConfig] | type[StoreConfig],
) -> None:
    assert not KEYS_WITHOUT_EFFECT & set(config.__struct_encode_fields__)


def test_no_key_is_both_refused_and_without_effect() -> None:
    assert not KEYS_WITHOUT_EFFECT & KEYS_REFUSED_WHEN_TRUE.keys()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("serverWorkerThreads", "8"),
        ("consumerFallbehindThreshold", "17179869184"),
        ("messageStorePlugIn", ""),
    ],
)
def test_a_default_is_4_9_3s(key: str, value: str) -> None:
    assert DEFAULTS_WITHOUT_EFFECT[key] == value


def test_a_key_without_default_is_not_shown() -> None:
    assert "dLegerGroup" in KEYS_WITHOUT_EFFECT - DEFAULTS_WITHOUT_EFFECT.keys()
