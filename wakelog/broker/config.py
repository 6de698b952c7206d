"""BrokerConfig: the settings of 4.9.3's BrokerConfig and NettyServerConfig that wakelog obeys.

Keys of 4.9.3 without a meaning here (sizes of thread pools, Netty switches) are in
``KEYS_WITHOUT_EFFECT``, with the reason. Code 26 shows them with 4.9.3's defaults; where a default
depends on the number of cores, with that of one core, because one loop does the work here.
``config_file`` reads a file. ``storage.live_settings`` changes a running broker; no other module
assigns to these fields. A field that is ``Live`` is read again at every use.

Source: org.apache.rocketmq.common.BrokerConfig, remoting.netty.NettyServerConfig, and what a broker
answers to code 26 (4.9.3).
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from wakelog.network.netty_keys import NETTY_SERVER_ROWS
from wakelog.protocol.addresses import read_name_servers
from wakelog.protocol.names import NAME_LENGTH_MAX, is_legal_topic, reply_topic
from wakelog.storage.errors import IllegalConfiguration
from wakelog.storage.settings_text import Live, keys_without_effect

MASTER_ID = 0

DEFAULT_LISTEN_PORT = 10911  # BrokerStartup's, not NettyServerConfig's 8888
PORTS_BELOW = 2  # the VIP port is listenPort - 2
PORTS_ABOVE = 1  # the port for slaves is listenPort + 1

_INT32_MAX = 0x7FFFFFFF
_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF


def java_key(name: str) -> str:
    """Return 4.9.3's spelling of a field name: ``broker_ip1`` is ``brokerIP1``."""
    first, *rest = name.split("_")
    return first + "".join("IP" + word[2:] if word[:2] == "ip" else word.title() for word in rest)


class BrokerConfig(msgspec.Struct, kw_only=True, rename=java_key):
    """Settings of one broker; every ``mills``, ``interval``, ``period`` is in milliseconds."""

    # The broker's name and addresses.
    namesrv_addr: str = ""
    broker_name: str = "broker-a"
    broker_cluster_name: str = "DefaultCluster"
    broker_id: int = MASTER_ID
    broker_ip1: str = "127.0.0.1"
    broker_ip2: str = "127.0.0.1"
    listen_port: int = DEFAULT_LISTEN_PORT
    broker_permission: Live[int] = 6
    region_id: str = "DefaultRegion"

    # Topics and groups.
    default_topic_queue_nums: Live[int] = 8
    auto_create_topic_enable: Live[bool] = True
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    auto_create_subscription_group: Live[bool] = True
    trace_topic_enable: bool = False
    msg_trace_topic_name: str = "RMQ_SYS_TRACE_TOPIC"

    # Sending.
    trace_on: Live[bool] = True
    reject_transaction_message: Live[bool] = False
    start_accept_send_request_time_stamp: Live[int] = 0
    store_reply_message_enable: Live[bool] = True

    # The check of half messages.
    transaction_check_interval: Live[int] = 60_000
    transaction_time_out: Live[int] = 6_000
    transaction_check_max: Live[int] = 15

    # Pulling.
    long_polling_enable: Live[bool] = True
    short_polling_time_mills: Live[int] = 1_000
    slave_read_enable: Live[bool] = False
    notify_consumer_ids_changed_enable: Live[bool] = True

    # Groups that read far behind, see slow_readers.py.
    disable_consume_if_consumer_read_slowly: Live[bool] = False
    consumer_fallbehind_threshold: Live[int] = 17_179_869_184

    # Statistics.
    enable_detail_stat: bool = True
    auto_delete_unused_stats: Live[bool] = False

    # Filters by expression.
    enable_property_filter: Live[bool] = False
    filter_support_retry: Live[bool] = False
    filter_data_clean_time_span: int = 86_400_000
    max_error_rate_of_bloom_filter: int = 20
    expect_consumer_num_use_filter: int = 32
    enable_calc_filter_bit_map: bool = False

    # Periods of writing and registering.
    flush_consumer_offset_interval: Live[int] = 5_000
    register_name_server_period: Live[int] = 30_000
    register_broker_timeout_mills: Live[int] = 6_000
    compressed_register: Live[bool] = False

    # Lanes of the server and their fast failure.
    broker_fast_failure_enable: Live[bool] = True
    send_thread_pool_queue_capacity: int = 10_000
    pull_thread_pool_queue_capacity: int = 100_000
    reply_thread_pool_queue_capacity: int = 10_000
    query_thread_pool_queue_capacity: int = 20_000
    client_manager_thread_pool_queue_capacity: int = 1_000_000
    consumer_manager_thread_pool_queue_capacity: int = 1_000_000
    heartbeat_thread_pool_queue_capacity: int = 50_000
    end_transaction_pool_queue_capacity: int = 100_000
    wait_time_mills_in_send_queue: Live[int] = 200
    wait_time_mills_in_pull_queue: Live[int] = 5_000
    wait_time_mills_in_heartbeat_queue: Live[int] = 31_000
    wait_time_mills_in_transaction_queue: Live[int] = 3_000

    # Access control, and the folder in which `conf` has the files of accounts.
    acl_enable: bool = False
    rocketmq_home: str = ""

    # The bounds of requests, see processors/body_limits.py, and of tables, see table_limits.py;
    # wakelog's own keys.
    request_limit_factor: int = 1
    table_limit_factor: int = 1

    # The server (NettyServerConfig).
    server_channel_max_idle_time_seconds: int = 120
    server_socket_backlog: int = 1_024

    # Calls to name servers (NettyClientConfig).
    use_tls: bool = msgspec.field(default=False, name="useTLS")

    def __post_init__(self) -> None:
        """Judge each value. Raises: IllegalConfiguration."""
        for field in msgspec.structs.fields(self):
            check_value(field.encode_name, getattr(self, field.name))

    @property
    def broker_addr(self) -> str:
        """The address that clients get, ``brokerIP1:listenPort``."""
        return f"{self.broker_ip1}:{self.listen_port}"


