"""`wakelog check --config FILE`: what becomes of each key of a 4.9.3 broker.conf here.

Each key is planned with as `wakelog up --set KEY=VALUE` would, so the rules are those of a start.
Nothing is started or written.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from wakelog.actors.deploy.plan import UpOptions
from wakelog.actors.deploy.planning import make_plan
from wakelog.actors.errors import DeploymentFailed, PlanRefused
from wakelog.cli.cluster.output import Columns
from wakelog.storage.settings_text import parse_properties

HONOURED, IGNORED, REFUSED = "honoured", "ignored", "refused"
TOGETHER: Final = "(all keys together)"


class KeyCheck(NamedTuple):
    """What becomes of one key, and why it is ignored or refused."""

    key: str
    value: str
    outcome: str
    why: str = ""


def check_keys(given: Mapping[str, str]) -> Iterator[KeyCheck]:
    """Yield a row for each key, and one more if they do not go together."""
    usual = set(_warnings({}))
    alone = {key: _check(key, value, {key: value}, usual) for key, value in given.items()}
    accepted = {key: given[key] for key, row in alone.items() if row.outcome != REFUSED}
    rows = {
        # A key may need another one, as aclEnable needs rocketmqHome.
        key: _check(key, given[key], {**accepted, key: given[key]}, None)
        if row.outcome == REFUSED
        else row
        for key, row in alone.items()
    }
    yield from rows.values()
    if all(row.outcome != REFUSED for row in rows.values()):
        together = _check(TOGETHER, "", given, None)
        if together.outcome == REFUSED:
            yield together


def check_file(path: str, show: Any) -> None:
    """Put out a row for each key of a file.

    Raises: PlanRefused for the file; DeploymentFailed if a key is refused.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            given = parse_properties(file.read(), name=path)
    except OSError as error:
        cause = f"--config {path} cannot be read: {error.strerror}"
        raise PlanRefused(cause, "Give a broker.conf.") from None
    rows = list(check_keys(given))
    show(Columns(("key", "value", "outcome", "why"), rows, "no keys"))
    refused = [row.key for row in rows if row.outcome == REFUSED]
    if refused:
        cause = f"{path} would not start a broker: {', '.join(refused)}"
        raise DeploymentFailed(cause, "Change what is refused.")


def _check(key: str, value: str, given: Mapping[str, str], usual: set[str] | None) -> KeyCheck:
    """Plan with these keys. usual: warnings of every plan; None if warnings do not matter."""
    try:
        found = _warnings(given)
    except PlanRefused as refusal:
        return KeyCheck(key, value, REFUSED, f"{refusal.cause}. {refusal.remedy}")
    more = [] if usual is None else [each for each in found if each not in usual]
    return KeyCheck(key, value, IGNORED if more else HONOURED, "; ".join(more))


def _warnings(given: Mapping[str, str]) -> tuple[str, ...]:
    settings = tuple(f"{key}={value}" for key, value in given.items())
    return make_plan(UpOptions(settings=settings, is_local=True)).warnings
