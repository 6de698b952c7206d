"""Reading RocketMQ's broker.conf: java.util.Properties text into BrokerConfig and StoreConfig.

One file feeds both, as in 4.9.3. An unknown key is kept and shown by code 26; the warning has the
nearest known name. An unusable value is an error that names key, value and accepted form. 4.9.3
goes on with its default.

Source: org.apache.rocketmq.broker.BrokerStartup.createBrokerController, MixAll.properties2Object
(4.9.3).
"""

import difflib
from collections.abc import Mapping
from functools import partial

import msgspec

from wakelog.broker import config as broker_config
from wakelog.broker.config import MASTER_ID, BrokerConfig
from wakelog.filter.bloom import BloomFilter
from wakelog.storage import config as store_config
from wakelog.storage.config import BrokerRole, StoreConfig
from wakelog.storage.errors import IllegalConfiguration
from wakelog.storage.live_settings import Change, LiveSettings, Rules
from wakelog.storage.settings_text import (
    convert_value,
    parse_properties,
    read_settings,
    settings_of,
    shown_defaults,
)

WITHOUT_EFFECT = broker_config.KEYS_WITHOUT_EFFECT | store_config.KEYS_WITHOUT_EFFECT
"""Keys that are accepted and do nothing."""

REFUSED_WHEN_TRUE = store_config.KEYS_REFUSED_WHEN_TRUE
"""Keys of features that are missing."""

OBEYED_KEYS = frozenset(
    {
        *BrokerConfig.__struct_encode_fields__,
        *StoreConfig.__struct_encode_fields__,
        *REFUSED_WHEN_TRUE,
    }
)
"""Keys with an effect, if only that the broker does not start."""

_NEAR_ENOUGH = 0.8  # one letter in five may differ; with more, other keys look alike

_PLACES = {
    "storePathConsumeQueue": "consumequeue",
    "storePathIndex": "index",
    "storeCheckpoint": "checkpoint",
    "abortFile": "abort",
}
"""Keys that many a broker.conf has although 4.9.3 does not read them, and what they would name."""


FIXED_KEYS = {
    **dict.fromkeys(
        (
            *("storePathRootDir", "storePathCommitLog", "readOnlyCommitLogStorePaths"),
            *("rocketmqHome", "brokerConfigPath", "configStorePath", "kvConfigPath"),
            "configBlackList",
        ),
        "no request says where files are read, written or run; give it at the start",
    ),
    **dict.fromkeys(
        (
            *("mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue"),
            *("mappedFileSizeConsumeQueueExt", "maxHashSlotNum", "maxIndexNum"),
        ),
        "the files of the store have that size",
    ),
    "brokerName": "the store belongs to the broker of this name",
    "aclEnable": "no request says who may do what without an account; give it at the start",
    "haListenPort": "it always is listenPort + 1",
    "bitMapLengthConsumeQueueExt": "it follows from maxErrorRateOfBloomFilter and "
    "expectConsumerNumUseFilter",
}
"""Keys that no request changes, and why. Later releases of RocketMQ refuse paths, too."""


class BrokerSettings(msgspec.Struct, frozen=True):
    """The settings of a broker, with unknown keys and warnings.

    changes: what requests have changed while a broker ran before, by key.
    """

    broker: BrokerConfig
    store: StoreConfig
    unknown: dict[str, str]
    warnings: tuple[str, ...]
    changes: dict[str, Change] = {}


def read_broker_conf(
    text: str,
    *,
    defaults: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
) -> BrokerSettings:
    """Make the settings of a broker from the text of a broker.conf.

    defaults: values of keys that the file does not have. One of the three must have
    storePathRootDir.

    Raises: IllegalConfiguration for a value that cannot be used.
    """
    layers = {**(defaults or {}), **parse_properties(text), **(overrides or {})}
    known = OBEYED_KEYS | WITHOUT_EFFECT.keys()
    unknown = {key: value for key, value in layers.items() if key not in known}
    warnings = [_unknown_key_warning(key, known) for key in unknown]
    warnings += [
        f"{key} has no effect here: {WITHOUT_EFFECT[key].reason}"
        for key, value in layers.items()
        if key in WITHOUT_EFFECT and value != WITHOUT_EFFECT[key].default
    ]
    _refuse_promises(layers)
    broker = read_settings(BrokerConfig, layers)
    # BrokerStartup overwrites haListenPort, so the file's value is ignored here too.
    ha_listen_port = str(broker.listen_port + 1)
    layered = {"storePathRootDir": "", **layers, "haListenPort": ha_listen_port}
    store = read_settings(StoreConfig, layered)
    _apply_role(broker, store)
    if broker.acl_enable and not broker.rocketmq_home:
        accepted = "the folder with conf/plain_acl.yml, here or in ROCKETMQ_HOME"
        raise IllegalConfiguration("rocketmqHome", "", accepted)
    kept = {key: layers[key] for key in layers if key in WITHOUT_EFFECT or key in REFUSED_WHEN_TRUE}
    return BrokerSettings(broker, store, unknown | kept, tuple(warnings))


