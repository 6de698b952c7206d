"""Keys of broker.conf and --set that only `wakelog up` knows; they begin with `wakelog.`.

A 4.9.3 broker ignores them, and no client sees them (code 26). A key that is not here is refused.
"""

from typing import Final, NamedTuple

from wakelog.broker.access.administrators import TRUSTED_ADDRESSES_KEY
from wakelog.storage.errors import IllegalConfiguration
from wakelog.telemetry.metrics import NAME_SETS, NATIVE

UP_PREFIX: Final = "wakelog."
LOG_LEVEL: Final = UP_PREFIX + "logLevel"
LOG_FORMAT: Final = UP_PREFIX + "logFormat"
METRICS_NAMES: Final = UP_PREFIX + "metricsNames"
CHECK_ADVERTISE: Final = UP_PREFIX + "checkAdvertise"
OPEN: Final = UP_PREFIX + "open"
TRUSTED_ADDRESSES: Final = TRUSTED_ADDRESSES_KEY
TAKE_OVER_NAME: Final = UP_PREFIX + "takeOverName"
REGISTER: Final = UP_PREFIX + "register"
ACCESS_KEY: Final = UP_PREFIX + "accessKey"


class UpKey(NamedTuple):
    """One key: its default, what it accepts, and what it does."""

    default: str
    accepts: str
    meaning: str


_FLAG = "true or false"

UP_KEYS: Final[dict[str, UpKey]] = {
    LOG_LEVEL: UpKey("info", "debug, info, warning or error", "the least important lines"),
    LOG_FORMAT: UpKey("text", "text or json", "how a line of a log looks"),
    METRICS_NAMES: UpKey(
        NATIVE,
        f"some of {', '.join(NAME_SETS)}, with `,` between",
        "the [sets of names](metrics.md#names-of-elsewhere) that `/metrics` serves",
    ),
    CHECK_ADVERTISE: UpKey(
        "true", _FLAG, "whether an advertised address that this host cannot reach is refused"
    ),
    OPEN: UpKey("false", _FLAG, "lets other hosts in without access control; also `--open`"),
    TRUSTED_ADDRESSES: UpKey(
        "",
        "patterns of addresses with `;` between",
        "who may administer without an account, besides this host; `*` for everyone",
    ),
    TAKE_OVER_NAME: UpKey(
        "false", _FLAG, "starts although another address is registered by this broker's name"
    ),
    REGISTER: UpKey(
        "",
        "`file:///FOLDER`, `etcd://HOST:PORT,HOST:PORT` or `kubernetes://NAMESPACE/NAME`",
        "where a group of replicas decides who is master; `brokerId` is then the replica's number",
    ),
    ACCESS_KEY: UpKey(
        "",
        "the access key of an account",
        "signs what the broker asks its master and the name servers, and proves to other members "
        "of its group who it is; needs `aclEnable=true`",
    ),
}


def read_metrics_names(text: str) -> tuple[str, ...]:
    """Return the sets of names that are chosen. Raises: IllegalConfiguration."""
    names = tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    if not names or not NAME_SETS.keys() >= set(names):
        raise IllegalConfiguration(METRICS_NAMES, text, UP_KEYS[METRICS_NAMES].accepts)
    return names
