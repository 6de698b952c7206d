/* See rows.h.

   Source: org.apache.rocketmq.common.message.MessageDecoder#decode, #string2messageProperties
   (4.9.3). */

#include "rows.h"

int read_fields(struct buffer buffer, const struct row *rows, int64_t rows_count,
                const int64_t *numbers, int64_t count, struct fields *fields, int has_bodies) {
    for (int64_t i = 0; i < count; i++) {
        if (numbers[i] < 0 || numbers[i] >= rows_count)
            return -1;
        const struct row *row = &rows[numbers[i]];
        struct fields *out = &fields[i];
        int64_t hosts = hosts_extra_bytes(row->sys_flag), at = -1;
        /* The physical offset of a pulled record does not give its position in the buffer. */
        if (has_bodies)
            at = record_begin(row, buffer.size);
        else if (has_texts(row, buffer.size))
            at = row->topic_begin - 1 - hosts - HEAD_BYTES_V4;
        if (at < 0)
            return -1;
        const uint8_t *head = buffer.begin + at;
        struct found found;
        out->record = at;
        out->flag = (int32_t)get_32(head + FLAG_AT);
        out->body_crc = (int32_t)get_32(head + CRC_AT);
        out->born_timestamp = (int64_t)get_64(head + BORN_TIMESTAMP_AT);
        out->born_host = at + BORN_HOST_AT;
        out->store_host = at + STORE_HOST_AT_V4 + born_extra_bytes(row->sys_flag);
        out->reconsume_times = (int32_t)get_32(head + RECONSUME_TIMES_AT_V4 + hosts);
        out->body_begin = at + HEAD_BYTES_V4 + hosts;
        out->body_end = row->topic_begin - 1;
        find_properties(buffer.begin, row->properties_begin,
                        row->properties_begin + row->properties_bytes, &found);
        out->keys_begin = found.begin[FOUND_KEYS];
        out->keys_end = found.end[FOUND_KEYS];
        out->tags_begin = found.begin[FOUND_TAGS];
        out->tags_end = found.end[FOUND_TAGS];
        out->uniq_begin = found.begin[FOUND_UNIQ];
        out->uniq_end = found.end[FOUND_UNIQ];
    }
    return 0;
}

typedef uint64_t lanes __attribute__((vector_size(16)));

static inline void copy_lanes(const uint8_t *from, uint8_t *to, lanes *seen) {
    lanes copied;
    memcpy(&copied, from, sizeof copied);
    memcpy(to, &copied, sizeof copied);
    *seen |= copied;
}

/* Copy a span; *seen gets the or of all its bytes, in any lane. */
static inline void copy_span(const uint8_t *from, uint8_t *to, int64_t size, lanes *seen) {
    const int64_t step = sizeof(lanes);
    if (size < step) {
        for (int64_t i = 0; i < size; i++) {
            to[i] = from[i];
            (*seen)[0] |= from[i];
        }
        return;
    }
    int64_t at = 0;
    for (; at + 4 * step <= size; at += 4 * step)
        for (int i = 0; i < 4; i++)
            copy_lanes(from + at + i * step, to + at + i * step, seen);
    for (; at + step <= size; at += step)
        copy_lanes(from + at, to + at, seen);
    if (at < size) /* some bytes a second time */
        copy_lanes(from + size - step, to + size - step, seen);
}

static int or_of(lanes seen) {
    uint64_t words = seen[0] | seen[1];
    int all = 0;
    for (int shift = 0; shift < 64; shift += 8)
        all |= (int)(words >> shift & 0xFF);
    return all;
}

int gather(struct buffer buffer, const int64_t *begins, const int64_t *ends, int64_t count,
           int32_t *offsets, struct buffer out) {
    int64_t to = 0;
    lanes seen = {0};
    for (int64_t i = 0; i < count; i++) {
        int64_t begin = begins[i], end = ends[i];
        if (begin < 0 || begin > end || end > buffer.size || end - begin > out.size - to)
            return -1;
        offsets[i] = (int32_t)to;
        copy_span(buffer.begin + begin, out.begin + to, end - begin, &seen);
        to += end - begin;
    }
    offsets[count] = (int32_t)to;
    return or_of(seen);
}

/* Return the place of a name among the pairs from `first` on, or a free place; -1 if none is. */
static int64_t place_of(struct buffer buffer, const uint8_t *name, ptrdiff_t size,
                        const struct pair *pairs, int64_t first, int64_t count,
                        const int32_t *places, int64_t places_count) {
    uint64_t hash = (uint64_t)size, mask = (uint64_t)places_count - 1;
    for (ptrdiff_t i = 0; i < size; i++)
        hash = hash * 31 + name[i];
    uint64_t place = hash * 0x9E3779B97F4A7C15u >> 32 & mask;
    for (int64_t tries = 0; tries < places_count; tries++) {
        int64_t pair = (int64_t)places[place] - 1;
        if (pair < 0)
            return (int64_t)place;
        if (pair < first || pair >= count)
            return -1;
        if (pairs[pair].name_end - pairs[pair].name_begin == size &&
            !memcmp(buffer.begin + pairs[pair].name_begin, name, (size_t)size))
            return (int64_t)place;
        place = (place + 1) & mask;
    }
    return -1;
}

