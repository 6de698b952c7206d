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

int64_t find_pairs(struct buffer buffer, const struct row *rows, int64_t rows_count,
                   const int64_t *numbers, int64_t count, int32_t *row_ends, struct pair *pairs,
                   int64_t pairs_max, int32_t *places, int64_t places_count) {
    int32_t *used = places + places_count;
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t first = found;
        row_ends[i] = (int32_t)found;
        if (numbers[i] < 0 || numbers[i] >= rows_count)
            return -1;
        const struct row *row = &rows[numbers[i]];
        if (!has_texts(row, buffer.size))
            return -1;
        const uint8_t *at = buffer.begin + row->properties_begin, *end = at + row->properties_bytes;
        while (at < end) {
            struct span_of_property each = next_property(at, end);
            if (each.is_property) {
                int64_t place = place_of(buffer, at, each.separator - at, pairs, first, found,
                                         places, places_count);
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
        const uint8_t *host = buffer.begin + each->store_host;
        if (is_v6[i] && is_mapped(host)) {
            host += V6_EXTRA_BYTES;
            host_bytes = HOST_BYTES_V4;
        }
        to = put_hex_bytes(to, host, host_bytes);
        to = put_hex_bytes(to, buffer.begin + each->record + PHYSICAL_OFFSET_AT, 8);
    }
    offsets[count] = (int32_t)(to - out.begin);
    return or_of(seen);
}
