"""Every rule of the table in the module's docstring, and what several brokers get."""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from wakelog.actors.deploy import planning as module
from wakelog.actors.deploy.host_addresses import HostAddresses
from wakelog.actors.deploy.plan import ConsolePlan, NameServerOptions, Plan, PortUse, UpOptions
from wakelog.actors.deploy.planning import make_name_server_plan, make_plan
from wakelog.actors.errors import NotPossible
from wakelog.actors.transport.service_plan import Transport
from wakelog.network.tls import TlsMode
from wakelog.network.tls_properties import TlsSource
from wakelog.storage.config import BrokerRole, FlushDiskType
from wakelog.telemetry.logs import LogFormat, LogLevel

OUTWARD = "10.1.2.3"
NAMES = {"localhost": "127.0.0.1", "here": OUTWARD, "far": "10.9.9.9"}


class FakeAddresses(HostAddresses):
    """A host with two addresses and a short list of names."""

    def resolve(self, host: str) -> str:
        if host in NAMES:
            return NAMES[host]
        if not host[:1].isdigit() and ":" not in host:
            raise OSError(-2, "Name or service not known")
        return host

    def is_own(self, address: str) -> bool:
        return address in ("127.0.0.1", OUTWARD, "0.0.0.0")

    def outward(self, bound: str = "0.0.0.0") -> str:
        return OUTWARD


def plan(*settings: str, conf: str | None = None, **options: Any) -> Plan:
    if conf is not None:
        path = Path(options.pop("directory")) / "broker.conf"
        path.write_text(conf)
        options["config_path"] = str(path)
    return make_plan(UpOptions(settings=settings, **options), FakeAddresses())


def refusal(*settings: str, **options: Any) -> str:
    with pytest.raises(NotPossible) as refused:
        plan(*settings, **options)
    return str(refused.value)


