"""AccessTable: the accounts and white lists of plain_acl.yml and of the files beside it.

    globalWhiteRemoteAddresses: [10.0.0.*]        who needs no account
    accounts:
    - accessKey: who, secretKey: hush             both longer than 6 characters
      whiteRemoteAddress: ""                      who needs no signature for this account
      admin: false
      defaultTopicPerm: DENY                      of other topics; DENY, PUB, SUB or PUB|SUB
      defaultGroupPerm: SUB
      topicPerms: [orders=PUB|SUB]
      groupPerms: [payments=SUB]
    dataVersion: [{counter: 1, timestamp: 0}]     counts the changes by mqadmin

A permission that is not one of the four denies. An access key that two files have is the first
one's. A group's permission is kept under the name of its retry topic.

Source: org.apache.rocketmq.acl.plain.PlainPermissionManager.load, acl.common.Permission (4.9.3).
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar, get_args

import msgspec
import yaml

from wakelog.broker.access.addresses import AddressPatterns
from wakelog.broker.names import retry_topic
from wakelog.network.request import Permission
from wakelog.protocol.bodies import PlainAccessConfig
from wakelog.typed_values import convert

KEY_LENGTH_MIN = 7
ACCOUNTS_MAX = 10_000

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""That of libyaml, if PyYAML was built with it: 10,000 accounts take 2 s, not 5."""

_DEPTH_MAX: Final = 32
"""A file of accounts has four levels. libyaml's loader ends the process beyond some 10,000."""

_PERMISSIONS = {
    "PUB": frozenset({Permission.PUB}),
    "SUB": frozenset({Permission.SUB}),
    "PUB|SUB": frozenset({Permission.PUB, Permission.SUB}),
    "SUB|PUB": frozenset({Permission.PUB, Permission.SUB}),
}
_DENIED: frozenset[Permission] = frozenset()

T = TypeVar("T")


class AccessFileRefused(Exception):
    """A file of accounts that cannot be used; no account of it was taken."""

    def __init__(self, path: str, reason: str) -> None:
        """Keep both. The reason names no secret key."""
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class Version(msgspec.Struct):
    """How often mqadmin has changed a file, and when it last did (ms)."""

    counter: int = 0
    timestamp: int = 0


class AccessFile(msgspec.Struct, rename="camel"):
    """The contents of one file."""

    global_white_remote_addresses: list[str] | None = None
    accounts: list[PlainAccessConfig] | None = None
    data_version: list[Version] | None = None


_TEXTS: Final = frozenset(
    each.encode_name
    for each in msgspec.structs.fields(PlainAccessConfig)
    if str in (each.type, *get_args(each.type))
)


class Account(msgspec.Struct, frozen=True):
    """An account as a request is checked against it.

    permissions: by topic and by retry topic; None if the account lists none.
    """

    access_key: str
    secret_key: str
    white_addresses: AddressPatterns
    is_admin: bool
    default_topic: frozenset[Permission]
    default_group: frozenset[Permission]
    permissions: dict[str, frozenset[Permission]] | None

    def __repr__(self) -> str:
        """Leave out the secret key."""
        return f"Account({self.access_key!r})"


class AccessTable:
    """All accounts, of all files; it never changes."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Read files: their texts by path, in order.

        Raises: AccessFileRefused.
        """
        self.texts = dict(texts)
        self.files = {path: read_file(path, text) for path, text in texts.items()}
        self.warnings: list[str] = []
        self._accounts: dict[str, Account] = {}
        self._path_by_key: dict[str, str] = {}
        white: list[str] = []
        for path, file in self.files.items():
            try:
                AddressPatterns(file.global_white_remote_addresses or ())
                self._add(path, file.accounts or ())
            except ValueError as error:
                raise AccessFileRefused(path, str(error)) from None
            white += file.global_white_remote_addresses or ()
        self.white_addresses = AddressPatterns(white)

    def __len__(self) -> int:
        """Return the number of accounts."""
        return len(self._accounts)

    def find(self, access_key: str) -> Account | None:
        """Return the account of a key."""
        return self._accounts.get(access_key)

    def path_of(self, access_key: str) -> str | None:
        """Return the file that has an account."""
        return self._path_by_key.get(access_key)

    def _add(self, path: str, entries: list[PlainAccessConfig] | tuple[()]) -> None:
        for entry in entries:
            account = make_account(entry)
            key = account.access_key
            if key in self._accounts:
                self.warnings.append(f"accessKey {key} of {path} is already in {self.path_of(key)}")
                continue
            if len(self._accounts) == ACCOUNTS_MAX:
                raise ValueError(f"there are more than {ACCOUNTS_MAX} accounts")
            self._accounts[key] = account
            self._path_by_key[key] = path