/* Find the properties of a record from pairs[first] on; return the new total count, or -1. */
static int64_t pairs_of(struct buffer buffer, const struct row *row, struct pair *pairs,
                        int64_t first, int64_t pairs_max, int32_t *places, int64_t places_count) {
    int32_t *used = places + places_count;
    int64_t found = first;
    if (!has_texts(row, buffer.size))
        return -1;
    const uint8_t *at = buffer.begin + row->properties_begin, *end = at + row->properties_bytes;
    while (at < end) {
        struct span_of_property each = next_property(at, end);
        if (each.is_property) {
            int64_t place = place_of(buffer, at, each.separator - at, pairs, first, found, places,
                                     places_count);
            if (place < 0)
                return -1;
            if (places[place] <= 0) {
                if (found == pairs_max || found - first == places_count)
                    return -1;
                used[found - first] = (int32_t)place;
                pairs[found].name_begin = at - buffer.begin;
                pairs[found].name_end = each.separator - buffer.begin;
                places[place] = (int32_t)++found;
            }
            struct pair *pair = &pairs[places[place] - 1];
            pair->value_begin = each.separator + 1 - buffer.begin;
            pair->value_end = each.stop - buffer.begin;
        }
        at = each.stop + (each.stop < end);
    }
    for (int64_t k = 0; k < found - first; k++)
        places[used[k]] = 0;
    return found;
}

int64_t find_pairs(struct buffer buffer, const struct row *rows, int64_t rows_count,
                   const int64_t *numbers, int64_t count, int32_t *row_ends, struct pair *pairs,
                   int64_t pairs_max, int32_t *places, int64_t places_count) {
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        row_ends[i] = (int32_t)found;
        if (numbers[i] < 0 || numbers[i] >= rows_count)
            return -1;
        found = pairs_of(buffer, &rows[numbers[i]], pairs, found, pairs_max, places, places_count);
        if (found < 0)
            return -1;
    }
    row_ends[count] = (int32_t)found;
    return found;
}

/* Whether 16 bytes hold a v4 address, as which Java reads them. */
static int is_mapped(const uint8_t *at) {
    static const uint8_t FRONT[12] = {[10] = 0xFF, [11] = 0xFF};
    return !memcmp(at, FRONT, sizeof FRONT);
}

static uint8_t *put_hex_bytes(uint8_t *out, const uint8_t *at, int64_t count) {
    static const char DIGITS[] = "0123456789ABCDEF";
    for (int64_t i = 0; i < count; i++) {
        *out++ = (uint8_t)DIGITS[at[i] >> 4];
        *out++ = (uint8_t)DIGITS[at[i] & 15];
    }
    return out;
}

#define ID_BYTES_MAX (2 * (HOST_BYTES_V4 + V6_EXTRA_BYTES + 8))

/* Write the id of the record at begin[at], whose store host has so many bytes; return its end. */
static uint8_t *put_id(uint8_t *to, const uint8_t *begin, int64_t at, int64_t host_at,
                       int64_t host_bytes) {
    const uint8_t *host = begin + host_at;
    if (host_bytes > HOST_BYTES_V4 && is_mapped(host)) {
        host += V6_EXTRA_BYTES;
        host_bytes = HOST_BYTES_V4;
    }
    to = put_hex_bytes(to, host, host_bytes);
    return put_hex_bytes(to, begin + at + PHYSICAL_OFFSET_AT, 8);
}

int format_ids(struct buffer buffer, const struct fields *fields, int64_t count,
               const uint8_t *is_v6, int use_uniq, int32_t *offsets, struct buffer out) {
    uint8_t *to = out.begin, *room_end = out.begin + out.size;
    lanes seen = {0};
    for (int64_t i = 0; i < count; i++) {
        const struct fields *each = &fields[i];
        offsets[i] = (int32_t)(to - out.begin);
        if (use_uniq && each->uniq_end > each->uniq_begin) {
            if (each->uniq_begin < 0 || each->uniq_end > buffer.size ||
                each->uniq_end - each->uniq_begin > room_end - to)
                return -1;
            int64_t uniq_bytes = each->uniq_end - each->uniq_begin;
            copy_span(buffer.begin + each->uniq_begin, to, uniq_bytes, &seen);
            to += uniq_bytes;
            continue;
        }
        int64_t host_bytes = HOST_BYTES_V4 + (is_v6[i] ? V6_EXTRA_BYTES : 0);
        if (!is_within(each->store_host, host_bytes, buffer.size) ||
            !is_within(each->record, PHYSICAL_OFFSET_AT + 8, buffer.size) ||
            2 * (host_bytes + 8) > room_end - to)
            return -1;
        to = put_id(to, buffer.begin, each->record, each->store_host, host_bytes);
    }
    offsets[count] = (int32_t)(to - out.begin);
    return or_of(seen);
}

