"""Which account a command signs with: its keys from an option, a file, the environment, a prompt.

A secret key on a command line is seen by everyone who lists processes, and kept by shells. So it
may come otherwise. The first that says something counts:

    --access-key and --secret-key
    --access-key alone              the secret key from WAKELOG_SECRET_KEY, or asked for
    --account FILE                  accessKey and secretKey, as in mqadmin's conf/tools.yml
    the environment                 WAKELOG_ACCESS_KEY and WAKELOG_SECRET_KEY
    $ROCKETMQ_HOME/conf/tools.yml   what mqadmin reads

Source: org.apache.rocketmq.tools.command.SubCommandCommon, org.apache.rocketmq.acl.common.AclUtils
(4.9.3).
"""

import getpass
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from wakelog.actors.errors import NotPossible
from wakelog.network.signing import Credentials

ACCESS_KEY_NAME: Final = "WAKELOG_ACCESS_KEY"
SECRET_KEY_NAME: Final = "WAKELOG_SECRET_KEY"
HOME_NAME: Final = "ROCKETMQ_HOME"
FILE_BYTES_MAX: Final = 65_536

Ask = Callable[[str], str]
"""Returns what a person types at this prompt, unseen."""


def account_keys(
    access_key: str | None,
    secret_key: str | None,
    account: str | None,
    environment: Mapping[str, str] = os.environ,
    ask: Ask | None = None,
) -> Credentials:
    """Return the keys to sign with, empty ones for none.

    access_key, secret_key, account: of the options; None for those that are not given.
    ask: how to ask for a secret key; by the terminal if None and there is one.
    Raises: NotPossible.
    """
    if secret_key and not access_key:
        cause = "--secret-key is given without --access-key"
        raise NotPossible(cause, "Give both, or neither.")
    if access_key:
        secret_key = secret_key or environment.get(SECRET_KEY_NAME, "") or _asked(access_key, ask)
        return Credentials(access_key, secret_key)
    if account is not None:
        return _of_file(Path(account))
    access_key = environment.get(ACCESS_KEY_NAME, "")
    secret_key = environment.get(SECRET_KEY_NAME, "")
    if bool(access_key) != bool(secret_key):
        missing = SECRET_KEY_NAME if access_key else ACCESS_KEY_NAME
        cause = f"{missing} is not set, and the other key of the account is"
        raise NotPossible(cause, f"Set {ACCESS_KEY_NAME} and {SECRET_KEY_NAME}, or neither.")
    if access_key:
        return Credentials(access_key, secret_key)
    home = environment.get(HOME_NAME, "")
    path = Path(home, "conf", "tools.yml")
    return _of_file(path) if home and path.is_file() else Credentials()


def _asked(access_key: str, ask: Ask | None) -> str:
    if ask is None and sys.stdin is not None and sys.stdin.isatty():
        ask = getpass.getpass
    secret_key = ask(f"Secret key of {access_key}: ") if ask is not None else ""
    if not secret_key:
        remedy = f"Give --secret-key or --account FILE, set {SECRET_KEY_NAME}, or use a terminal."
        raise NotPossible(f"there is no secret key for {access_key}", remedy)
    return secret_key


def _of_file(path: Path) -> Credentials:
    remedy = "It needs the lines accessKey: NAME and secretKey: KEY, as mqadmin's tools.yml."
    try:
        with open(path, "rb") as file:
            found = _values(file.read(FILE_BYTES_MAX + 1))
    except OSError as error:
        cause = f"the account in {path} cannot be read: {error.strerror}"
        raise NotPossible(cause, "Give --account a file that can be read.") from error
    except (ValueError, yaml.YAMLError) as error:
        raise NotPossible(f"{path} is no file of an account", remedy) from error
    keys = [found.get(name) for name in ("accessKey", "secretKey")]
    if not all(isinstance(key, str | int) and str(key).strip() for key in keys):
        raise NotPossible(f"{path} has no account", remedy)
    return Credentials(*(str(key).strip() for key in keys))


def _values(data: bytes) -> dict[str, Any]:
    if len(data) > FILE_BYTES_MAX:
        raise ValueError(f"more than {FILE_BYTES_MAX} bytes")
    found = yaml.safe_load(data.decode("utf-8"))
    if not isinstance(found, dict):
        raise ValueError("no mapping")
    return found