def read_file(path: str, text: str) -> AccessFile:
    """Read the text of one file. Raises: AccessFileRefused."""
    try:
        found = load_yaml(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        # At the end of a text libyaml is a line further.
        line = 0 if mark is None else min(mark.line, text.count("\n")) + 1
        place = f" at line {line}" if line else ""
        raise AccessFileRefused(path, f"this is no YAML{place}") from None
    except RecursionError:
        raise AccessFileRefused(path, "its lists are nested too deep") from None
    if not found:
        raise AccessFileRefused(path, "the file has no data")
    try:
        return convert(_with_texts(found), AccessFile, strict=False)
    except msgspec.ValidationError as error:
        raise AccessFileRefused(path, str(error)) from None
    except RecursionError:
        raise AccessFileRefused(path, "one of its lists has itself as a part") from None


def load_yaml(text: str) -> Any:
    """Return the value of a text. Raises: yaml.YAMLError, RecursionError."""
    depth = 0
    for event in yaml.parse(text, _LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEPTH_MAX:
                raise RecursionError
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    loader = _LOADER(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def make_account(entry: PlainAccessConfig) -> Account:
    """Check an entry and make its account. Raises: ValueError."""
    key, secret = entry.access_key or "", entry.secret_key or ""
    if min(len(key), len(secret)) < KEY_LENGTH_MIN:
        raise ValueError(
            f"accessKey {key} and its secretKey have to be longer than {KEY_LENGTH_MIN - 1}"
        )
    permissions = {
        **{retry_topic(n): p for n, p in _permissions("group", entry.group_perms)},
        **dict(_permissions("topic", entry.topic_perms)),
    }
    return Account(
        access_key=key,
        secret_key=secret,
        white_addresses=AddressPatterns([entry.white_remote_address or ""]),
        is_admin=entry.admin,
        default_topic=read_permission(entry.default_topic_perm),
        default_group=read_permission(entry.default_group_perm),
        permissions=permissions or None,
    )


def read_permission(text: str | None) -> frozenset[Permission]:
    """Return what a permission's text allows: nothing, unless it is one that 4.9.3 knows."""
    return _PERMISSIONS.get((text or "").strip(), _DENIED)


def _permissions(kind: str, entries: list[str] | None) -> list[tuple[str, frozenset[Permission]]]:
    found = []
    for entry in entries or ():
        items = [item for item in entry.split("=") if item]
        if len(items) != 2:
            raise ValueError(f"Parse resource permission failed for {kind}:{entry}")
        found.append((items[0].strip(), read_permission(items[1])))
    return found


def _with_texts(value: Any) -> Any:
    """Return YAML's value with every number, boolean and date as Java's text of it."""
    if isinstance(value, dict):
        # A key without a value is one that is not there, as for 4.9.3: `admin:` is false. Of a text
        # '' is a value, which code 54 shows.
        given = {
            key: each
            for key, each in value.items()
            if each is not None and (each != "" or key in _TEXTS)
        }
        return {str(key): _with_texts(each) for key, each in given.items()}
    if isinstance(value, list):
        return [_with_texts(each) for each in value]
    if isinstance(value, bool):
        return str(value).lower()
    return value if value is None else str(value)
