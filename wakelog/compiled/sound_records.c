/* Walks over records: which are sound, their queues, and which bytes of them are kept. */

#include "records.h"

static uint64_t word_at(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* Return the place of the first byte that separates names, values or properties, else the end. */
static const uint8_t *next_separator(const uint8_t *at, const uint8_t *end) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    const uint64_t ones = 0x0101010101010101u, high_bits = ones << 7;
    for (; end - at >= 8; at += 8) {
        /* The lowest byte that one of these marks is a separator; a higher one may be none. */
        uint64_t word = word_at(at), name = word ^ ones * NAME_VALUE_SEPARATOR;
        uint64_t pair = word ^ ones * PROPERTY_SEPARATOR;
        uint64_t marks = (((name - ones) & ~name) | ((pair - ones) & ~pair)) & high_bits;
        if (marks)
            return at + __builtin_ctzll(marks) / 8;
    }
#endif
    while (at < end && *at != NAME_VALUE_SEPARATOR && *at != PROPERTY_SEPARATOR)
        at++;
    return at;
}

struct span_of_property next_property(const uint8_t *at, const uint8_t *end) {
    struct span_of_property found;
    found.separator = found.stop = next_separator(at, end);
    while (found.stop < end && *found.stop == NAME_VALUE_SEPARATOR)
        found.stop = next_separator(found.stop + 1, end);
    found.is_property = at < found.separator && found.separator + 1 < found.stop;
    return found;
}

static int which_property(const uint8_t *name, ptrdiff_t size) {
    switch (size) {
    case 4:
        return !memcmp(name, "KEYS", 4) ? FOUND_KEYS : !memcmp(name, "TAGS", 4) ? FOUND_TAGS : -1;
    case 5:
        return !memcmp(name, "DELAY", 5) ? FOUND_DELAY : -1;
    case 8:
        return !memcmp(name, "UNIQ_KEY", 8) ? FOUND_UNIQ : -1;
    case 20:
        return !memcmp(name, "INNER_MULTI_DISPATCH", 20) ? FOUND_MULTI : -1;
    default:
        return -1;
    }
}

void find_properties(const uint8_t *buffer, int64_t begin, int64_t end, struct found *found) {
    const uint8_t *at = buffer + begin, *last = buffer + end;
    memset(found, 0, sizeof *found);
    while (at < last) {
        struct span_of_property each = next_property(at, last);
        int which = each.is_property ? which_property(at, each.separator - at) : -1;
        if (which >= 0) {
            found->begin[which] = each.separator + 1 - buffer;
            found->end[which] = each.stop - buffer;
        }
        at = each.stop + (each.stop < last);
    }
}

static int is_same_queue(const uint8_t *topic, const struct row *row, const struct columns *columns,
                         int64_t group, const struct groups *groups, int64_t size) {
    int64_t first = groups->firsts[group];
    if (first < 0 || first >= columns->rows_max)
        return -1;
    const struct row *other = &columns->rows[first];
    if (other->queue_id != row->queue_id || other->topic_bytes != row->topic_bytes)
        return 0;
    int64_t there = other->topic_begin;
    if (groups->names_end >= 0) {
        if (group >= groups->name_begins_count)
            return -1;
        there = groups->name_begins[group];
        size = groups->names_end;
    }
    if (!is_within(there, row->topic_bytes, size))
        return -1;
    return !memcmp(topic, groups->names.begin + there, (size_t)row->topic_bytes);
}

static int add_group(const uint8_t *topic, int64_t topic_bytes, int64_t number, int64_t place,
                     struct groups *groups) {
    int64_t group = groups->firsts[groups->groups_max];
    if (group < 0 || group >= groups->groups_max || group >= groups->places_count)
        return -1;
    if (groups->names_end >= 0) {
        if (group >= groups->name_begins_count ||
            !is_within(groups->names_end, topic_bytes, groups->names.size))
            return -1;
        groups->name_begins[group] = (int32_t)groups->names_end;
        memcpy(groups->names.begin + groups->names_end, topic, (size_t)topic_bytes);
        groups->names_end += topic_bytes;
    }
    groups->numbers[place] = (int32_t)group + 1;
    groups->places[group] = (int32_t)place;
    groups->firsts[group] = (int32_t)number;
    groups->firsts[groups->groups_max]++;
    return 0;
}

