"""SECURITY.md names tests that exist, and known attacks on RocketMQ 4.9.3 do nothing here."""

import ast
import hmac
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.access.requests import ADMIN, FILE, LOW, UNSIGNED, WHITE_HOST, WRONG, signed
from tests.broker.access.requests import access_control as accounts
from tests.broker.harness import FakeChannel, Harness, send_fields
from tests.nameserver.harness import Announced, topic
from tests.nameserver.harness import Harness as NameServerHarness
from wakelog.broker.access.accounts import AccessFileRefused, read_file
from wakelog.broker.config_file import all_settings
from wakelog.cli.spark import SETTINGS
from wakelog.network.audit_line import AuditLine
from wakelog.protocol.bodies import HeartbeatData, decode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand

ROOT = Path(__file__).resolve().parent.parent
NAMED = re.compile(r"`(tests/[a-z_0-9/]+\.py)::(test_\w+)`")

SERVING = "protocol network filter broker nameserver dispatchers storage actors/broker"
RUNS_CODE = {"pickle", "cloudpickle", "marshal", "shelve", "subprocess", "pty", "code"}
CALLS_CODE = re.compile(r"(eval|exec|compile|os\.(system|popen|exec\w+)|yaml\.(unsafe_)?load\w*)")


def test_every_line_names_a_test_that_exists() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ") and "tests/" in line]
    assert len(rows) > 30
    for row in rows:
        named = NAMED.findall(row)
        assert len(named) == row.count("tests/"), row
        for path, name in named:
            assert re.search(rf"def {name}\(", (ROOT / path).read_text()), (path, name)


def test_what_serves_requests_starts_nothing_and_unpickles_nothing() -> None:
    modules = [path for part in SERVING.split() for path in (ROOT / "wakelog" / part).rglob("*.py")]
    assert len(modules) > 150
    found = [f"{path}: {name}" for path in modules for name in names_of(path)]
    assert not [name for name in found if name.split(": ")[1] in RUNS_CODE]
    assert not [name for name in found if CALLS_CODE.fullmatch(name.split(": ")[1])]


