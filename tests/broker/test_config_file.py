"""Reading broker.conf."""

import pytest

from wakelog.broker.config_file import BrokerSettings, all_settings, read_broker_conf
from wakelog.storage.config import WAKELOG_KEYS, BrokerRole, FlushDiskType
from wakelog.storage.errors import IllegalConfiguration

ROOT = {"storePathRootDir": "/store"}


def read(text: str, **overrides: str) -> BrokerSettings:
    return read_broker_conf(text, defaults=ROOT, overrides=overrides)


def test_one_file_feeds_broker_and_store() -> None:
    settings = read(
        """
        # as shipped with 4.9.3
        brokerClusterName = DefaultCluster
        brokerName = broker-b
        deleteWhen = 04
        fileReservedTime = 48
        brokerRole = ASYNC_MASTER
        flushDiskType = SYNC_FLUSH
        listenPort=20911
        autoCreateTopicEnable = FALSE
        """
    )
    assert settings.broker.broker_name == "broker-b"
    assert settings.broker.auto_create_topic_enable is False
    assert settings.store.flush_disk_type is FlushDiskType.SYNC_FLUSH
    assert settings.store.file_reserved_hours == 48
    assert settings.warnings == ()


def test_what_the_command_line_says_wins_over_the_file_and_that_over_defaults() -> None:
    settings = read_broker_conf(
        "brokerName=file\nlistenPort=20911",
        defaults={**ROOT, "brokerName": "host", "brokerIP1": "10.0.0.1"},
        overrides={"listenPort": "30911"},
    )
    assert settings.broker.broker_name == "file"
    assert settings.broker.broker_addr == "10.0.0.1:30911"


def test_the_port_for_slaves_follows_the_listening_port_whatever_the_file_says() -> None:
    assert read("listenPort=20911\nhaListenPort=5").store.ha_listen_port == 20912


KEYS_SHOWN_COUNT = 177
"""As many as 4.9.3's broker answers; which, `tests/compat` compares with a real one."""

UNKNOWN = [
    ("listenProt", "; did you mean listenPort?"),
    ("autocreatetopicenable", "; did you mean autoCreateTopicEnable?"),
    ("mappedFileSizeCommitlog", "; did you mean mappedFileSizeCommitLog?"),
    ("zzz", ""),
    ("storePathIndexes", ""),  # storePathRootDir is as long, and begins as it does
]


@pytest.mark.parametrize(("key", "hint"), UNKNOWN)
def test_an_unknown_key_is_kept_and_warned_about(key: str, hint: str) -> None:
    settings = read(f"{key}=1")
    assert settings.unknown == {key: "1"}
    (warning,) = settings.warnings
    assert warning == f"{key} is not a key of RocketMQ 4.9.3 and is ignored{hint}"


def test_a_place_that_4_9_3_does_not_read_is_named() -> None:
    (warning,) = read("storePathIndex=/data/index").warnings
    assert warning.endswith("it always is index in storePathRootDir")


def test_a_key_without_effect_is_no_typing_mistake() -> None:
    settings = read("sendMessageThreadPoolNums=16")
    assert settings.warnings == (
        "sendMessageThreadPoolNums has no effect here: "
        "requests take turns on one loop, in lanes; no pool of threads answers them",
    )
    assert all_settings(settings)["sendMessageThreadPoolNums"] == "16"


def test_a_key_without_effect_is_no_news_with_its_default() -> None:
    assert read("serverWorkerThreads=8").warnings == ()


def test_every_key_of_4_9_3_is_shown() -> None:
    shown = all_settings(read(""))
    assert len(shown.keys() - WAKELOG_KEYS) == KEYS_SHOWN_COUNT
    assert (shown["aclEnable"], shown["useTLS"], shown["rocketmqHome"]) == ("false", "false", "")
    assert shown["storePathCommitLog"] == f"{shown['storePathRootDir']}/commitlog"


def test_the_bits_of_a_filter_are_worked_out() -> None:
    assert all_settings(read(""))["bitMapLengthConsumeQueueExt"] == "112"
    more = all_settings(read("bitMapLengthConsumeQueueExt=64\nexpectConsumerNumUseFilter=64"))
    assert more["bitMapLengthConsumeQueueExt"] == "216"


BAD = [
    ("listenPort=abc", "listenPort", "a whole number"),
    ("listenPort=1_0", "listenPort", "a whole number"),
    ("listenPort=", "listenPort", "a whole number"),
    ("listenPort=0", "listenPort", "3 to 65534"),
    ("traceOn=yes", "traceOn", "true or false"),
    ("flushDiskType=SYNC", "flushDiskType", "ASYNC_FLUSH or SYNC_FLUSH"),
    ("storePathRootDir=relative", "storePathRootDir", "an absolute path"),
    ("aclEnable=true", "rocketmqHome", "the folder with conf/plain_acl.yml, here or in"),
    ("enableDLegerCommitLog=true", "enableDLegerCommitLog", "false: a replicated"),
    ("brokerRole=SLAVE", "brokerId", "above 0 for brokerRole=SLAVE"),
    ("brokerName=\\uzzzz", "broker.conf", "Java properties"),
]


@pytest.mark.parametrize(("text", "key", "accepted"), BAD)
def test_a_bad_value_names_key_and_accepted_form(text: str, key: str, accepted: str) -> None:
    with pytest.raises(IllegalConfiguration) as refusal:
        read(text)
    assert refusal.value.key == key
    assert refusal.value.accepted.startswith(accepted)
    assert str(refusal.value.value) in str(refusal.value)


def test_a_store_has_to_be_named() -> None:
    with pytest.raises(IllegalConfiguration, match="storePathRootDir"):
        read_broker_conf("")


def test_a_master_has_id_0_and_a_slave_keeps_its_own() -> None:
    assert read("brokerId=3").broker.broker_id == 0
    slave = read("brokerRole=SLAVE\nbrokerId=3")
    assert slave.broker.broker_id == 3
    assert slave.store.broker_role is BrokerRole.SLAVE


def test_every_setting_can_be_shown_and_read_again() -> None:
    shown = all_settings(read("listenPort=20911\nflushDiskType=SYNC_FLUSH\nmine=1"))
    assert shown["mine"] == "1"
    assert shown["traceOn"] == "true"
    assert all_settings(read_broker_conf("", overrides=shown)) == shown
