"""The functions over columns of records, as types for their callers.

The columns are NumPy arrays, which no module here imports; `compiled/layout.py` has their
fields. Each function runs without the interpreter's lock. It raises ValueError where arrays, ranges
or rows do not fit together; then the arrays may have changed.

    numbers     int64[records, NUMBER_FIELDS], one row for a record
    table       int32[2, a power of two above twice the records]: by place, a group's number plus 1,
                or 0; by group, its place
    firsts      int32[records + 1]: first record of each group; the last element counts groups

A group is the records of one topic and queue id.
"""

from typing import Any, Protocol

Buffer = bytes | bytearray | memoryview
Array = Any
"""A contiguous array of NumPy."""


class BodyFunctions(Protocol):
    """What both readers below need."""

    def check_bodies(
        self, buffer: Buffer, numbers: Array, first: int, count: int, damaged: Array, /
    ) -> int:
        """Return how many records of [first, count) have a body with another CRC than they state.

        damaged: int32, gets their rows.
        """
        ...


class ScanFunctions(BodyFunctions, Protocol):
    """For Reput and rebuild: `storage/columns/scan_columns.py`. Without them `scan_plain` runs."""

    def scan_records(
        self,
        buffer: Buffer,
        begin: int,
        end: int,
        physical_offset: int,
        numbers: Array,
        keys: Array,
        table: Array,
        firsts: Array,
        names: Buffer | Array,
        name_begins: Array,
        row: int,
        key_count: int,
        names_end: int,
        /,
    ) -> tuple[int, int, int, int, int]:
        """Scan sound records of buffer[begin:end], and append to what the columns hold.

        keys: int32[2, keys_max]: hash and record number of each index key.
        names, name_begins: the groups' topics, which outlive the buffer, and where each begins.
            With names_end -1 nothing is copied: `names` is the buffer, and has the topics of all.
        row, key_count: what the columns hold.
        Returns: the new counts of records and keys, where the scan stopped, the new end of `names`,
            and the or of all REFINE bits of the new records.
        """
        ...

    def encode_groups(
        self,
        numbers: Array,
        count: int,
        firsts: Array,
        order: Array,
        ends: Array,
        unbroken: Array,
        entries: Array,
        /,
    ) -> int:
        """Sort records by group, in log order inside each, and encode their queue entries.

        order: gets the numbers of records that have a group. Group g is order[ends[g - 1]:ends[g]],
            and its entries lie at 20 times these places in `entries`.
        unbroken: gets for each group whether its queue offsets go up by one.
        Returns: how many groups.
        """
        ...

    def link_keys(
        self,
        slots: Array,
        entry_next: int,
        begin_timestamp_ms: int,
        keys: Array,
        begin: int,
        end: int,
        numbers: Array,
        entries: Array,
        /,
    ) -> int:
        """Link keys [begin, end) into `slots` and encode their entries; count slots without one.

        slots: int32, in memory; entry numbers go up from `entry_next`.
        entries: gets 20 bytes for each key.
        """
        ...


class BatchFunctions(Protocol):
    """For batches of a consumer. Without them batches are made of messages."""

    def scan_pulled(
        self, buffer: Buffer, topic: bytes, queue_id: int, numbers: Array, /
    ) -> tuple[int, int]:
        """Scan pulled records; see `RowFunctions`."""
        ...

    def read_fields(
        self, buffer: Buffer, numbers: Array, rows: Array, fields: Array, has_bodies: bool, /
    ) -> int:
        """Fill `fields`; see `RowFunctions`."""
        ...

    def fill_batch(
        self,
        buffer: Buffer,
        numbers: Array,
        state: Array,
        longs: Array,
        ints: Array,
        offsets: Array,
        has: Array,
        property_offsets: Array,
        bodies: Array,
        ids: Array,
        offset_ids: Array,
        tags: Array,
        keys: Array,
        pairs: Array,
        places: Array,
        names: Array,
        values: Array,
        /,
    ) -> int:
        """Append pulled records to the columns of a batch; return the or of properties' bytes.

        state: int64[9]: how many rows and properties there are, and where the bytes of bodies, ids,
            offset_ids, tags, keys, names and values end; before and after.
        longs: int64[3, rows_max]: queue offset, born and store timestamp.
        ints: int32[3, rows_max]: queue id, flag, reconsume times.
        offsets: int32[6, rows_max + 1], with zeros in front: of bodies to keys, and of properties.
        has: uint8[2, rows_max]: whether there are tags, and keys.
        property_offsets: int32[2, properties_max + 1], with zeros in front: of names and values.
        bodies: without those that are compressed alone.
        ids: of the producer, or of the broker without them, which has offset_ids.
        pairs, places: for one record, as `find_pairs` has them.
        """
        ...