def names_of(path: Path) -> Iterator[str]:
    """Yield what a module imports and calls."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]
        elif isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def test_the_search_for_code_finds_some(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("import pickle\nfrom subprocess import run\n")
    assert RUNS_CODE & set(names_of(module)) == {"pickle", "subprocess"}
    assert all(map(CALLS_CODE.fullmatch, ("yaml.load", "yaml.unsafe_load", "eval", "os.system")))
    assert not any(map(CALLS_CODE.fullmatch, ("yaml.safe_load", "re.compile", "evaluate")))


def test_a_signature_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(given: bytes, expected: bytes) -> bool:
        compared.append((given, expected))
        return given == expected

    monkeypatch.setattr(hmac, "compare_digest", compare)
    right, wrong = (signed(RequestCode.GET_BROKER_CONFIG, by) for by in (LOW, WRONG))
    assert Guarded().put(right).code == ResponseCode.SUCCESS
    assert Guarded().put(wrong).code == ResponseCode.SYSTEM_ERROR
    assert [given == expected for given, expected in compared] == [True, False]


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-up.lock"])
def test_every_package_has_a_hash(name: str) -> None:
    text = re.sub(r"^ *#.*\n", "", (ROOT / name).read_text(), flags=re.M)
    packages = text.replace("\\\n", "").splitlines()
    assert len(packages) > 10
    for package in packages:
        assert re.match(r"[a-z0-9][\w.-]*==[^ ]+ .*--hash=sha256:[0-9a-f]{64}", package), package


def test_spark_opens_no_page() -> None:
    assert SETTINGS["spark.ui.enabled"] == "false"


class Guarded(Harness):
    """A broker with access control."""

    def __init__(self) -> None:
        self.access = accounts()
        super().__init__()

    def put(self, command: RemotingCommand, host: str = "10.0.0.9") -> RemotingCommand:
        response = self.settle(self.broker.process(command, FakeChannel(2, host), self.now_ms))
        assert isinstance(response, RemotingCommand), response
        return response


@pytest.mark.parametrize(
    "key", ["rocketmqHome", "filterServerNums", "namesrvAddr", "storePathRootDir"]
)
def test_cve_2023_33246(key: str) -> None:
    harness = Harness()
    before = all_settings(harness.settings)
    body = f"{key}=-c $@|sh . touch /tmp/owned;".encode()
    assert (
        harness.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body).code == ResponseCode.SYSTEM_ERROR
    )
    assert all_settings(harness.settings) == before
    remote = FakeChannel(2, "10.0.0.9")
    refused = harness.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"traceOn=false", channel=remote)
    assert refused.code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("key", ["configStorePath", "configStorePathName", "kvConfigPath"])
def test_cve_2023_37582(key: str) -> None:
    harness = NameServerHarness()
    body = f"{key}=/tmp/owned\nproductEnvName=test/path\\ntest\\ntest".encode()
    answered = harness.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body)
    assert answered.code == ResponseCode.SYSTEM_ERROR
    shown = harness.ask(RequestCode.GET_NAMESRV_CONFIG).body
    assert b"owned" not in shown and b"test" not in shown
    [line] = harness.core.take_instructions()
    assert isinstance(line, AuditLine) and line.is_failed  # and nothing is to be written


@pytest.mark.parametrize(
    "code", [RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG, RequestCode.GET_BROKER_CONFIG]
)
def test_cve_2024_23321(code: int) -> None:
    harness = Guarded()
    for by, host in ((LOW, "10.0.0.9"), (LOW, "10.2.0.1"), (UNSIGNED, WHITE_HOST)):
        response = harness.put(signed(code, by), host)
        assert response.code == ResponseCode.SUCCESS
        assert b"-secret" not in response.body
        assert "-secret" not in str(response.ext_fields)
    if code == RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG:
        assert b"low-secret" in harness.put(signed(code, ADMIN)).body


@pytest.mark.parametrize("host", ["10.0.0.9", "10.2.0.1", WHITE_HOST, "127.0.0.1"])
def test_an_account_cannot_make_itself_an_admin(host: str) -> None:
    harness = Guarded()
    changed: list[object] = []
    assert harness.access is not None
    harness.access.change = lambda *_: changed.append(_)
    own = {"accessKey": LOW.access_key, "secretKey": LOW.secret_key, "admin": "true"}
    refused = harness.put(signed(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, LOW, own), host)
    assert refused.code == ResponseCode.SYSTEM_ERROR and "AclException" in (refused.remark or "")
    assert not changed


@pytest.mark.parametrize("name", ["../../../../topic2020", "..", "/etc/cron.d/x", "a/b", "a\x00b"])
def test_cve_2019_17572(name: str) -> None:
    harness = Harness()
    made = {"topic": name, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1"}
    made |= {"perm": "6", "topicFilterType": "SINGLE_TAG", "order": "false"}
    back = {"offset": "0", "group": name, "delayLevel": "0", "originTopic": name}
    for code, fields in (
        (RequestCode.SEND_MESSAGE_V2, send_fields(name)),
        (RequestCode.SEND_BATCH_MESSAGE, send_fields(name, m="true")),
        (RequestCode.UPDATE_AND_CREATE_TOPIC, made),
        (RequestCode.CONSUMER_SEND_MSG_BACK, back),
    ):
        assert harness.ask(code, fields).code != ResponseCode.SUCCESS
    harness.beat(name)
    assert harness.store.queues_by_name == {}
    assert name not in harness.broker.state.topics.wrapper().topic_config_table


def test_cve_2022_25845() -> None:
    gadget = b'{"@type":"java.lang.AutoCloseable","clientID":{"@type":"java.lang.Exception"}}'
    harness = Harness()
    assert harness.ask(RequestCode.HEART_BEAT, body=gadget).code == ResponseCode.SYSTEM_ERROR
    found = decode_body(HeartbeatData, b'{"@type":"java.lang.AutoCloseable","clientID":"c"}')
    assert type(found) is HeartbeatData and not hasattr(found, "@type")


@pytest.mark.parametrize(
    "text",
    [
        "accounts: !!javax.script.ScriptEngineManager []",
        "accounts: !!python/object/apply:os.system ['touch /tmp/owned']",
        "accounts: !!python/name:os.system",
    ],
)
def test_cve_2022_1471(text: str) -> None:
    with pytest.raises(AccessFileRefused, match="this is no YAML"):
        read_file("plain_acl.yml", text)
    assert read_file("plain_acl.yml", FILE).accounts


def test_a_stranger_hijacks_no_route() -> None:
    harness = NameServerHarness()
    harness.register(Announced(topics=(topic("T"),)))
    harness.host = "10.6.6.6"
    forged = Announced(address="10.6.6.6:10911", topics=(topic("T"),)).request()
    assert harness.answered(forged).code == ResponseCode.NO_PERMISSION
    assert harness.brokers() == {"broker-a": {0: "10.0.0.1:10911"}}