static int append(struct texts *texts, int64_t index, const uint8_t *from, int64_t size,
                  lanes *seen) {
    if (size > texts->size - texts->end)
        return -1;
    if (seen)
        copy_span(from, texts->begin + texts->end, size, seen);
    else
        memcpy(texts->begin + texts->end, from, (size_t)size);
    texts->end += size;
    texts->offsets[index + 1] = (int32_t)texts->end;
    return 0;
}

static int is_named(struct buffer buffer, const struct pair *pair, const char *name, size_t size) {
    return (size_t)(pair->name_end - pair->name_begin) == size &&
           !memcmp(buffer.begin + pair->name_begin, name, size);
}

/* Append the properties of a record, and those of them that are columns. id: without UNIQ_KEY. */
static int fill_properties(struct buffer buffer, const struct row *row, const uint8_t *id,
                           int64_t id_bytes, struct batch *batch, lanes *seen) {
    static const struct pair NONE;
    const struct pair *tags = &NONE, *keys = &NONE, *uniq = NULL;
    struct texts *texts = batch->texts;
    int64_t count = pairs_of(buffer, row, batch->pairs, 0, batch->pairs_max, batch->places,
                             batch->places_count);
    if (count < 0 || count > batch->properties_max - batch->properties_count)
        return -1;
    for (int64_t i = 0; i < count; i++) {
        const struct pair *pair = &batch->pairs[i];
        if (is_named(buffer, pair, "TAGS", 4))
            tags = pair;
        else if (is_named(buffer, pair, "KEYS", 4))
            keys = pair;
        else if (is_named(buffer, pair, "UNIQ_KEY", 8))
            uniq = pair;
        if (append(&texts[NAMES], batch->properties_count, buffer.begin + pair->name_begin,
                   pair->name_end - pair->name_begin, seen) < 0 ||
            append(&texts[VALUES], batch->properties_count, buffer.begin + pair->value_begin,
                   pair->value_end - pair->value_begin, seen) < 0)
            return -1;
        batch->properties_count++;
    }
    batch->row_ends[batch->count + 1] = (int32_t)batch->properties_count;
    batch->has[batch->count] = tags != &NONE;
    batch->has[batch->rows_max + batch->count] = keys != &NONE;
    if (uniq) {
        id = buffer.begin + uniq->value_begin;
        id_bytes = uniq->value_end - uniq->value_begin;
    }
    if (append(&texts[IDS], batch->count, id, id_bytes, NULL) < 0 ||
        append(&texts[TAGS], batch->count, buffer.begin + tags->value_begin,
               tags->value_end - tags->value_begin, NULL) < 0)
        return -1;
    return append(&texts[KEYS], batch->count, buffer.begin + keys->value_begin,
                  keys->value_end - keys->value_begin, NULL);
}

int fill_batch(struct buffer buffer, const struct row *rows, int64_t count, struct batch *batch) {
    lanes seen = {0};
    if (count > batch->rows_max - batch->count)
        return -1;
    for (int64_t i = 0; i < count; i++) {
        const struct row *row = &rows[i];
        int64_t at = record_begin(row, buffer.size), to = batch->count;
        if (at < 0)
            return -1;
        const uint8_t *head = buffer.begin + at;
        int64_t born = born_extra_bytes(row->sys_flag), hosts = hosts_extra_bytes(row->sys_flag);
        int64_t body_bytes = row->topic_begin - 1 - (at + HEAD_BYTES_V4 + hosts);
        if (row->sys_flag & BODY_COMPRESSED)
            body_bytes = 0;
        uint8_t id[ID_BYTES_MAX];
        int64_t id_bytes = put_id(id, buffer.begin, at, at + STORE_HOST_AT_V4 + born,
                                  HOST_BYTES_V4 + hosts - born) - id;
        if (append(&batch->texts[BODIES], to, head + HEAD_BYTES_V4 + hosts, body_bytes, NULL) < 0 ||
            append(&batch->texts[OFFSET_IDS], to, id, id_bytes, NULL) < 0 ||
            fill_properties(buffer, row, id, id_bytes, batch, &seen) < 0)
            return -1;
        batch->longs[QUEUE_OFFSETS * batch->rows_max + to] = row->queue_offset;
        batch->longs[BORN * batch->rows_max + to] = (int64_t)get_64(head + BORN_TIMESTAMP_AT);
        batch->longs[STORED * batch->rows_max + to] = row->store_timestamp;
        batch->ints[QUEUE_IDS * batch->rows_max + to] = (int32_t)row->queue_id;
        batch->ints[FLAGS * batch->rows_max + to] = (int32_t)get_32(head + FLAG_AT);
        batch->ints[RECONSUMED * batch->rows_max + to] =
            (int32_t)get_32(head + RECONSUME_TIMES_AT_V4 + hosts);
        batch->count++;
    }
    return or_of(seen);
}
