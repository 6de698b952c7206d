"""Access control: the accounts, where brokers differ, and whether one may do something.

The answer is that of the brokers' own check (`wakelog.broker.access.question`).
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple

from wakelog.broker.access.accounts import AccessFileRefused
from wakelog.broker.access.question import Answer, Question, ask, table_of
from wakelog.broker.access.rules import CONSUMES, PUBLISHES, SUBSCRIBES
from wakelog.console.cluster_accounts import BrokerAccounts
from wakelog.console.views.lists import Head, ListOf
from wakelog.network.request import ADMINISTERS, Access
from wakelog.protocol.bodies import PlainAccessConfig
from wakelog.protocol.codes import RequestCode as Code

ACCOUNTS: Final = ListOf(
    (
        Head("account", "Account", lambda row: row.name.lower()),
        Head("", "Topics"),
        Head("", "Groups"),
        Head("", "Others"),
        Head("", "Without signature from"),
        Head("", "Brokers"),
    ),
    text=lambda row: " ".join(
        (row.name, *(row.account.topic_perms or ()), *(row.account.group_perms or ()))
    ),
    sort="account",
)
FIELD_LENGTH_MAX: Final = 1_024
"""Of what is asked about."""


class Operation(NamedTuple):
    """Something that one may want to do: its name in the URL, in words, and its request.

    rules: those that the broker's table has for the code.
    """

    name: str
    text: str
    code: Code
    rules: tuple[Access, ...] = (ADMINISTERS,)


OPERATIONS: Final = (
    Operation("send", "send to the topic", Code.SEND_MESSAGE_V2, (PUBLISHES,)),
    Operation(
        "consume",
        "consume the topic with the group",
        Code.PULL_MESSAGE,
        (SUBSCRIBES, CONSUMES),
    ),
    Operation("search", "search the topic by key", Code.QUERY_MESSAGE, (SUBSCRIBES,)),
    Operation("topics", "create or delete topics", Code.UPDATE_AND_CREATE_TOPIC),
    Operation("groups", "create or delete groups", Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP),
    Operation("settings", "change settings of brokers", Code.UPDATE_BROKER_CONFIG),
)
"""Those that 4.9.3 and wakelog judge alike."""


class AccountRow(NamedTuple):
    """An account as some brokers have it. is_apart: not all brokers have it so."""

    account: PlainAccessConfig
    brokers: tuple[str, ...]
    is_apart: bool

    @property
    def name(self) -> str:
        """The access key."""
        return self.account.access_key or ""

    @property
    def is_admin(self) -> bool:
        """Whether it is an administrator."""
        return self.account.admin


class Off(NamedTuple):
    """A broker without accounts to show, and why."""

    broker: str
    cause: str
    remedy: str


class AccessQuery(NamedTuple):
    """A question as the URL has it, and what is wrong with it; "" if nothing is."""

    account: str
    operation: Operation
    topic: str
    group: str
    host: str
    wrong: str = ""

    @property
    def text(self) -> str:
        """The question in words."""
        of = {"send": self.topic, "search": self.topic}.get(self.operation.name, "")
        if self.operation.name == "consume":
            of = f"{self.topic} with {self.group}"
        named = self.account or "a request without an account"
        source = f" from {self.host}" if self.host else ""
        return f"{named}: {self.operation.text}{f' ({of})' if of else ''}{source}"


class Judged(NamedTuple):
    """What some brokers answer."""

    brokers: tuple[str, ...]
    answer: Answer


def rows(found: Iterable[BrokerAccounts]) -> list[AccountRow]:
    """Return the accounts; one that brokers have differently comes once for each of its forms."""
    on = [each for each in found if each.is_read]
    brokers: dict[tuple[str, PlainAccessConfigKey], list[str]] = {}
    configs: dict[tuple[str, PlainAccessConfigKey], PlainAccessConfig] = {}
    for each in on:
        for account in each.accounts:
            key = account.access_key or "", _key(account)
            configs[key] = account
            brokers.setdefault(key, []).append(_name(each))
    return [
        AccountRow(configs[key], tuple(names), len(names) < len(on))
        for key, names in sorted(brokers.items())
    ]


PlainAccessConfigKey = tuple[str, ...]


def _key(account: PlainAccessConfig) -> PlainAccessConfigKey:
    return (
        account.white_remote_address or "",
        str(account.admin),
        account.default_topic_perm or "",
        account.default_group_perm or "",
        *(account.topic_perms or ()),
        "",
        *(account.group_perms or ()),
    )


def _name(each: BrokerAccounts) -> str:
    return f"{each.broker} ({each.broker_id})"


def off(found: Iterable[BrokerAccounts]) -> list[Off]:
    """Return the brokers without access control, and those that did not answer."""
    said = []
    for each in found:
        if each.failure is not None:
            said.append(Off(_name(each), each.failure.cause, each.failure.remedy))
        elif each.is_on is None:
            cause = "it does not show its settings"
            said.append(Off(_name(each), cause, "Give the console an account that may (--account)"))
        elif not each.is_on:
            cause = "it has no access control: whoever reaches it may send, consume and read"
            remedy = "Write conf/plain_acl.yml, and start it with aclEnable=true"
            said.append(Off(_name(each), cause, remedy))
    return said


def white_lists(found: Iterable[BrokerAccounts]) -> list[tuple[str, str]]:
    """Return what needs no account, and the brokers where it is so."""
    by_list: dict[str, list[str]] = {}
    for each in found:
        if each.is_read:
            by_list.setdefault(", ".join(each.white_addresses), []).append(_name(each))
    return [(text, ", ".join(names)) for text, names in sorted(by_list.items())]


def asked(query: Mapping[str, str]) -> AccessQuery | None:
    """Return the question of a URL, None if it has none."""
    by_name = {each.name: each for each in OPERATIONS}
    if query.get("what") not in by_name:
        return None
    account, topic, group, host = (
        query.get(name, "").strip()[:FIELD_LENGTH_MAX]
        for name in ("account", "topic", "group", "from")
    )
    operation = by_name[query["what"]]
    found = AccessQuery(account, operation, topic, group, host)
    if operation.name in ("send", "consume", "search") and not topic:
        return found._replace(wrong="Give a topic")
    if operation.name == "consume" and not group:
        return found._replace(wrong="Give a group")
    if host and not _is_address(host):
        return found._replace(wrong=f"{host} is no IP address")
    return found


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def judged(found: Iterable[BrokerAccounts], wanted: AccessQuery) -> list[Judged]:
    """Return what the brokers with access control answer; those that agree together."""
    question = Question(
        wanted.account,
        int(wanted.operation.code),
        wanted.operation.rules,
        wanted.topic,
        wanted.group,
        wanted.host,
    )
    answers: dict[tuple[bool, tuple[str, ...], str], list[str]] = {}
    for each in found:
        if not each.is_read:
            continue
        try:
            named = [x for x in each.accounts if x.access_key == wanted.account]
            answer = ask(table_of(named, each.white_addresses), question)
        except AccessFileRefused as error:
            answer = Answer(False, (), f"its accounts cannot be read: {error.reason}")
        key = answer.is_allowed, tuple(answer.lines), answer.remark
        answers.setdefault(key, []).append(_name(each))
    return [Judged(tuple(names), Answer(*key)) for key, names in answers.items()]