def all_settings(settings: BrokerSettings) -> dict[str, str]:
    """Return every key of 4.9.3 and of wakelog with its value, and the file's unknown keys."""
    found = {**shown_defaults(WITHOUT_EFFECT), **dict.fromkeys(REFUSED_WHEN_TRUE, "false")}
    found |= settings.unknown | settings_of(settings.store) | settings_of(settings.broker)
    found["bitMapLengthConsumeQueueExt"] = str(bloom_filter(settings.broker).bit_count)
    found.setdefault("storePathCommitLog", ",".join(settings.store.paths.commit_log_directories))
    return found


def is_unknown(key: str) -> bool:
    """Whether a key of broker.conf is none of 4.9.3 nor of wakelog, and no usual leftover."""
    return key not in OBEYED_KEYS and key not in WITHOUT_EFFECT and key not in _PLACES


def with_changes(settings: BrokerSettings, held: Mapping[str, Change]) -> BrokerSettings:
    """Return the settings of a start with changes that hold. Raises: IllegalConfiguration."""
    texts = settings.unknown | settings_of(settings.store) | settings_of(settings.broker)
    changed = read_broker_conf("", overrides=texts | {key: one.value for key, one in held.items()})
    return msgspec.structs.replace(changed, warnings=settings.warnings, changes=dict(held))


def live_settings(settings: BrokerSettings) -> LiveSettings:
    """Return the settings of a broker as requests change them."""
    known = OBEYED_KEYS | WITHOUT_EFFECT.keys()
    rules = Rules(
        shown=partial(all_settings, settings),
        make_settings=lambda texts: read_broker_conf("", overrides=texts),
        without_effect=WITHOUT_EFFECT,
        fixed=FIXED_KEYS,
        unknown=partial(_unknown_key_warning, known=known),
    )
    configs = (settings.broker, settings.store)
    return LiveSettings(rules, configs, settings.unknown, settings.changes)


def bloom_filter(config: BrokerConfig) -> BloomFilter:
    """Return the filter whose bits a queue's extension units have."""
    return BloomFilter(
        error_percent=config.max_error_rate_of_bloom_filter,
        names_count=config.expect_consumer_num_use_filter,
    )


def _apply_role(broker: BrokerConfig, store: StoreConfig) -> None:
    """Let the role decide the broker id, as BrokerStartup does."""
    if store.broker_role is not BrokerRole.SLAVE:
        broker.broker_id = MASTER_ID
    elif broker.broker_id <= MASTER_ID:
        raise IllegalConfiguration("brokerId", broker.broker_id, "above 0 for brokerRole=SLAVE")


def _refuse_promises(layers: Mapping[str, str]) -> None:
    for key, reason in REFUSED_WHEN_TRUE.items():
        if convert_value(key, layers.get(key, "false"), bool):
            raise IllegalConfiguration(key, layers[key], f"false: {reason}")


def _unknown_key_warning(key: str, known: frozenset[str]) -> str:
    if key in _PLACES:
        what = f"{key} is not read by RocketMQ 4.9.3"
        return f"{what}, nor here: it always is {_PLACES[key]} in storePathRootDir"
    by_lower = {name.lower(): name for name in sorted(known)}
    near = difflib.get_close_matches(key.lower(), by_lower, n=1, cutoff=_NEAR_ENOUGH)
    hint = f"; did you mean {by_lower[near[0]]}?" if near else ""
    return f"{key} is not a key of RocketMQ 4.9.3 and is ignored{hint}"
