"""The rows of the columns are distinct."""

from wakelog.storage.kernels import layout


def test_rows_and_bits_are_distinct() -> None:
    rows = [
        layout.PHYSICAL_OFFSET,
        layout.SIZE,
        layout.QUEUE_ID,
        layout.QUEUE_OFFSET,
        layout.SYS_FLAG,
        layout.STORE_TIMESTAMP,
        layout.PREPARED_OFFSET,
        layout.TAGS_CODE,
        layout.TOPIC_BEGIN,
        layout.TOPIC_BYTES,
        layout.PROPERTIES_BEGIN,
        layout.PROPERTIES_BYTES,
        layout.REFINE,
        layout.GROUP,
    ]
    assert rows == list(range(layout.NUMBER_FIELDS))
    bits = [layout.REFINE_TEXT, layout.REFINE_DELAY, layout.REFINE_MULTI, layout.REFINE_KEYS]
    assert sum(bits) == (1 << len(bits)) - 1
