"""From the values of the command line to a Plan that fits together.

What follows from a setting is decided here and nowhere else: names, ports and directories of
several brokers, and the address that clients get. Planning reads broker.conf, tls.properties,
ROCKETMQ_HOME and the addresses of this host, and nothing else of the machine.

Keys that begin with `tls.` are the system properties of 4.9.3, which reads them from no file but
tls.properties. A broker calls its name servers with TLS if `useTLS` or else `tls.enable` says so,
and without either if `tls.server.mode` is enforcing.

Which name server a broker registers with:

    --namesrv-port   namesrvAddr              its own name server; where the brokers register
    absent           absent                   on port 9876; there
    absent           names this host          on the port it names; everywhere it names
    absent           names other hosts only   none; everywhere it names
    0                has to be given          none; everywhere it names
    a port           absent, or in the file   on that port; there
    a port           in --set                 on that port; there and everywhere it names

Source: org.apache.rocketmq.broker.BrokerStartup.createBrokerController (4.9.3).
"""

import contextlib
import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from os.path import dirname, join
from typing import Any

from wakelog.actors.deploy.host_addresses import HostAddresses, is_wildcard, reachable_from_here
from wakelog.actors.deploy.layers import LOG_PATH_KEYS, Layers, read_layers
from wakelog.actors.deploy.plan import ConsolePlan, NameServerOptions, Plan, UpOptions
from wakelog.actors.deploy.replicas import check_replicas, register_of, replicas_of
from wakelog.actors.deploy.up_keys import (
    ACCESS_KEY,
    CHECK_ADVERTISE,
    LOG_FORMAT,
    LOG_LEVEL,
    METRICS_NAMES,
    OPEN,
    TAKE_OVER_NAME,
    TRUSTED_ADDRESSES,
    UP_KEYS,
    UP_PREFIX,
    read_metrics_names,
)
from wakelog.actors.errors import NotPossible
from wakelog.actors.registers.register import RegisterRefused, read_address
from wakelog.actors.start_outcome import sentence
from wakelog.actors.transport.service_plan import NameServerPlan, ServicePlan, memory_directory
from wakelog.broker.access.addresses import is_loopback
from wakelog.broker.access.administrators import read_trusted
from wakelog.broker.config import DEFAULT_LISTEN_PORT, BrokerConfig
from wakelog.broker.config_file import BrokerSettings, read_broker_conf
from wakelog.nameserver.config import DEFAULT_LISTEN_PORT as DEFAULT_NAME_SERVER_PORT
from wakelog.nameserver.config import (
    NameServerConfig,
    NameServerSettings,
    all_settings,
    read_name_server_conf,
)
from wakelog.network.errors import TlsRefused
from wakelog.network.tls import TlsMode
from wakelog.network.tls_properties import (
    CONFIG_FILE,
    DEFAULT_CONFIG_PATH,
    DEFAULTS,
    ENABLE,
    GIVEN_KEYS,
    MODE,
    PASSWORD_KEYS,
    PREFIX,
    TlsSource,
    read_choice,
    read_flag,
    read_tls,
)
from wakelog.protocol.addresses import read_name_servers
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import IllegalConfiguration
from wakelog.storage.settings_text import convert_value
from wakelog.telemetry.logs import LogFormat, LogLevel

DEFAULT_STORE = "~/store"  # 4.9.3's storePathRootDir
DEFAULT_METRICS_PORT = 5557  # rocketmq-exporter's
DEFAULT_CONSOLE_PORT = 8080  # rocketmq-dashboard's
DEFAULT_BROKER_NAME = "broker-a"

CONSOLE_PACKAGES = ("jinja2", "python_multipart", "starlette", "uvicorn")

DRAIN_SECONDS_MAX = 3_600  # more than the longest time between two sends that matter
BROKERS_MAX = 26  # one for each letter of the alphabet
PORTS_BETWEEN_BROKERS = 20

