"""`wakelog check`: what becomes here of each key of a 4.9.3 broker.conf, or of running brokers.

Each key is planned with as `wakelog up --set KEY=VALUE` would, so the rules are those of a start.
Nothing is started or written. A running broker shows all its keys. Of those that it has from
4.9.3's defaults, only what is refused is listed, as none of the others was chosen.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from wakelog.actors.deploy.plan import UpOptions
from wakelog.actors.deploy.planning import make_plan
from wakelog.actors.errors import CommandFailed, NotPossible
from wakelog.broker.config_file import WITHOUT_EFFECT, is_unknown
from wakelog.cli.cluster.output import Columns
from wakelog.cli.output import Output, Text
from wakelog.client.admin import Admin, cluster_members
from wakelog.storage.settings_text import parse_properties

HONOURED, IGNORED, REFUSED = "honoured", "ignored", "refused"
UNKNOWN: Final = "unknown"
WAITS: Final = "waits"
TOGETHER: Final = "(all keys together)"


class KeyCheck(NamedTuple):
    """What becomes of one key, and why it is not just honoured."""

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

    Raises: NotPossible for the file; CommandFailed if a key is refused.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            given = parse_properties(file.read(), name=path)
    except OSError as error:
        cause = f"--config {path} cannot be read: {error.strerror}"
        raise NotPossible(cause, "Give a broker.conf.") from None
    rows = list(check_keys(given))
    show(Columns(("key", "value", "outcome", "why"), rows, "no keys"))
    _raise_for(rows, f"{path} would not start a broker", path)


async def check_brokers(admin: Admin) -> AsyncIterator[Output]:
    """Yield a row for each key of a running broker that is not honoured, or not yet.

    Raises: ClientError; CommandFailed if a key is refused or unknown.
    """
    rows: list[tuple[object, ...]] = []
    honoured_count, bad = 0, list[KeyCheck]()
    info = await admin.cluster()
    for cluster in sorted(info.cluster_addr_table):
        for name, broker_id, address in cluster_members(info, cluster):
            known = await admin.configuration(address)
            for row in _with_waiting(check_keys(_chosen(known.settings)), known.waiting):
                if row.outcome == HONOURED:
                    honoured_count += 1
                    continue
                rows.append((name, broker_id, *row))
                bad.append(row._replace(key=f"{row.key} of {name}"))
    nothing = "nothing is ignored or refused, or waits for a restart"
    yield Columns(("broker", "id", *KeyCheck._fields), rows, nothing)
    yield Text(f"{honoured_count} keys are honoured", {"honouredKeys": honoured_count})
    _raise_for(bad, "a broker would not start", "its configuration")


def _raise_for(rows: Iterable[KeyCheck], would_not: str, place: str) -> None:
    refused = [row.key for row in rows if row.outcome == REFUSED]
    if refused:
        cause = f"{would_not} with {', '.join(refused)}"
        raise CommandFailed(cause, "Change what is refused.")
    unknown = [row.key for row in rows if row.outcome == UNKNOWN]
    if unknown:
        cause = f"there is no key {', '.join(unknown)}, and a start ignores it"
        raise CommandFailed(cause, f"Correct it in {place}, or remove it.")


def _with_waiting(rows: Iterable[KeyCheck], waiting: Mapping[str, str]) -> Iterator[KeyCheck]:
    """Say of each honoured key whether it waits for a restart."""
    for row in rows:
        if row.key in waiting and row.outcome == HONOURED:
            why = f"used after a restart; until then it is {waiting[row.key] or 'not set'}"
            yield row._replace(outcome=WAITS, why=why)
        else:
            yield row


def _chosen(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of a broker but those that have no effect and 4.9.3's default."""
    return {
        key: value
        for key, value in settings.items()
        if key not in WITHOUT_EFFECT or value != WITHOUT_EFFECT[key].default
    }


def _check(key: str, value: str, given: Mapping[str, str], usual: set[str] | None) -> KeyCheck:
    """Plan with these keys. usual: warnings of every plan; None if warnings do not matter."""
    try:
        found = _warnings(given)
    except NotPossible as refusal:
        return KeyCheck(key, value, REFUSED, f"{refusal.cause}. {refusal.remedy}")
    more = [] if usual is None else [each for each in found if each not in usual]
    outcome = HONOURED
    if more:
        outcome = UNKNOWN if is_unknown(key) else IGNORED
    return KeyCheck(key, value, outcome, "; ".join(more))


def _warnings(given: Mapping[str, str]) -> tuple[str, ...]:
    settings = tuple(f"{key}={value}" for key, value in given.items())
    return make_plan(UpOptions(settings=settings, is_local=True)).warnings