class RowFunctions(BodyFunctions, Protocol):
    """For rows of Spark. `spark/records/plain_columns.py` is the twin in plain Python."""

    def walk_records(
        self,
        buffer: Buffer,
        begin: int,
        end: int,
        physical_offset: int,
        numbers: Array,
        table: Array,
        firsts: Array,
        takes_groups: bool,
        /,
    ) -> tuple[int, int]:
        """Walk sound records; return how many, and where the walk stopped.

        numbers: TAGS_CODE and REFINE are not filled, and GROUP only with `takes_groups`.
        """
        ...

    def scan_pulled(
        self, buffer: Buffer, topic: bytes, queue_id: int, numbers: Array, /
    ) -> tuple[int, int]:
        """Scan pulled records, of any place in the log; return as `walk_records` does.

        topic, queue_id: of group 0. Other records, which light queues have, are in no group.
        """
        ...

    def keep_records(
        self,
        window: Buffer,
        found: Array,
        begin: int,
        end: int,
        kept: Buffer,
        kept_end: int,
        numbers: Array,
        row: int,
        table: Array,
        firsts: Array,
        /,
    ) -> tuple[int, int, int]:
        """Append records [begin, end) of `found`, without their bodies, to the kept ones.

        kept: gets the bytes, from `kept_end` on.
        numbers: gets the rows, from `row` on, with their positions in `kept`.
        Returns: the first record without room, and the new ends of `kept` and `numbers`.
        """
        ...

    def read_fields(
        self, buffer: Buffer, numbers: Array, rows: Array, fields: Array, has_bodies: bool, /
    ) -> int:
        """Fill one row of `fields` for each record of `rows`; return 0.

        fields: int64[rows, FIELDS], see `compiled/fields.py`.
        has_bodies: False if a record's topic follows its head at once.
        """
        ...

    def gather(
        self, buffer: Buffer, begins: Array, ends: Array, offsets: Array, out: Array, /
    ) -> int:
        """Copy spans of `buffer` one after another; return the or of all their bytes.

        offsets: int32, gets the begin of each span in `out`, and the end.
        """
        ...

    def find_pairs(
        self,
        buffer: Buffer,
        numbers: Array,
        rows: Array,
        row_ends: Array,
        pairs: Array,
        places: Array,
        /,
    ) -> int:
        """Find the properties of each record; return the total count.

        The last value of a repeated name counts, in the place of the first one.
        row_ends: int32[rows + 1], gets the begin of each record's pairs in `pairs`, and the end.
        pairs: int64[pairs_max, 4], gets begin and end of name and value.
        places: int32[2, a power of two above twice the pairs of a record], for the function itself;
            zeros in the first row, and left so.
        """
        ...

    def format_ids(
        self,
        buffer: Buffer,
        fields: Array,
        is_v6: Array,
        use_uniq: bool,
        offsets: Array,
        out: Array,
        /,
    ) -> int:
        """Write message ids: the store host and the physical offset in hexadecimal.

        use_uniq: write the property UNIQ_KEY instead, if a record has it.
        Returns: the or of all bytes of these properties.
        """
        ...