LOG_DIRECTORY_NAME = "wakelog.logs"
NAME_SERVER_DIRECTORY_NAME = "wakelog.namesrv"
DEFAULT_NAME_SERVER_STORE = "~/namesrv"  # the folder of 4.9.3's kvConfigPath
KV_CONFIG_NAME = "kvConfig.json"
ACL_ENABLE = "aclEnable"

_NOT_SHOWN = (UP_PREFIX, PREFIX)
"""How keys begin that a broker does not show to clients (code 26)."""

_DIRECTORY_NAME = re.compile(r"[%|a-zA-Z0-9_-][%|a-zA-Z0-9_.-]{0,126}", re.ASCII)


def make_plan(options: UpOptions, addresses: HostAddresses | None = None) -> Plan:
    """Return the plan of a deployment. Raises: NotPossible."""
    broker_port = None if options.broker_port is None else str(options.broker_port)
    flags = {
        "--store": ("storePathRootDir", options.store),
        "--broker-port": ("listenPort", broker_port),
        "--advertise": ("brokerIP1", options.advertise),
        "--open": (OPEN, "true" if options.open else None),
    }
    with _in_words_of_options(flags, options.config_path, options.settings) as layers:
        plan = _Planning(options, layers, addresses or HostAddresses()).plan()
    refuse_shared_ports(plan)
    return plan


@contextlib.contextmanager
def _in_words_of_options(
    flags: Mapping[str, tuple[str, str | None]], config_path: str | None, sets: Sequence[str]
) -> Iterator[Layers]:
    """Yield the settings; say of one that is refused where it was given. Raises: NotPossible."""
    layers = Layers({}, {}, {})
    try:
        layers = read_layers(config_path, sets, flags)
        yield layers
    except IllegalConfiguration as error:
        place = "--set" if error.key in layers.sets else config_path or "not set"
        if error.key in layers.flags:
            [place] = [flag for flag, (key, _) in flags.items() if key == error.key]
        raise NotPossible(
            f"{error.key}={error.value} is not accepted ({place})", f"Give {error.accepted}."
        ) from None
    except TlsRefused as error:
        cause, _, remedy = str(error).partition("; ")
        raise NotPossible(cause, sentence(remedy)) from None


def make_name_server_plan(
    options: NameServerOptions, addresses: HostAddresses | None = None
) -> Plan:
    """Return the plan of a name server alone, in one process. Raises: NotPossible."""
    flags = {
        "--store": ("kvConfigPath", options.store and join(options.store, KV_CONFIG_NAME)),
        "--port": ("listenPort", None if options.port is None else str(options.port)),
    }
    up = UpOptions(
        bind=options.bind,
        advertise=options.advertise,
        is_local=True,
        metrics_port=options.metrics_port,
    )
    with _in_words_of_options(flags, options.config_path, options.settings) as layers:
        plan = _Planning(up, layers, addresses or HostAddresses()).plan_name_server()
    refuse_shared_ports(plan)
    return plan