def test_the_defaults_are_those_of_rocketmq(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    found = plan()
    [broker] = found.brokers
    assert (broker.name, broker.address) == ("broker-a", "127.0.0.1:10911")
    assert broker.store_directory == found.store_root == "/home/me/store"
    assert broker.log_directory == found.log_directory == "/home/me/store/wakelog.logs"
    assert found.name_server is not None and found.name_server.settings.config.listen_port == 9876
    assert found.name_server_address == "127.0.0.1:9876"
    assert broker.settings.broker.namesrv_addr == "127.0.0.1:9876"
    assert [use.port for use in found.ports] == [9876, 10911, 10909, 10912, 5557]
    assert (broker.transport, broker.in_one_process) == (Transport.NOTIFICATIONS, False)
    assert (found.metrics_port, found.metrics_port_is_default) == (5557, True)
    assert (broker.log_level, broker.log_format) == (LogLevel.INFO, LogFormat.TEXT)
    assert found.checks_advertised
    assert found.warnings == ()


def test_a_console_is_planned_unless_port_0_is_asked_for() -> None:
    assert plan().console == ConsolePlan(port=8080, port_is_default=True)
    asked = plan(console_port=8090)
    assert asked.console == ConsolePlan(port=8090, port_is_default=False)
    assert asked.ports[-1] == PortUse(8090, "the console", "--console-port", "127.0.0.1")
    assert plan(console_port=0).console is None
    # A port that it would move away from is no obstacle.
    assert plan(broker_port=8080).console == plan().console
    message = refusal(broker_port=8080, console_port=8080)
    assert message.startswith("port 8080 is for broker-a and for the console alike.")


def test_with_access_control_the_console_needs_an_account(tmp_path: Path) -> None:
    settings = "aclEnable=true", f"rocketmqHome={tmp_path}"
    without, given = (plan(*settings, console_account=x).console for x in (None, "/a.yml"))
    assert without is not None and without.why_not == (
        "off: aclEnable=true; give --console-account FILE, the keys of an account"
    )
    assert given == ConsolePlan(port=8080, port_is_default=True, account_path="/a.yml")


def test_without_its_packages_there_is_no_console_and_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CONSOLE_PACKAGES", ("starlette", "no_such_package"))
    console = plan(console_port=8090).console
    assert console is not None
    assert console.why_not == "not installed: pip install 'wakelog[console]'"
    assert plan(console_port=8090).ports == plan(console_port=0).ports


def test_a_broker_conf_is_read_and_flags_beat_it(tmp_path: Path) -> None:
    conf = """
        brokerName = orders
        listenPort = 20911
        flushDiskType = SYNC_FLUSH
        storePathRootDir = /data/rocketmq/store
        brokerIP1 = 10.1.2.3
    """
    [broker] = plan(conf=conf, directory=tmp_path).brokers
    assert (broker.name, broker.address) == ("orders", "10.1.2.3:20911")
    assert broker.store_directory == "/data/rocketmq/store"
    assert broker.settings.store.flush_disk_type is FlushDiskType.SYNC_FLUSH
    assert broker.settings.store.ha_listen_port == 20912
    [broker] = plan(
        "flushDiskType=ASYNC_FLUSH",
        conf=conf,
        directory=tmp_path,
        store="/other",
        broker_port=30911,
        advertise="127.0.0.1",
    ).brokers
    assert (broker.name, broker.address) == ("orders", "127.0.0.1:30911")
    assert broker.store_directory == "/other"
    assert broker.settings.store.flush_disk_type is FlushDiskType.ASYNC_FLUSH


def test_a_stores_flag_stands_for_every_path_of_a_copied_file(tmp_path: Path) -> None:
    conf = "storePathRootDir=/data/store\nstorePathCommitLog=/data/store/commitlog\n"
    found = plan(conf=conf, directory=tmp_path, store="/mine")
    assert found.brokers[0].settings.store.paths.commit_log_directories == ("/mine/commitlog",)
    [warning] = found.warnings
    assert warning.startswith("storePathCommitLog of ") and "--store is given" in warning
    found = plan("storePathCommitLog=/fast/log", conf=conf, directory=tmp_path, store="/mine")
    assert found.brokers[0].settings.store.store_path_commit_log == "/fast/log"


def test_several_brokers_have_names_ports_stores_and_logs_of_their_own() -> None:
    found = plan(broker_count=3, store="/s", broker_port=12000)
    assert [broker.name for broker in found.brokers] == ["broker-a", "broker-b", "broker-c"]
    assert [broker.settings.broker.listen_port for broker in found.brokers] == [12000, 12020, 12040]
    assert found.brokers[2].store_directory == "/s/broker-c"
    assert found.brokers[2].log_directory == "/s/wakelog.logs/broker-c"
    assert found.brokers[2].settings.store.ha_listen_port == 12041
    assert found.log_directory == "/s/wakelog.logs"


@pytest.mark.parametrize(
    ("name", "names"),
    [("broker-a", ["broker-a", "broker-b"]), ("orders", ["orders-a", "orders-b"])],
)
def test_the_names_of_several_brokers_follow_the_first(name: str, names: list[str]) -> None:
    assert [one.name for one in plan(f"brokerName={name}", broker_count=2).brokers] == names


def test_replicas_share_a_name_and_have_all_else_of_their_own() -> None:
    options: dict[str, Any] = {"broker_count": 2, "replica_count": 2, "broker_port": 12000}
    found = plan("brokerRole=SYNC_MASTER", store="/s", **options).brokers
    names = ["broker-a-1", "broker-a-2", "broker-b-1", "broker-b-2"]
    assert [one.name for one in found] == names
    configs = [one.settings.broker for one in found]
    assert [one.broker_name for one in configs] == ["broker-a", "broker-a", "broker-b", "broker-b"]
    assert [one.broker_id for one in configs] == [0, 1, 0, 1]
    assert [one.listen_port for one in configs] == [12000, 12020, 12040, 12060]
    assert [one.store_directory for one in found] == [f"/s/{name}" for name in names]
    assert [one.log_directory for one in found] == [f"/s/wakelog.logs/{name}" for name in names]
    stores = [one.settings.store for one in found]
    assert [one.broker_role for one in stores] == [BrokerRole.SYNC_MASTER, BrokerRole.SLAVE] * 2
    masters = [None, "127.0.0.1:12001", None, "127.0.0.1:12041"]
    assert [one.ha_master_address for one in stores] == masters


def test_replicas_without_a_role_have_a_register_in_their_folder() -> None:
    found = plan(broker_count=2, replica_count=3, store="/s", broker_port=12000).brokers
    assert {one.register for one in found} == {"file:///s/wakelog.register"}
    assert [one.replica_id for one in found] == [1, 2, 3] * 2
    assert [one.name for one in found[:3]] == ["broker-a-1", "broker-a-2", "broker-a-3"]
    stores = [one.settings.store for one in found]
    assert {one.broker_role for one in stores} == {BrokerRole.SYNC_MASTER}
    assert {one.min_in_sync_replicas for one in stores} == {2}
    first, _ = plan("wakelog.register=etcd://e:1", replica_count=2, store="/s").brokers
    assert first.register == "etcd://e:1" and first.settings.store.min_in_sync_replicas == 1
    assert not plan().brokers[0].register and not plan().brokers[0].replica_id


def test_one_replica_of_a_group_with_a_register() -> None:
    (one,) = plan("wakelog.register=etcd://e:1", "brokerId=3", "minInSyncReplicas=2").brokers
    assert (one.register, one.replica_id, one.name) == ("etcd://e:1", 3, "broker-a")
    assert one.settings.store.min_in_sync_replicas == 2


def test_a_master_of_replicas_that_waits_for_none_copies_all_the_same() -> None:
    master, slave = plan("brokerRole=ASYNC_MASTER", replica_count=2).brokers
    assert master.settings.store.broker_role is BrokerRole.ASYNC_MASTER
    assert master.settings.store.ships and not slave.settings.store.appends


@pytest.mark.parametrize(
    ("bind", "advertise", "advertised"),
    [
        ("127.0.0.1", None, "127.0.0.1"),
        ("localhost", None, "127.0.0.1"),
        (OUTWARD, None, OUTWARD),
        ("0.0.0.0", None, OUTWARD),
        ("0.0.0.0", "10.9.9.9", "10.9.9.9"),
        ("0.0.0.0", "far", "10.9.9.9"),
    ],
)
def test_clients_get_the_advertised_address(
    bind: str, advertise: str | None, advertised: str
) -> None:
    found = plan(bind=bind, open=True, advertise=advertise)
    broker = found.brokers[0].settings.broker
    assert {broker.broker_ip1, broker.broker_ip2, found.advertised_host} == {advertised}
    assert found.name_server is not None and found.name_server_address == f"{advertised}:9876"
    is_name = advertise is not None and advertise != advertised
    assert len(found.warnings) == is_name + (found.bind_host != "127.0.0.1")


NAME_SERVER_RULES = [
    # --namesrv-port, namesrvAddr by --set, of the file, our port, where the broker registers
    (None, None, None, 9876, "127.0.0.1:9876"),
    (None, None, "127.0.0.1:9877", 9877, "127.0.0.1:9877"),
    (None, None, "here:9877;far:1", 9877, "127.0.0.1:9877;far:1"),
    (None, None, "far:9876", None, "far:9876"),
    (None, None, "unheard.of:9876; far:1;", None, "unheard.of:9876;far:1"),
    (None, "far:1", "127.0.0.1:9877", None, "far:1"),
    (0, None, "127.0.0.1:9877", None, "127.0.0.1:9877"),
    (0, "far:1", None, None, "far:1"),
    (9900, None, None, 9900, "127.0.0.1:9900"),
    (9900, None, "far:1", 9900, "127.0.0.1:9900"),
    (9900, "far:1", None, 9900, "127.0.0.1:9900;far:1"),
    (9900, "127.0.0.1:9900", None, 9900, "127.0.0.1:9900"),
]


@pytest.mark.parametrize(("port", "in_set", "in_file", "own_port", "registered"), NAME_SERVER_RULES)
def test_where_a_broker_registers(
    port: int | None,
    in_set: str | None,
    in_file: str | None,
    own_port: int | None,
    registered: str,
    tmp_path: Path,
) -> None:
    settings = [] if in_set is None else [f"namesrvAddr={in_set}"]
    conf = "" if in_file is None else f"namesrvAddr={in_file}\n"
    found = plan(*settings, conf=conf, directory=tmp_path, name_server_port=port)
    assert found.brokers[0].settings.broker.namesrv_addr == registered
    assert (
        None if found.name_server is None else found.name_server.settings.config.listen_port
    ) == own_port
    assert found.name_server_address == registered.split(";")[0]


def test_a_name_server_bound_everywhere_is_registered_with_over_the_loopback() -> None:
    found = plan(bind="0.0.0.0", open=True)
    assert found.brokers[0].settings.broker.namesrv_addr == "127.0.0.1:9876"
    assert found.name_server_address == f"{OUTWARD}:9876"


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", OUTWARD])
def test_other_hosts_are_let_in_with_accounts_or_on_purpose_only(bind: str, tmp_path: Path) -> None:
    refused = refusal(bind=bind)
    assert refused.startswith(f"--bind {bind} lets other hosts connect, and aclEnable is not true")
    assert refused.endswith(
        "Set aclEnable=true with a file of accounts, or --bind 127.0.0.1, or add --open to accept "
        "that."
    )
    [warning] = plan(bind=bind, open=True).warnings
    assert warning == (
        f"OPEN: whoever reaches {bind}:10911 may read and send every message, because aclEnable is "
        "not true; this host alone may administer"
    )
    trusting = plan("wakelog.open=true", "wakelog.trustedAddresses=*", bind=bind, broker_count=2)
    [warning] = trusting.warnings
    assert warning.endswith("not true; this host and * may administer")
    assert {broker.trusted_addresses for broker in trusting.brokers} == {"*"}
    guarded = plan("aclEnable=true", f"rocketmqHome={tmp_path}", bind=bind)
    assert guarded.warnings == () and guarded.name_server is not None
    assert guarded.name_server.accounts_home == str(tmp_path)
    home = f"rocketmqHome={tmp_path}"
    signing = plan("aclEnable=true", home, "wakelog.accessKey=replica", replica_count=2)
    assert [broker.access_key for broker in signing.brokers] == ["replica"] * 2


@pytest.mark.parametrize("bind", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_this_host_alone_needs_no_accounts(bind: str) -> None:
    found = plan(bind=bind, open=True)
    assert found.warnings == () and found.name_server is not None
    assert found.name_server.accounts_home == found.name_server.trusted_addresses == ""


def test_settings_with_our_prefix_are_used_and_not_passed_on() -> None:
    found = plan("wakelog.logLevel=debug", "wakelog.logFormat=json", "wakelog.checkAdvertise=false")
    assert found.name_server is not None
    assert found.name_server.log_level == found.brokers[0].log_level == LogLevel.DEBUG
    assert found.name_server.log_format == found.brokers[0].log_format == LogFormat.JSON
    assert (found.log_level, found.log_format) == (LogLevel.DEBUG, LogFormat.JSON)
    assert not found.checks_advertised
    assert found.brokers[0].settings.unknown == {}


def test_an_unknown_key_is_a_warning_once_for_all_brokers() -> None:
    found = plan("flushDiskTpye=SYNC_FLUSH", broker_count=2)
    [warning] = found.warnings
    assert warning.endswith("did you mean flushDiskType?")


@pytest.mark.parametrize(
    ("settings", "options", "message"),
    [
        ([], {"broker_count": 0}, "--brokers 0 is not possible. Give 1 to 26."),
        ([], {"broker_count": 27}, "--brokers 27 is not possible. Give 1 to 26."),
        ([], {"replica_count": 0}, "--replicas 0 is not possible. Give 1 to 16."),
        ([], {"replica_count": 17}, "--replicas 17 is not possible. Give 1 to 16."),
        (
            ["brokerId=1"],
            {"replica_count": 2},
            "brokerId is of one broker, and --replicas 2 start several. Leave brokerId out, or",
        ),
        (
            ["haMasterAddress=far:10912"],
            {"replica_count": 2},
            "haMasterAddress is of one broker, and --replicas 2 start several. Leave",
        ),
        (
            ["brokerRole=SLAVE"],
            {"replica_count": 2},
            "--replicas 2 with brokerRole=SLAVE would have no master. Leave brokerRole out",
        ),
        (
            ["wakelog.register=etcd://e:1"],
            {},
            "wakelog.register is for replicas, and this one has no number. Give brokerId, 1 to 16",
        ),
        (
            ["wakelog.register=etcd://e:1", "brokerId=1", "brokerRole=SLAVE"],
            {},
            "brokerRole and wakelog.register cannot both be given",
        ),
        (
            ["transientStorePoolEnable=true"],
            {"replica_count": 2},
            "transientStorePoolEnable would acknowledge what no disk has, and replicas have a",
        ),
        (
            ["haAckDurable=false"],
            {"replica_count": 3},
            "haAckDurable=false would acknowledge what no disk has, and replicas have a register",
        ),
        (
            ["wakelog.register=etcd://e:1", "brokerId=1", "haAckDurable=false"],
            {},
            "haAckDurable=false would acknowledge what no disk has, and replicas have a register",
        ),
        (
            ["wakelog.register=nowhere", "brokerId=1"],
            {},
            "'nowhere' is no address of a register. Give file:///FOLDER",
        ),
        (["flushDiskType=NO"], {}, "flushDiskType=NO is not accepted (--set). Give ASYNC_FLUSH"),
        (["listenPort=x"], {}, "listenPort=x is not accepted (--set). Give a whole number."),
        ([], {"broker_port": 2}, "listenPort=2 is not accepted (--broker-port). Give 3 to 65534."),
        (["messageDelayLevel=1y"], {}, "messageDelayLevel=1y is not accepted (--set)."),
        # 4.9.3 splits at each blank, and does not start with two blanks either.
        (["messageDelayLevel=1s  5s"], {}, "messageDelayLevel=1s  5s is not accepted (--set)."),
        (["aclEnable=true"], {}, "rocketmqHome= is not accepted (not set). Give the folder"),
        (["wakelog.logLevl=x"], {}, "there is no setting wakelog.logLevl. Did you mean wakelog."),
        (
            ["wakelog.logLevel=loud"],
            {},
            "wakelog.logLevel=loud is not accepted (--set). Give debug",
        ),
        (
            ["wakelog.trustedAddresses=10.0.0.0/8"],
            {},
            "wakelog.trustedAddresses=10.0.0.0/8 is not accepted (--set). Give patterns of",
        ),
        (
            ["wakelog.accessKey=replica"],
            {},
            "wakelog.accessKey=replica is not accepted (--set). Give it with aclEnable=true",
        ),
        (["brokerRole=SLAVE"], {}, "brokerId=0 is not accepted (not set). Give above 0 for"),
        (["haMasterAddress=far"], {}, "haMasterAddress=far is not accepted (--set). Give HOST:"),
        ([], {"bind": "nowhere"}, "--bind nowhere is not known: Name or service not known. Give"),
        ([], {"advertise": "nowhere"}, "--advertise nowhere is not known"),
        ([], {"advertise": "0.0.0.0"}, "--advertise 0.0.0.0 is no address that a client could"),
        (["brokerIP1=0.0.0.0"], {}, "brokerIP1 0.0.0.0 is no address that a client could"),
        (["namesrvAddr=far"], {}, "namesrvAddr=far is not accepted (--set). Give HOST:PORT"),
        (["namesrvAddr=far:0"], {}, "namesrvAddr=far:0 is not accepted"),
        ([], {"name_server_port": 0}, "--namesrv-port 0 starts no name server, and no other"),
        ([], {"name_server_port": 70000}, "--namesrv-port: 70000 is no port. Give 1 to 65535."),
        (
            [],
            {"name_server_port": 10909},
            "port 10909 is for the name server and for broker-a's VIP channel, its port - 2, alike",
        ),
        ([], {"metrics_port": 10911}, "port 10911 is for broker-a and for the metrics alike."),
        (
            ["storePathCommitLog=/log"],
            {"broker_count": 2},
            "storePathCommitLog names one place and 2 brokers need several. Leave ",
        ),
        (
            ["brokerName=../b"],
            {"broker_count": 2},
            "brokerName ../b cannot name a directory, and 2 brokers need some.",
        ),
        (["brokerName=a/b"], {}, "brokerName a/b cannot name a directory, and a broker needs one."),
        (["brokerName=.."], {}, "brokerName .. cannot name a directory, and a broker needs one."),
        ([], {"broker_count": 26, "broker_port": 65500}, "listenPort=65540 is not accepted"),
    ],
)
def test_an_impossible_option_is_refused_with_a_remedy(
    settings: list[str], options: dict[str, Any], message: str
) -> None:
    assert refusal(*settings, **options).startswith(message)


def test_a_refused_setting_of_the_file_is_named_with_the_file(tmp_path: Path) -> None:
    message = refusal(conf="brokerPermission=99", directory=tmp_path)
    path = tmp_path / "broker.conf"
    assert message == f"brokerPermission=99 is not accepted ({path}). Give 0 to 15."


def test_parquet_files_need_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan("parquetDispatcher=true").brokers[0].settings.store.parquet_dispatcher
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "extra spark" in refusal("parquetDispatcher=true")
    assert not plan("parquetFileBytes=2048").brokers[0].settings.store.parquet_dispatcher


def test_clients_with_and_without_tls_are_accepted_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("wakelog.actors.deploy.planning.DEFAULT_CONFIG_PATH", "/nowhere")
    found = plan()
    assert found.tls == TlsSource(TlsMode.PERMISSIVE, "", os.getcwd())
    assert found.brokers[0].tls == found.tls
    assert not found.brokers[0].settings.broker.use_tls
    assert found.tls_text == ""


def test_tls_properties_are_read_where_4_9_3_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tls.properties"
    path.write_text(
        "tls.test.mode.enable=false\ntls.server.certPath=/c.pem\ntls.server.keyPath=/k\n"
        "tls.server.keyPassword=hush\ntls.enable=true\n"
    )
    monkeypatch.setattr("wakelog.actors.deploy.planning.DEFAULT_CONFIG_PATH", str(path))
    found = plan()
    assert (found.tls.config_path, found.tls_text) == (str(path), "permissive, /c.pem")
    [warning] = found.warnings
    assert warning.startswith(f"tls.enable in {path} has no effect, as in 4.9.3")
    assert "hush" not in repr(found) + str(msgspec.to_builtins(found))


@pytest.mark.parametrize(
    ("settings", "uses_tls"),
    [
        (["tls.server.mode=enforcing"], True),
        (["tls.server.mode=enforcing", "tls.enable=false"], False),
        (["tls.enable=true"], True),
        (["tls.enable=true", "useTLS=false"], False),
        (["useTLS=true"], True),
        (["tls.server.mode=disabled"], False),
    ],
)
def test_a_broker_calls_its_name_servers_with_tls(settings: list[str], uses_tls: bool) -> None:
    [broker] = plan(*settings).brokers
    assert broker.settings.broker.use_tls == uses_tls
    assert not any(key.startswith("tls.") for key in broker.settings.unknown)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("tls.server.mode=forced", "tls.server.mode=forced is not accepted. Give disabled or perm"),
        ("tls.enable=yes", "tls.enable=yes is not accepted. Give true or false."),
        ("tls.server.mod=enforcing", "there is no setting tls.server.mod. Did you mean tls.server"),
        ("tls.config.file=/nowhere", "/nowhere cannot be read: No such file or directory. Name a "),
        (
            "tls.server.keyPassword=hush",
            "tls.server.keyPassword may be in tls.properties only, which others need not be able "
            "to read. Put it there, and name the file with tls.config.file.",
        ),
    ],
)
def test_tls_settings_that_cannot_be_used_are_refused(setting: str, message: str) -> None:
    assert refusal(setting).startswith(message)


