"""Actions on accounts of access control, and on the addresses that need none.

A secret key comes by POST, goes to the brokers, and is shown nowhere.
"""

from typing import Final

from wakelog.broker.access.accounts import KEY_LENGTH_MIN
from wakelog.client.access import accounts_at
from wakelog.client.admin import Admin
from wakelog.console.actions.action import Action, Field, Values, Words, words_of
from wakelog.console.views.messages import visible

PERMISSIONS: Final = tuple(
    (text, text or "as it is") for text in ("", "DENY", "PUB", "SUB", "PUB|SUB")
)
_RULE: Final = r"[^\s=,]+=(?:DENY|PUB\|SUB|SUB\|PUB|PUB|SUB)"
RULES_PATTERN: Final = rf"[\s,]*{_RULE}(?:[\s,]+{_RULE})*[\s,]*"

CLUSTER: Final = Field("cluster", "Cluster")
ACCOUNT: Final = Field(
    "account",
    "Access key",
    pattern=rf"[^\s\-,][^\s,]{{{KEY_LENGTH_MIN - 1},}}",
    help=f"{KEY_LENGTH_MIN} characters or more, without blanks",
)
SECRET: Final = Field(
    "secret",
    "Secret key",
    "secret",
    pattern=rf"\S{{{KEY_LENGTH_MIN},}}",
    help=f"{KEY_LENGTH_MIN} characters or more, without blanks; brokers want it with each change",
)
RIGHTS: Final = (
    Field("topics", "Topics", "lines", is_required=False, pattern=RULES_PATTERN,
          help="orders=PUB|SUB, one a line"),
    Field("groups", "Groups", "lines", is_required=False, pattern=RULES_PATTERN,
          help="billing=SUB, one a line"),
    Field("default_topic", "Other topics", "choice", is_required=False, choices=PERMISSIONS),
    Field("default_group", "Other groups", "choice", is_required=False, choices=PERMISSIONS),
    Field("white", "Needs no signature from", is_required=False, help="10.0.0.*"),
    Field("admin", "Administrator", "switch", is_required=False),
)  # fmt: skip


def _update(values: Values) -> Words:
    words = ["admin", "updateAclConfig", "-c", values["cluster"], "-a", values["account"]]
    words.append(f"--secretKey={values['secret']}")
    for flag, text in (
        ("-t", ",".join(values["topics"].replace(",", " ").split())),
        ("-g", ",".join(values["groups"].replace(",", " ").split())),
        ("-i", values["default_topic"]),
        ("-u", values["default_group"]),
        ("-w", values["white"]),
    ):
        words += [flag, text] if text else []
    return [*words, "-m", "true" if values["admin"] == "true" else "false"]


async def _before_delete(admin: Admin, values: Values) -> list[str]:
    key, said = values["account"], []
    for address in await admin.members(values["cluster"]):
        found = await accounts_at(admin, address)
        one = next((x for x in found.plain_access_configs if x.access_key == key), None)
        if one is None:
            said.append(f"{address} has no account {visible(key)}")
            continue
        kind = "an administrator" if one.admin else "an account"
        rules = len(one.topic_perms or ()) + len(one.group_perms or ())
        said.append(f"{address}: {kind} with {rules:,} rules; what it signs is refused at once")
    return said


def _change_white(values: Values) -> Words:
    addresses = ",".join(values["addresses"].replace(",", " ").split())
    return ["admin", "updateGlobalWhiteAddr", "-c", values["cluster"], "-g", addresses]


async def _before_change_white(admin: Admin, values: Values) -> list[str]:
    wanted = values["addresses"].replace(",", " ").split()
    said = []
    for address in await admin.members(values["cluster"]):
        now = (await accounts_at(admin, address)).global_white_addrs
        added = [x for x in wanted if x not in now]
        removed = [x for x in now if x not in wanted]
        said.append(
            f"{address}: adds {visible(', '.join(added)) or 'nothing'}, "
            f"removes {visible(', '.join(removed)) or 'nothing'}"
        )
    return [*said, "whoever comes from such an address needs no account"]


ACTIONS: Final = (
    Action(
        "create-account",
        "Create an account",
        (CLUSTER, ACCOUNT, SECRET, *RIGHTS),
        _update,
        "/access",
        does="Every broker of the cluster gets the account. One that is there already is changed.",
        posts_fields=True,
    ),
    Action(
        "change-account",
        "Change an account",
        (CLUSTER, ACCOUNT, SECRET, *RIGHTS),
        _update,
        "/access",
        does="Every broker of the cluster changes the account. What is left empty stays as it is; "
        "the secret key, the same or another, is needed.",
        posts_fields=True,
    ),
    Action(
        "delete-account",
        "Delete an account",
        (CLUSTER, ACCOUNT),
        words_of("admin deleteAccessConfig -c {cluster} -a {account}"),
        "/access",
        _before_delete,
        typed="account",
    ),
    Action(
        "change-white-addresses",
        "Change the addresses that need no account",
        (
            CLUSTER,
            Field("addresses", "Addresses", help="10.0.0.*, 192.168.1.5; these replace the others"),
        ),
        _change_white,
        "/access",
        _before_change_white,
    ),
)
