"""What is wrong between servers, beside the one case of each rule in `cases`."""

from tests.console.cases import ADDRESSES, NOW_MS, cluster, history_of, servers
from wakelog.console.server_findings import (
    REGISTER_MS,
    coming_findings,
    election_findings,
    name_server_findings,
)

OTHER = {0: "10.0.0.9:10911"}


def test_name_servers_that_differ_for_long_are_said_with_the_time() -> None:
    began_ms = NOW_MS - REGISTER_MS
    first = servers(began_ms - 9_000, ADDRESSES, ADDRESSES)
    then, now = (servers(x, ADDRESSES, OTHER) for x in (began_ms, NOW_MS))
    [found] = name_server_findings(history_of((first, then, now)))
    assert (found.about, found.since_ms) == ("broker a", began_ms)
    assert found.found == "n:0 has master 10.0.0.5:10911, and n:1 has master 10.0.0.9:10911"
    assert not list(name_server_findings(history_of((first, then))))
    assert not list(name_server_findings(history_of((then, first))))


def test_a_broker_that_the_first_name_server_lacks_is_named() -> None:
    found = servers(NOW_MS, None, ADDRESSES)
    [said] = name_server_findings(history_of((found,)))
    assert said.found == "n:1 has master 10.0.0.5:10911, and n:0 has no such broker"


def test_a_broker_that_comes_back_is_gone_no_more() -> None:
    with_slave = [cluster(NOW_MS - n * 60_000, slave={}) for n in (3, 0)]
    without = cluster(NOW_MS - 120_000)
    later = cluster(NOW_MS - 60_000)
    [found] = coming_findings(history_of((with_slave[0], without, later)))
    assert (found.about, found.since_ms) == (
        "broker a (1) at 10.0.0.6:10911",
        NOW_MS - 120_000,
    )
    assert not list(coming_findings(history_of((with_slave[0], without, with_slave[1]))))


def test_brokers_without_an_election_have_none_to_follow() -> None:
    assert not list(election_findings(history_of((cluster(slave={}),))))