def name_server_plan(*settings: str, **options: Any) -> Plan:
    return make_name_server_plan(NameServerOptions(settings=settings, **options), FakeAddresses())


def test_a_name_server_alone_has_the_defaults_of_rocketmq(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    made = name_server_plan()
    assert made.name_server is not None and made.brokers == ()
    config = made.name_server.settings.config
    assert (config.listen_port, config.kv_config_path) == (
        9876,
        "/home/someone/namesrv/kvConfig.json",
    )
    assert made.name_server_address == "127.0.0.1:9876"
    assert [use.flag for use in made.ports] == ["--port", "--metrics-port"]
    assert made.warnings == ()


def test_a_name_server_alone_takes_a_namesrv_conf_which_flags_beat(tmp_path: Path) -> None:
    conf = tmp_path / "namesrv.conf"
    conf.write_text("listenPort=1\norderMessageEnable=true\nserverWorkerThreads=9\nnoKey=1\n")
    made = name_server_plan(
        "serverSocketBacklog=7", config_path=str(conf), port=2, store=f"{tmp_path}/s"
    )
    assert made.name_server is not None
    settings = made.name_server.settings
    config = settings.config
    assert (config.listen_port, config.order_message_enable) == (2, True)
    assert (config.server_socket_backlog, settings.others) == (7, {"serverWorkerThreads": "9"})
    assert config.kv_config_path == f"{tmp_path}/s/kvConfig.json"
    assert made.log_directory == f"{tmp_path}/s/wakelog.logs"
    assert made.warnings == ("noKey is not a key of RocketMQ 4.9.3's name server",)


@pytest.mark.parametrize(
    ("settings", "warns", "home"),
    [
        ((), True, ""),
        (("wakelog.trustedAddresses=10.0.0.*",), False, ""),
        (("aclEnable=true", "rocketmqHome=/etc/rocketmq"), False, "/etc/rocketmq"),
    ],
)
def test_a_name_server_for_other_hosts_says_which_brokers_it_takes(
    settings: tuple[str, ...], warns: bool, home: str
) -> None:
    made = name_server_plan(*settings, bind="0.0.0.0")
    assert made.name_server is not None
    assert (made.advertised_host, made.name_server.accounts_home) == (OUTWARD, home)
    assert any("brokers of other hosts are refused" in line for line in made.warnings) == warns


@pytest.mark.parametrize(
    ("settings", "port", "said"),
    [
        ((), 0, "--port: 0 is no port"),
        (("listenPort=70000",), None, "listenPort=70000 is not accepted (--set)"),
        (("aclEnable=true",), None, "aclEnable=true is not accepted (--set)"),
        (("wakelog.register=x", "wakelog.logLevels=x"), None, "no setting wakelog.logLevels"),
    ],
)
def test_an_impossible_name_server_is_refused(
    settings: tuple[str, ...], port: int | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    with pytest.raises(NotPossible) as refused:
        name_server_plan(*settings, port=port)
    assert said in str(refused.value)


TEXTS = ["", " ", "a\udce9", "a\0b", "x" * 70_000, "=", "a=b", "[", "::", "-1"]
NUMBERS = [-1, 0, 1, 65_536, 1 << 31, 1 << 63, 1 << 70]
KINDS: dict[str, list[Any]] = {
    "str": TEXTS,
    "int": NUMBERS,
    "tuple": [(text,) for text in [*TEXTS, *(f"brokerName={each}" for each in TEXTS)]],
}
CHOICES = {"bool", "Transport"}
"""Of these the command line gives none but right ones."""


@pytest.mark.parametrize(
    ("kind", "make"), [(UpOptions, make_plan), (NameServerOptions, make_name_server_plan)]
)
def test_every_option_of_odd_value_gives_a_plan_or_a_refusal(
    kind: type[msgspec.Struct], make: Callable[[Any], Plan]
) -> None:
    for field in msgspec.structs.fields(kind):
        parts = re.findall(r"\w+", getattr(field.type, "__name__", str(field.type)))
        if CHOICES & set(parts):
            continue
        [values] = [KINDS[part] for part in parts if part in KINDS][:1]
        for odd in values:
            try:
                assert isinstance(make(kind(**{field.name: odd})), Plan)
            except NotPossible as refused:
                assert refused.cause and refused.remedy, (field.name, odd)