class _Planning:
    """The steps from options and settings to a plan."""

    def __init__(self, options: UpOptions, layers: Layers, addresses: HostAddresses) -> None:
        self._options = options
        self._layers = layers
        self._given = layers.merged()
        self._addresses = addresses
        self._warnings: list[str] = []
        self._tls_text = ""
        self._register = ""
        self._replica_ids: dict[str, int] = {}

    def plan(self) -> Plan:
        _refuse_unknown_own_keys(self._given)
        self._leave_out_paths()
        root = self._given.get("storePathRootDir") or os.path.expanduser(DEFAULT_STORE)
        bind_host = self._resolve("--bind", self._options.bind)
        advertised_host = self._advertised_host(bind_host)
        name_server, registered_at = self._name_server(bind_host, root)
        follows = {
            "namesrvAddr": ";".join(registered_at),
            "brokerIP1": advertised_host,
            "brokerIP2": self._given.get("brokerIP2") or advertised_host,
        }
        everywhere = self._everywhere(bind_host)
        enforces = everywhere["tls"].mode is TlsMode.ENFORCING
        enable = self._given.get(ENABLE) or str(enforces)
        follows["useTLS"] = self._given.get("useTLS") or str(read_flag(ENABLE, enable))
        log_directory = join(root, LOG_DIRECTORY_NAME)
        settings_of = self._broker_settings(bind_host, root, follows)
        first = next(iter(settings_of.values())).broker
        trusted = self._trusted_addresses()
        self._check_open(bind_host, first, trusted)
        of_process = {**everywhere, "trusted_addresses": trusted}
        is_alone = len(settings_of) == 1
        brokers = [
            self._broker(
                name, settings, log_directory if is_alone else join(log_directory, name), of_process
            )
            for name, settings in settings_of.items()
        ]
        return self._planned(
            advertised_host=advertised_host,
            checks_advertised=self._own(CHECK_ADVERTISE, bool),
            name_server=None
            if name_server is None
            else NameServerPlan(
                settings=NameServerSettings(name_server),
                advertised_host=advertised_host,
                log_directory=log_directory,
                accounts_home=first.rocketmq_home if first.acl_enable else "",
                **of_process,
            ),
            brokers=tuple(brokers),
            store_root=root,
            log_directory=log_directory,
            console=self._console(first),
            **everywhere,
        )

    def _everywhere(self, bind_host: str) -> dict[str, Any]:
        """Return what holds for the deployment and for each of its processes."""
        return {
            "bind_host": bind_host,
            "log_level": self._own(LOG_LEVEL, LogLevel),
            "log_format": self._own(LOG_FORMAT, LogFormat),
            "tls": self._tls(),
        }

    def _planned(self, **facts: Any) -> Plan:
        """Return a plan of these facts, and of what the options say of every deployment."""
        metrics_port = self._options.metrics_port
        return Plan(
            is_local=self._options.is_local,
            plain_ray=self._options.plain_ray,
            metrics_port=DEFAULT_METRICS_PORT if metrics_port is None else metrics_port,
            metrics_port_is_default=metrics_port is None,
            metrics_names=read_metrics_names(self._own(METRICS_NAMES, str)),
            drain_seconds=self._drain_seconds(),
            warnings=tuple(dict.fromkeys(self._warnings)),
            tls_text=self._tls_text,
            **facts,
        )

    def _drain_seconds(self) -> int:
        seconds = self._options.drain_seconds
        if not 0 <= seconds <= DRAIN_SECONDS_MAX:
            raise NotPossible(
                f"--drain-seconds {seconds} is not accepted",
                f"Give a number from 0 to {DRAIN_SECONDS_MAX}.",
            )
        return seconds

    def _console(self, broker: BrokerConfig) -> ConsolePlan | None:
        """Return the console beside the brokers, or why there is none."""
        port, account = self._options.console_port, self._options.console_account
        if port == 0:
            return None
        why_not = ""
        if any(find_spec(each) is None for each in CONSOLE_PACKAGES):
            why_not = "not installed: pip install 'wakelog[console]'"
        elif broker.acl_enable and account is None:
            why_not = f"off: {ACL_ENABLE}=true; give --console-account FILE, the keys of an account"
        return ConsolePlan(
            port=DEFAULT_CONSOLE_PORT if port is None else port,
            port_is_default=port is None,
            account_path="" if account is None else os.path.abspath(account),
            why_not=why_not,
        )

    def plan_name_server(self) -> Plan:
        given = self._given
        _refuse_unknown_own_keys(given)
        bind_host = self._resolve("--bind", self._options.bind)
        path = given.get("kvConfigPath") or join(DEFAULT_NAME_SERVER_STORE, KV_CONFIG_NAME)
        path = os.path.abspath(os.path.expanduser(path))
        settings = read_name_server_conf({**given, "kvConfigPath": path})
        for key in given:
            if not key.startswith(_NOT_SHOWN) and key not in (*all_settings(settings), ACL_ENABLE):
                self._warnings.append(f"{key} is not a key of RocketMQ 4.9.3's name server")
        _refuse_no_port(settings.config.listen_port, "--port")
        advertised_host = self._advertised_host(bind_host)
        trusted = self._trusted_addresses()
        has_accounts = convert_value(ACL_ENABLE, given.get(ACL_ENABLE) or "false", bool)
        home = given.get("rocketmqHome") or _from_environment().get("rocketmqHome", "")
        if has_accounts and not home:
            raise IllegalConfiguration(ACL_ENABLE, "true", "it with rocketmqHome, or ROCKETMQ_HOME")
        if not (is_loopback(bind_host) or trusted or has_accounts):
            self._warnings.append(
                f"brokers of other hosts are refused: give {TRUSTED_ADDRESSES} with their"
                f" addresses, or {ACL_ENABLE}=true"
            )
        everywhere = {
            "advertised_host": advertised_host,
            "log_directory": join(dirname(path), LOG_DIRECTORY_NAME),
            **self._everywhere(bind_host),
        }
        return self._planned(
            checks_advertised=False,
            name_server=NameServerPlan(
                settings=settings,
                trusted_addresses=trusted,
                accounts_home=home if has_accounts else "",
                **everywhere,
            ),
            brokers=(),
            store_root=dirname(path),
            **everywhere,
        )

    def _broker(
        self, name: str, settings: BrokerSettings, log_directory: str, everywhere: dict[str, Any]
    ) -> ServicePlan:
        return ServicePlan(
            settings=settings,
            deployed_name="" if name == settings.broker.broker_name else name,
            transport=self._options.transport,
            log_directory=log_directory,
            memory_directory=memory_directory(),
            in_one_process=self._options.is_local,
            takes_over_name=self._own(TAKE_OVER_NAME, bool),
            register=self._register,
            replica_id=self._replica_ids[name],
            access_key=self._access_key(settings),
            **everywhere,
        )

    def _trusted_addresses(self) -> str:
        text = self._given.get(TRUSTED_ADDRESSES) or ""
        try:
            read_trusted(text)
        except ValueError as error:
            accepted = f"patterns of addresses with ';' between, such as 10.0.0.*: {error}"
            raise IllegalConfiguration(TRUSTED_ADDRESSES, text, accepted) from None
        return text

    def _access_key(self, settings: BrokerSettings) -> str:
        access_key = self._given.get(ACCESS_KEY) or ""
        if access_key and not settings.broker.acl_enable:
            accepted = "it with aclEnable=true: the files of accounts have its secret key"
            raise IllegalConfiguration(ACCESS_KEY, access_key, accepted)
        return access_key

    def _check_open(self, bind_host: str, broker: BrokerConfig, trusted: str) -> None:
        """Refuse what other hosts could use without an account, or note it. Raises: NotPossible."""
        is_open = self._own(OPEN, bool)
        if is_loopback(bind_host) or broker.acl_enable:
            return
        port = broker.listen_port
        if not is_open:
            raise NotPossible(
                f"--bind {bind_host} lets other hosts connect, and aclEnable is not true: whoever "
                f"reaches port {port} could read and send every message",
                "Set aclEnable=true with a file of accounts, or --bind 127.0.0.1, or add --open to "
                "accept that.",
            )
        administrators = f"this host and {trusted}" if trusted else "this host alone"
        self._warnings.append(
            f"OPEN: whoever reaches {bind_host}:{port} may read and send every message, because "
            f"aclEnable is not true; {administrators} may administer"
        )

    def _tls(self) -> TlsSource:
        """Return where the settings are; note what is to be said of them. Raises: TlsRefused."""
        given = {key: value for key, value in self._given.items() if key.startswith(PREFIX)}
        mode = read_choice(MODE, given.get(MODE) or TlsMode.PERMISSIVE, TlsMode)
        path = given.get(CONFIG_FILE) or ""
        if not path and os.path.exists(DEFAULT_CONFIG_PATH):
            path = DEFAULT_CONFIG_PATH
        of_file = {key: value for key, value in given.items() if key in DEFAULTS}
        tls = TlsSource(mode, path, os.getcwd(), of_file)
        server, _, warnings = read_tls(tls)
        self._warnings.extend(warnings)
        own = "a self-signed certificate" if server.is_self_signed else server.cert_path
        if mode is not TlsMode.DISABLED and (given or path):
            self._tls_text = f"{mode}, {own}"
        return tls

    def _own(self, key: str, kind: type) -> Any:
        return convert_value(key, self._given.get(key) or UP_KEYS[key].default, kind)

    def _leave_out_paths(self) -> None:
        """Drop other paths with --store: those of a copied broker.conf must not be written to."""
        if self._options.store is not None:
            for key in LOG_PATH_KEYS:
                if self._layers.file.pop(key, None) is not None:
                    path = self._options.config_path
                    self._warnings.append(f"{key} of {path} is not used, because --store is given")
        if (count := self._options.store_count) > 1:
            for key in LOG_PATH_KEYS:
                if self._given.get(key):
                    raise NotPossible(
                        f"{key} names one place and {count} brokers need several",
                        f"Leave {key} out: each broker keeps its log in its own store.",
                    )

    def _advertised_host(self, bind_host: str) -> str:
        said = self._given.get("brokerIP1")
        if not said:
            return self._addresses.outward(bind_host) if is_wildcard(bind_host) else bind_host
        where = "--advertise" if self._options.advertise else "brokerIP1"
        advertised = self._resolve(where, said)
        if is_wildcard(advertised):
            raise NotPossible(
                f"{where} {said} is no address that a client could connect to",
                "Give the address by which clients reach this host.",
            )
        if advertised != said:
            # A record holds the address of the broker that stored it, and has no room for a name.
            self._warnings.append(f"{where} {said} is advertised by its address {advertised}")
        return advertised

    def _resolve(self, where: str, host: str) -> str:
        try:
            return self._addresses.resolve(host)
        except OSError as error:
            raise NotPossible(
                f"{where} {host} is not known: {error.strerror or error}",
                "Give an address, such as 127.0.0.1 or one that `ip addr` shows.",
            ) from None

    def _name_server(self, bind_host: str, root: str) -> tuple[NameServerConfig | None, list[str]]:
        """Return a name server of this deployment, and where brokers register (table above)."""
        text = self._given.get("namesrvAddr") or ""
        try:
            listed = read_name_servers(text)
        except ValueError:
            accepted = "HOST:PORT, or several with ';' between"
            raise IllegalConfiguration("namesrvAddr", text, accepted) from None
        port = self._options.name_server_port
        if port == 0 and not listed:
            raise NotPossible(
                "--namesrv-port 0 starts no name server, and no other one is named",
                "Name one with --set namesrvAddr=HOST:PORT, or leave --namesrv-port out.",
            )
        if port and "namesrvAddr" not in self._layers.sets:
            listed = ()
        own = None
        if port is None:
            own = next(filter(self._is_here, listed), None)
            if not listed:
                port = DEFAULT_NAME_SERVER_PORT
            elif own is not None:
                port = int(own.rpartition(":")[2])
        others = [address for address in listed if address != own]
        if not port:
            return None, others
        # The brokers reach it where it listens, whatever is advertised.
        first = f"{reachable_from_here(bind_host)}:{port}"
        _refuse_no_port(port, "--namesrv-port")
        path = join(root, NAME_SERVER_DIRECTORY_NAME, KV_CONFIG_NAME)
        name_server = NameServerConfig(listen_port=port, kv_config_path=path)
        return name_server, [first, *(address for address in others if address != first)]

    def _is_here(self, address: str) -> bool:
        try:
            return self._addresses.is_own(self._addresses.resolve(address.rpartition(":")[0]))
        except OSError:
            return False

    def _broker_settings(
        self, bind_host: str, root: str, follows: dict[str, str]
    ) -> dict[str, BrokerSettings]:
        """Return the settings of each broker by its name in the deployment."""
        options, given = self._options, self._given
        check_replicas(options.replica_count, given)
        self._register = register_of(options.replica_count, given, root)
        if self._register:
            _check_address(self._register)
        first_name = given.get("brokerName") or DEFAULT_BROKER_NAME
        first_port = given.get("listenPort") or str(DEFAULT_LISTEN_PORT)
        port = convert_value("listenPort", first_port, int)
        merged = {key: value for key, value in given.items() if not key.startswith(_NOT_SHOWN)}
        found: dict[str, BrokerSettings] = {}
        for broker_name in _broker_names(first_name, options):
            replicas = replicas_of(
                broker_name,
                options.replica_count,
                given=given,
                has_register=bool(self._register),
                host=reachable_from_here(bind_host),
                first_port=port,
            )
            for replica in replicas:
                name = replica.deployed_name or broker_name
                values = {
                    "brokerName": broker_name,
                    "listenPort": str(port),
                    "storePathRootDir": root if options.store_count == 1 else join(root, name),
                    **replica.settings,
                }
                settings = read_broker_conf(
                    "", defaults=_from_environment(), overrides={**merged, **follows, **values}
                )
                _refuse_without_pyarrow(settings.store)
                self._warnings.extend(settings.warnings)
                found[name] = settings
                self._replica_ids[name] = replica.replica_id
                port += PORTS_BETWEEN_BROKERS
        return found


