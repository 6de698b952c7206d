"""`wakelog check`: what becomes here of each key of a 4.9.3 broker.conf, or of running brokers.

Each key is planned with as `wakelog up --set KEY=VALUE` would, so the rules are those of a start.
Nothing is started or written. A running broker shows all its keys. Of those that it has from
4.9.3's defaults, only what is refused is listed, as none of the others was chosen.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final, NamedTuple

from wakelog.actors.deploy.plan import UpOptions
from wakelog.actors.deploy.planning import make_plan
from wakelog.actors.errors import DeploymentFailed, PlanRefused
from wakelog.broker.config_file import WITHOUT_EFFECT
from wakelog.cli.admin.command import Output, Text
from wakelog.cli.cluster.output import Columns
from wakelog.client.admin import Admin, cluster_members
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


async def check_brokers(admin: Admin) -> AsyncIterator[Output]:
    """Yield a row for each key of a running broker that would be ignored or refused.

    Raises: ClientError; DeploymentFailed if a key is refused.
    """
    rows: list[tuple[object, ...]] = []
    honoured_count, refused = 0, list[str]()
    info = await admin.cluster()
    for cluster in sorted(info.cluster_addr_table):
        for name, broker_id, address in cluster_members(info, cluster):
            found = check_keys(await _chosen(admin, address))
            for row in found:
                if row.outcome == HONOURED:
                    honoured_count += 1
                    continue
                rows.append((name, broker_id, *row))
                if row.outcome == REFUSED:
                    refused.append(f"{row.key} of {name}")
    yield Columns(("broker", "id", *KeyCheck._fields), rows, "nothing is ignored or refused")
    yield Text(f"{honoured_count} keys are honoured", {"honouredKeys": honoured_count})
    if refused:
        cause = f"a broker would not start with {', '.join(refused)}"
        raise DeploymentFailed(cause, "Change what is refused.")


async def _chosen(admin: Admin, address: str) -> dict[str, str]:
    """Return the keys of a broker but those that have no effect and 4.9.3's default."""
    return {
        key: value
        for key, value in (await admin.settings(address)).items()
        if key not in WITHOUT_EFFECT or value != WITHOUT_EFFECT[key].default
    }


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
