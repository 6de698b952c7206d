/* The scan of Reput and rebuild: sound records with their tags, keys and queues.

   Rare work is left to Python, and marked in `refine`: text that is not ASCII, delayed messages,
   messages for several queues, and records with very many keys. wakelog/storage/log/scan.py is the
   plain way. A record that stops the scan leaves nothing in any column.

   Source: java.lang.String#hashCode,
   org.apache.rocketmq.store.index.IndexFile#indexKeyHashMethod (4.9.3). */

#include "records.h"

static const char SCHEDULE_TOPIC[] = "SCHEDULE_TOPIC_XXXX";

/* Return the absolute value of a Java int, 0 for the smallest one, as in Java's index. */
static int32_t absolute(uint32_t hash) {
    int32_t value = (int32_t)hash;
    return value == INT32_MIN ? 0 : value < 0 ? -value : value;
}

/* Append the hashes of a record's keys; return the new count. Return that before, with a bit in
   *refine, if they are for Python. */
static int64_t hash_keys(const uint8_t *buffer, const struct found *found, uint32_t prefix,
                         struct keys *keys, int64_t *refine) {
    int64_t count = keys->count;
    uint8_t seen = 0;
    if (found->end[FOUND_UNIQ] > found->begin[FOUND_UNIQ])
        keys->hashes[count++] =
            absolute(java_hash(buffer + found->begin[FOUND_UNIQ], buffer + found->end[FOUND_UNIQ],
                               prefix, &seen));
    const uint8_t *at = buffer + found->begin[FOUND_KEYS], *end = buffer + found->end[FOUND_KEYS];
    while (at < end) {
        const uint8_t *stop = memchr(at, ' ', (size_t)(end - at));
        if (!stop)
            stop = end;
        if (stop > at) {
            if (count - keys->count == RECORD_KEYS_MAX) {
                *refine |= REFINE_KEYS;
                return keys->count;
            }
            keys->hashes[count++] = absolute(java_hash(at, stop, prefix, &seen));
        }
        at = stop + (stop < end);
    }
    if (seen & 0x80) {
        *refine |= REFINE_TEXT;
        return keys->count;
    }
    return count;
}

/* Fill in what read_record leaves. Return -1 if the groups do not fit. */
static int fill_row(const uint8_t *buffer, int64_t size, struct columns *columns,
                    struct keys *keys, struct groups *groups) {
    struct row *row = &columns->rows[columns->count];
    struct found found;
    uint8_t topic_seen = 0, tags_seen = 0;
    const uint8_t *topic = buffer + row->topic_begin;
    uint32_t topic_hash = java_hash(topic, topic + row->topic_bytes, 0, &topic_seen);
    find_properties(buffer, row->properties_begin, row->properties_begin + row->properties_bytes,
                    &found);
    uint32_t tags = java_hash(buffer + found.begin[FOUND_TAGS], buffer + found.end[FOUND_TAGS], 0,
                              &tags_seen);
    int64_t refine = (topic_seen | tags_seen) & 0x80 ? REFINE_TEXT : 0;
    if (found.end[FOUND_MULTI] > found.begin[FOUND_MULTI])
        refine |= REFINE_MULTI;
    if (found.end[FOUND_DELAY] > found.begin[FOUND_DELAY] &&
        row->topic_bytes == sizeof SCHEDULE_TOPIC - 1 &&
        !memcmp(topic, SCHEDULE_TOPIC, sizeof SCHEDULE_TOPIC - 1))
        refine |= REFINE_DELAY;
    int64_t transaction = row->sys_flag & TRANSACTION_MASK;
    if (transaction != TRANSACTION_ROLLBACK && !(refine & REFINE_TEXT)) {
        int64_t count = hash_keys(buffer, &found, topic_hash * 31 + '#', keys, &refine);
        for (int64_t key = keys->count; key < count; key++)
            keys->rows[key] = (int32_t)columns->count;
        keys->count = count;
    }
    row->tags_code = (int32_t)tags;
    row->refine = refine;
    row->group = NO_GROUP;
    if (!(transaction & TRANSACTION_PREPARED)) { /* nor rolled back */
        row->group = group_of(buffer, size, columns, columns->count, topic_hash, groups);
        if (row->group < 0)
            return -1;
    }
    return 0;
}

int64_t scan_records(struct buffer buffer, int64_t begin, int64_t end, int64_t physical_offset,
                     struct columns *columns, struct keys *keys, struct groups *groups,
                     int64_t *refined) {
    int64_t at = begin, names_room = groups->names.size - TOPIC_BYTES_MAX;
    if (names_room < 0)
        names_room = 0;
    *refined = 0;
    while (at < end && columns->count < columns->rows_max &&
           keys->count < keys->max - RECORD_KEYS_MAX && groups->names_end <= names_room) {
        int64_t size = read_record(buffer.begin, at, end,
                                   (uint64_t)physical_offset + (uint64_t)(at - begin),
                                   &columns->rows[columns->count]);
        if (!size)
            break;
        if (fill_row(buffer.begin, buffer.size, columns, keys, groups) < 0)
            return -1;
        *refined |= columns->rows[columns->count].refine;
        columns->count++;
        at += size;
    }
    return at;
}