RANGES = {
    "brokerId": (0, _INT32_MAX),
    "listenPort": (1 + PORTS_BELOW, 65_535 - PORTS_ABOVE),
    "brokerPermission": (0, 15),
    "requestLimitFactor": (1, 16),  # 16 times 1 MiB is a whole frame
    "tableLimitFactor": (1, 4),  # 4,000,000 offsets are what a start reads in some 10 s
    "defaultTopicQueueNums": (0, 65_535),
    "maxErrorRateOfBloomFilter": (1, 99),
    "expectConsumerNumUseFilter": (1, 10_000),  # a message's bitmap has at most 12 KB then
    "startAcceptSendRequestTimeStamp": (0, _INT64_MAX),
    "consumerFallbehindThreshold": (1, _INT64_MAX),
    "filterDataCleanTimeSpan": (1, _INT64_MAX),
    "shortPollingTimeMills": (1, _INT64_MAX),
    "waitTimeMillsInSendQueue": (1, _INT64_MAX),
    "waitTimeMillsInPullQueue": (1, _INT64_MAX),
    "waitTimeMillsInHeartbeatQueue": (1, _INT64_MAX),
    "waitTimeMillsInTransactionQueue": (1, _INT64_MAX),
    "serverChannelMaxIdleTimeSeconds": (1, 86_400),
}
"""Ranges of numbers by key; every other number of BrokerConfig has to be a positive Java int.

Numbers up to 2^63 are Java longs in 4.9.3.
"""


def check_value(key: str, value: object) -> None:
    """Refuse a value that no broker can work with, at a start and while it runs.

    Raises: IllegalConfiguration naming the key, the value and what is accepted.
    """
    if isinstance(value, str):
        if not value.isprintable():
            raise IllegalConfiguration(key, repr(value), "printable characters")
        accepts, accepted = SETTING_CHECKS[key]
        if not accepts(value):
            raise IllegalConfiguration(key, value, accepted)
    if isinstance(value, int) and not isinstance(value, bool):
        low, high = RANGES.get(key, (1, _INT32_MAX))
        if not low <= value <= high:
            raise IllegalConfiguration(key, value, f"{low} to {high}")


