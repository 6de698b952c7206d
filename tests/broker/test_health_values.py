"""What a broker tells of its actors and its store, written and read again."""

from wakelog.broker.health_values import (
    ActorHealth,
    StoreHealth,
    actor_values,
    read_actors,
    read_store,
    store_values,
)


def test_actors_are_reported_as_works_or_away_with_a_count() -> None:
    actors = {"flush": ActorHealth(False, 0), "reput": ActorHealth(True, 3)}
    values = actor_values(actors)
    assert values == {"wakelog.actor.flush": "away 0", "wakelog.actor.reput": "works 3"}
    assert read_actors({"putTps": "works 3", **values}) == actors


def test_an_actor_in_other_words_is_left_out() -> None:
    assert read_actors({"wakelog.actor.x": "works", "wakelog.actor.y": "sleeps 2"}) == {}


def test_a_store_is_reported_number_by_number() -> None:
    health = StoreHealth(*range(11))
    values = store_values(health)
    assert values["wakelog.store.cleanExit"] == "0"
    assert values["wakelog.store.quarantinedBytes"] == "10"
    assert read_store(values) == health


def test_a_broker_that_reports_nothing_of_its_store_has_no_health() -> None:
    assert read_store({"commitLogMaxOffset": "7", "wakelog.store.cleanExit": "yes"}) is None
    assert read_store({"wakelog.store.cutBytes": "354"}) == StoreHealth(cut_bytes=354)