def _check_address(register: str) -> None:
    try:
        read_address(register)
    except RegisterRefused as error:
        raise NotPossible(error.cause, error.remedy) from None


def _refuse_without_pyarrow(store: StoreConfig) -> None:
    if store.parquet_dispatcher and find_spec("pyarrow") is None:
        raise NotPossible(
            "parquetDispatcher=true needs pyarrow, which is not installed",
            "Install wakelog with its extra spark, or leave parquetDispatcher out.",
        )


def _from_environment() -> dict[str, str]:
    home = os.environ.get("ROCKETMQ_HOME")
    return {"rocketmqHome": os.path.abspath(home)} if home else {}


def _broker_names(first_name: str, options: UpOptions) -> list[str]:
    """Return broker-a, broker-b, ... for broker-a, and lone-a, lone-b, ... for lone."""
    count = options.broker_count
    if not 1 <= count <= BROKERS_MAX:
        raise NotPossible(f"--brokers {count} is not possible", f"Give 1 to {BROKERS_MAX}.")
    is_legal = options.store_count == 1 or _DIRECTORY_NAME.fullmatch(first_name) is not None
    if not is_legal or "/" in first_name or first_name in (".", ".."):
        plural = options.store_count > 1
        cause = f"{options.store_count} brokers need some" if plural else "a broker needs one"
        raise NotPossible(
            f"brokerName {first_name} cannot name a directory, and {cause}",
            "Use letters, digits, '-' and '_'.",
        )
    if count == 1:
        return [first_name]
    stem = first_name.removesuffix("-a")
    return [f"{stem}-{chr(ord('a') + index)}" for index in range(count)]