class SettingCheck(NamedTuple):
    """Whether a text can be used, and the words for those that can."""

    accepts: Callable[[str], object]
    accepted: str


def _lists_name_servers(text: str) -> bool:
    try:
        read_name_servers(text)
    except ValueError:
        return False
    return True


_CLUSTER_LENGTH_MAX = NAME_LENGTH_MAX - len(reply_topic(""))

ANY_TEXT = SettingCheck(lambda text: True, "any text")
_NAME = SettingCheck(
    re.compile(rf"(?=\S)[^/]{{1,{_CLUSTER_LENGTH_MAX}}}(?<=\S)").fullmatch,
    f"a name of up to {_CLUSTER_LENGTH_MAX} characters without '/', and no blank at its ends",
)
_HOST = SettingCheck(
    re.compile(r"[A-Za-z0-9_.-]+|[0-9A-Fa-f:.]+(%\S+)?", re.ASCII).fullmatch,
    "an address or the name of a host",
)

SETTING_CHECKS = {
    "namesrvAddr": SettingCheck(_lists_name_servers, "HOST:PORT, or several with ';' between"),
    "brokerName": _NAME,
    "brokerClusterName": _NAME,
    "brokerIP1": _HOST,
    "brokerIP2": _HOST,
    "regionId": ANY_TEXT,  # stands in messages, and nothing goes by it
    "msgTraceTopicName": SettingCheck(
        is_legal_topic, f"a topic's name: up to {NAME_LENGTH_MAX} of a-z, A-Z, 0-9, _, -, | and %"
    ),
    "rocketmqHome": ANY_TEXT,  # a start with aclEnable reads its files
}
"""By key, which texts can be used; every text of BrokerConfig has one."""


_WITHOUT_EFFECT = {
    **NETTY_SERVER_ROWS,
    "requests take turns on one loop, in lanes; no pool of threads answers them": """
        adminBrokerThreadPoolNums=16 clientManageThreadPoolNums=32 consumerManageThreadPoolNums=32
        endTransactionThreadPoolNums=10 heartbeatThreadPoolNums=1
        processReplyMessageThreadPoolNums=18 pullMessageThreadPoolNums=18
        putMessageFutureThreadPoolNums=1 putThreadPoolQueueCapacity=10000
        queryMessageThreadPoolNums=9 sendMessageThreadPoolNums=1
    """,
    "a connection to a name server has limits of its own": """
        clientAsyncSemaphoreValue=65535 clientCallbackExecutorThreads=1
        clientChannelMaxIdleTimeSeconds=120 clientCloseSocketIfTimeout=true
        clientOnewaySemaphoreValue=65535 clientSocketRcvBufSize=0 clientSocketSndBufSize=0
        clientWorkerThreads=4 connectTimeoutMillis=3000
    """,
    "every registration is sent, with every topic": "forceRegister=true",
    "name servers are listed in namesrvAddr": """
        fetchNamesrvAddrByAddressServer=false rmqAddressServerDomain rmqAddressServerSubGroup
    """,
    "4.9.3 reads it nowhere either": """
        channelNotActiveInterval=60000 clientPooledByteBufAllocatorEnable=false
        commercialEnable=true flushConsumerOffsetHistoryInterval=60000 highSpeedMode=false
        maxDelayTime=40
    """,
    "statistics for bills are not kept": """
        commercialBaseCount=1 commercialBigCount=1 commercialTimerCount=1 commercialTransCount=1
    """,
    "no shell command is ever run, and 4.9.3 has no filter server to start": "filterServerNums=0",
    "logs are by the broker's name when there are several": "isolateLogEnable=false",
    "it names a Java class; dispatchers and services plug in here": "messageStorePlugIn=",
    "records are sent from memory": "transferMsgByHeap=true",
}

KEYS_WITHOUT_EFFECT = keys_without_effect(_WITHOUT_EFFECT)
"""Keys of BrokerConfig, NettyServerConfig and NettyClientConfig that are accepted and do nothing.

To obey one, take it out here and make it a field of BrokerConfig.
"""
