"""Keys are the same for the same place, and others for any other."""

from wakelog.spark.sink.unique_keys import UniqueKeys, WrittenPart


def test_a_key_depends_on_query_batch_partition_and_row_and_on_nothing_else() -> None:
    parts = [
        WrittenPart(query, batch, partition)
        for query in ("a", "b")
        for batch in (0, 1, 11)
        for partition in (0, 1, 11)
    ]
    keys = [UniqueKeys(part).key(row) for part in parts for row in (0, 1, 2**32 - 1)]
    assert len(set(keys)) == len(keys)
    assert keys == [UniqueKeys(part).key(row) for part in parts for row in (0, 1, 2**32 - 1)]
    assert {len(key) for key in keys} == {32}
    assert all(bytes.fromhex(key).hex().upper() == key for key in keys)


def test_a_key_is_the_same_as_in_earlier_releases() -> None:
    assert UniqueKeys(WrittenPart("q", 3, 1)).key(258) == "A04EC28AE36745FF46E898FE00000102"
