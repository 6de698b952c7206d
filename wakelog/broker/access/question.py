"""May an account do something? Answered by the check of requests, with the line that decided.

    ask     makes the request, signs it, and gives it to `AccessControl.check`, as a broker does
    line    names what the check has gone by: a line of plain_acl.yml, or that there is none

The tables here need no secret keys: an answer of code 54 may have none, and each account signs with
a key of its own making.

Invariants: no secret key is kept or shown. What is allowed is what `check` lets in.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from wakelog.broker.access.accounts import KEY_LENGTH_MIN, AccessTable, Account
from wakelog.broker.access.addresses import AddressPatterns
from wakelog.broker.access.control import (
    ACL_EXCEPTION,
    AccessControl,
    AccessRefused,
    may_all,
    needs_of,
    owned,
)
from wakelog.network.request import (
    ADMINISTRATION,
    Access,
    Processor,
    Request,
    Resource,
    processor,
)
from wakelog.network.signing import Credentials, sign
from wakelog.protocol.bodies import PlainAccessConfig
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.ext_fields import Header
from wakelog.protocol.names import RETRY_PREFIX

NAME: Final = "accounts"
"""Of the file that a table made of an answer has."""

_NOT_KNOWN: Final = "x" * KEY_LENGTH_MIN
"""Stands for each secret key."""


class Named(Header, frozen=True, kw_only=True):
    """What a request names."""

    topic: str | None = None
    consumer_group: str | None = None


class Question(NamedTuple):
    """May this account send this request?

    code and rules: of the request, as its row of the table has them. host: the numeric address
    that it comes from; "" for one that no white list has.
    """

    access_key: str
    code: int
    rules: tuple[Access, ...]
    topic: str = ""
    group: str = ""
    host: str = ""


class Answer(NamedTuple):
    """What the broker would say. lines: what decided; remark: of a refusal, as a client gets it."""

    is_allowed: bool
    lines: Sequence[str]
    remark: str = ""


def table_of(accounts: Iterable[PlainAccessConfig], white_addresses: Sequence[str]) -> AccessTable:
    """Return a table of accounts, with no secret key of theirs.

    Raises: AccessFileRefused for what wakelog takes for no account or no address.
    """
    entries = [
        msgspec.to_builtins(msgspec.structs.replace(each, secret_key=_NOT_KNOWN))
        for each in accounts
    ]
    file: dict[str, Any] = {
        "globalWhiteRemoteAddresses": list(white_addresses),
        "accounts": entries,
    }
    return AccessTable({NAME: yaml.safe_dump(file)})


def ask(table: AccessTable, question: Question) -> Answer:
    """Return what a broker with this table would answer."""
    account = table.find(question.access_key)
    fields = {"topic": question.topic, "consumerGroup": question.group}
    command = RemotingCommand(question.code, ext_fields={x: y for x, y in fields.items() if y})
    if question.access_key:
        secret_key = account.secret_key if account is not None else _NOT_KNOWN
        command = sign(command, Credentials(question.access_key, secret_key))
    row = processor(_never_handled, "", *question.rules, body=ADMINISTRATION)
    try:
        AccessControl(table).check(command, row, question.host, 0)
    except AccessRefused as error:
        remark = error.remark.removeprefix(f"{ACL_EXCEPTION}: ")
        return Answer(False, _lines(table, question, row, account, is_allowed=False), remark)
    return Answer(True, _lines(table, question, row, account, is_allowed=True))


def _never_handled(request: Request[Named]) -> None:
    raise AssertionError(request)


def _lines(
    table: AccessTable,
    question: Question,
    row: Processor,
    account: Account | None,
    *,
    is_allowed: bool,
) -> list[str]:
    """Return the lines that decided, in the order of the check."""
    changes_accounts = any(rule.resource is Resource.ACCOUNTS for rule in row.access)
    if table.white_addresses.match(question.host) and not changes_accounts:
        patterns = table.files[NAME].global_white_remote_addresses or ()
        return [f"globalWhiteRemoteAddresses: {_matching(patterns, question.host)}"]
    if account is None:
        return ["no account has this accessKey" if question.access_key else "no account is named"]
    entry = next(x for x in table.files[NAME].accounts or () if x.access_key == account.access_key)
    if account.white_addresses.match(question.host) and not changes_accounts:
        return [f"whiteRemoteAddress: {entry.white_remote_address}"]
    if row.is_administration or may_all(account):
        return [f"admin: {str(account.is_admin).lower()}"]
    header = Named(topic=question.topic or None, consumer_group=question.group or None)
    needs = dict(need for rule in row.access for need in needs_of(rule, header))
    return [
        _line(account, entry, name)
        for name, permission in needs.items()
        if is_allowed or permission not in owned(account, name)
    ] or ["any signed request"]


def _matching(patterns: Iterable[str], host: str) -> str:
    return next(each for each in patterns if AddressPatterns([each]).match(host))


def _line(account: Account, entry: PlainAccessConfig, name: str) -> str:
    """Return the line by which an account may do something with a topic or retry topic, or not."""
    is_group = name.startswith(RETRY_PREFIX)
    if account.permissions is not None and name in account.permissions:
        wanted = name.removeprefix(RETRY_PREFIX) if is_group else name
        listed = entry.group_perms if is_group else entry.topic_perms
        # A topic may be that of a group's retries; of several lines for a name the last counts.
        texts = [x for x in listed or () if x.partition("=")[0].strip() == wanted]
        if texts:
            return f"{'groupPerms' if is_group else 'topicPerms'}: {texts[-1]}"
    key, text = (
        ("defaultGroupPerm", entry.default_group_perm)
        if is_group
        else ("defaultTopicPerm", entry.default_topic_perm)
    )
    return f"{key}: {text or 'DENY, as nothing else is given'}"
