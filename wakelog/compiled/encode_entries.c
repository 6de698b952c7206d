/* Entries of many records: of consume queues by group, and chained ones of an index; and the CRCs
   of their bodies.

   The plain ways are consume_queue_writer.py and index_append.py; both give the same bytes.

   Source: org.apache.rocketmq.store.ConsumeQueue#putMessagePositionInfo,
   org.apache.rocketmq.store.index.IndexFile#putKey (4.9.3). */

#include "records.h"

/* A slot is prefetched this many keys before it is needed. Slots are spread over 20 MB. The memory
   serves some dozens of requests at once, and one takes as long as several keys. */
#define KEYS_AHEAD 24

int64_t check_bodies(struct buffer buffer, const struct row *rows, int64_t first, int64_t count,
                     int32_t *damaged) {
    int64_t damaged_count = 0;
    for (int64_t number = first; number < count; number++) {
        const struct row *row = &rows[number];
        int64_t at = record_begin(row, buffer.size);
        if (at < 0)
            return -1;
        int64_t body_begin = at + HEAD_BYTES_V4 + hosts_extra_bytes(row->sys_flag);
        int64_t body_bytes = row->topic_begin - 1 - body_begin;
        if (body_bytes > 0 && (crc32_of(buffer.begin + body_begin, (size_t)body_bytes) &
                               CRC_MASK) != get_32(buffer.begin + at + CRC_AT))
            damaged[damaged_count++] = (int32_t)number;
    }
    return damaged_count;
}

int encode_groups(const struct row *rows, int64_t count, const int32_t *firsts,
                  int64_t groups_count, int32_t *order, int32_t *ends, uint8_t *unbroken,
                  uint8_t *entries) {
    memset(ends, 0, sizeof *ends * (size_t)(groups_count + 1));
    for (int64_t number = 0; number < count; number++) {
        int64_t group = rows[number].group;
        if (group >= groups_count)
            return -1;
        if (group >= 0)
            ends[group + 1]++;
    }
    for (int64_t group = 0; group < groups_count; group++)
        ends[group + 1] += ends[group];
    for (int64_t number = 0; number < count; number++) {
        const struct row *row = &rows[number];
        int64_t group = row->group;
        if (group < 0)
            continue;
        int64_t place = ends[group]++;
        if (number == firsts[group]) {
            unbroken[group] = 1;
        } else {
            int64_t before = place > 0 ? order[place - 1] : -1;
            if (before < 0 || before >= count)
                return -1;
            unbroken[group] &=
                (uint64_t)row->queue_offset == (uint64_t)rows[before].queue_offset + 1;
        }
        order[place] = (int32_t)number;
        uint8_t *entry = entries + ENTRY_BYTES * place;
        put_64(entry, (uint64_t)row->physical_offset);
        put_32(entry + 8, (uint32_t)row->size);
        put_64(entry + 12, (uint64_t)row->tags_code);
    }
    return 0;
}

/* Return the seconds since an index file's begin; a Java long wraps. */
static uint32_t elapsed_seconds(int64_t store_timestamp, int64_t begin_timestamp_ms) {
    int64_t elapsed_ms = (int64_t)((uint64_t)store_timestamp - (uint64_t)begin_timestamp_ms);
    if (begin_timestamp_ms <= 0 || elapsed_ms <= 0)
        return 0;
    return elapsed_ms / 1000 < INT32_MAX ? (uint32_t)(elapsed_ms / 1000) : INT32_MAX;
}

int64_t link_keys(int32_t *slots, uint32_t slots_count, int64_t entry_next,
                  int64_t begin_timestamp_ms, const struct keys *keys, int64_t begin, int64_t end,
                  const struct row *rows, int64_t rows_count, uint8_t *entries) {
    int64_t newly_used = 0, soon = begin;
    for (int64_t key = begin; key < end; key++) {
        for (; soon < end && soon <= key + KEYS_AHEAD; soon++)
            __builtin_prefetch(&slots[(uint32_t)keys->hashes[soon] % slots_count], 1, 3);
        int64_t number = keys->rows[key];
        if (number < 0 || number >= rows_count)
            return -1;
        const struct row *row = &rows[number];
        int32_t *slot = &slots[(uint32_t)keys->hashes[key] % slots_count], previous = *slot;
        if (previous <= 0 || previous > entry_next) {
            previous = 0;
            newly_used++;
        }
        put_32(entries, (uint32_t)keys->hashes[key]);
        put_64(entries + 4, (uint64_t)row->physical_offset);
        put_32(entries + 12, elapsed_seconds(row->store_timestamp, begin_timestamp_ms));
        put_32(entries + 16, (uint32_t)previous);
        entries += ENTRY_BYTES;
        *slot = (int32_t)entry_next++;
    }
    return newly_used;
}