int64_t group_of(const uint8_t *buffer, int64_t size, const struct columns *columns, int64_t number,
                 uint32_t topic_hash, struct groups *groups) {
    const struct row *row = &columns->rows[number];
    const uint8_t *topic = buffer + row->topic_begin;
    uint64_t mask = (uint64_t)groups->places_count - 1;
    uint64_t hash = topic_hash * 0x9E3779B1u + (uint64_t)row->queue_id * 0x85EBCA6Bu;
    uint64_t place = (hash ^ hash >> 15) >> 7 & mask;
    for (int64_t tries = 0; tries < groups->places_count; tries++) {
        int64_t group = (int64_t)groups->numbers[place] - 1;
        if (group < 0) {
            if (add_group(topic, row->topic_bytes, number, (int64_t)place, groups) < 0)
                return -1;
            return groups->numbers[place] - 1;
        }
        if (group >= groups->groups_max)
            return -1;
        int is_same = is_same_queue(topic, row, columns, group, groups, size);
        if (is_same)
            return is_same < 0 ? -1 : group;
        place = (place + 1) & mask;
    }
    return -1;
}

/* Fill in the queue of a record that consumers see. Return -1 if that cannot be. */
static int fill_group(const uint8_t *buffer, int64_t size, const struct columns *columns,
                      int64_t number, struct groups *groups) {
    struct row *row = &columns->rows[number];
    row->group = NO_GROUP;
    if (row->sys_flag & TRANSACTION_PREPARED) /* or rolled back */
        return 0;
    uint8_t seen = 0;
    const uint8_t *topic = buffer + row->topic_begin;
    uint32_t hash = java_hash(topic, topic + row->topic_bytes, 0, &seen);
    row->group = group_of(buffer, size, columns, number, hash, groups);
    return row->group < 0 ? -1 : 0;
}

int64_t walk_records(struct buffer buffer, int64_t begin, int64_t end, int64_t physical_offset,
                     struct columns *columns, struct groups *groups) {
    int64_t at = begin;
    while (at < end && columns->count < columns->rows_max) {
        int64_t size = read_record(buffer.begin, at, end,
                                   (uint64_t)physical_offset + (uint64_t)(at - begin),
                                   &columns->rows[columns->count]);
        if (!size)
            break;
        if (groups && fill_group(buffer.begin, buffer.size, columns, columns->count, groups) < 0)
            return -1;
        columns->count++;
        at += size;
    }
    return at;
}

int64_t scan_pulled(struct buffer buffer, struct buffer topic, int64_t queue_id,
                    struct columns *columns) {
    int64_t at = 0;
    while (buffer.size - at >= PHYSICAL_OFFSET_AT + 8 && columns->count < columns->rows_max) {
        struct row *row = &columns->rows[columns->count];
        uint64_t stated = get_64(buffer.begin + at + PHYSICAL_OFFSET_AT);
        int64_t size = read_record(buffer.begin, at, buffer.size, stated, row);
        if (!size)
            break;
        int is_own = row->queue_id == queue_id && row->topic_bytes == topic.size &&
                     !(row->sys_flag & TRANSACTION_PREPARED) && /* nor rolled back */
                     !memcmp(topic.begin, buffer.begin + row->topic_begin, (size_t)topic.size);
        row->group = is_own ? 0 : NO_GROUP;
        columns->count++;
        at += size;
    }
    return at;
}

int64_t keep_records(struct buffer window, const struct row *found, int64_t begin, int64_t end,
                     struct buffer kept, int64_t *kept_end, struct columns *columns,
                     struct groups *groups) {
    for (int64_t number = begin; number < end; number++) {
        const struct row *row = &found[number];
        int64_t at = record_begin(row, window.size);
        if (at < 0)
            return -1;
        int64_t head_bytes = HEAD_BYTES_V4 + hosts_extra_bytes(row->sys_flag);
        int64_t tail_begin = row->topic_begin - 1;
        int64_t tail_bytes = row->properties_begin + row->properties_bytes - tail_begin;
        if (columns->count == columns->rows_max ||
            !is_within(*kept_end, head_bytes + tail_bytes, kept.size))
            return number;
        memcpy(kept.begin + *kept_end, window.begin + at, HEAD_BYTES_V4);
        memcpy(kept.begin + *kept_end + HEAD_BYTES_V4, window.begin + at + HEAD_BYTES_V4,
               (size_t)head_bytes - HEAD_BYTES_V4);
        *kept_end += head_bytes;
        memcpy(kept.begin + *kept_end, window.begin + tail_begin, (size_t)tail_bytes);
        struct row *copy = &columns->rows[columns->count];
        *copy = *row;
        copy->topic_begin = *kept_end + 1;
        copy->properties_begin = *kept_end + row->properties_begin - tail_begin;
        *kept_end += tail_bytes;
        if (!has_texts(copy, *kept_end) ||
            fill_group(kept.begin, *kept_end, columns, columns->count, groups) < 0)
            return -1;
        columns->count++;
    }
    return end;
}