def _refuse_unknown_own_keys(given: Mapping[str, str]) -> None:
    for key in given:
        if key in PASSWORD_KEYS:
            cause = f"{key} may be in tls.properties only, which others need not be able to read"
            raise NotPossible(cause, f"Put it there, and name the file with {CONFIG_FILE}.")
        for prefix, keys in ((UP_PREFIX, list(UP_KEYS)), (PREFIX, sorted(GIVEN_KEYS))):
            if not key.startswith(prefix) or key in keys:
                continue
            near = difflib.get_close_matches(key, keys, n=1) or [" or ".join(keys)]
            raise NotPossible(f"there is no setting {key}", f"Did you mean {near[0]}?")


def refuse_shared_ports(plan: Plan) -> None:
    """Refuse two uses of one port. Raises: NotPossible."""
    users: dict[int, str] = {}
    for use in plan.ports:
        _refuse_no_port(use.port, use.flag)
        if use.port in users:
            raise NotPossible(
                f"port {use.port} is for {users[use.port]} and for {use.user} alike",
                f"Choose another one with {use.flag}.",
            )
        users[use.port] = use.user


def _refuse_no_port(port: int, flag: str) -> None:
    if not 0 < port <= 0xFFFF:
        raise NotPossible(f"{flag}: {port} is no port", "Give 1 to 65535.")
