/* Chooses the records that a pull sends, and copies them out of a stretch of the log.

   The rules are those of wakelog/storage/read/reader.py (_front, _select_each) and frames.py; where
   they are not simple, nothing is chosen or copied, and Python does it. */

#include "pulls.h"
#include "record_layout.h"

enum {
    RECORD_BYTES_MIN = HEAD_BYTES_V4 + TAIL_BYTES_MIN,
    TAGS_CODE_AT = 12,
    UNCOMMON_FLAGS = BODY_COMPRESSED | BORN_HOST_V6 | STORE_HOST_V6,
};

#define EXTENSION_ADDRESS_MAX (-(INT64_C(1) << 31) - 1) /* a lower tags code is of a unit */

struct entry {
    int64_t begin, size;
};

static struct entry entry_at(struct bytes entries, size_t index) {
    const uint8_t *at = entries.begin + index * ENTRY_BYTES;
    return (struct entry){(int64_t)get_64(at), (int32_t)get_32(at + 8)};
}

int choose_stretch(struct bytes entries, struct stretch_limits limits, struct stretch *found) {
    size_t count = entries.size / ENTRY_BYTES, chosen = count;
    int64_t end = limits.end; /* of the log in the first record's segment */
    if (!count || entries.size % ENTRY_BYTES || limits.count_max < 1 || limits.segment_bytes < 1)
        return 0;
    if ((uint64_t)limits.count_max < chosen)
        chosen = (size_t)limits.count_max;
    for (size_t i = 0; i < count; i++) {
        struct entry each = entry_at(entries, i);
        if (each.begin < limits.begin || each.begin >= limits.end)
            return 0;
        if (i >= chosen)
            continue;
        if (!i) {
            *found = (struct stretch){.begin = each.begin, .end = each.begin};
            int64_t left = limits.segment_bytes - each.begin % limits.segment_bytes;
            if (left < limits.end - each.begin)
                end = each.begin + left;
        }
        int64_t gap = each.begin - found->end;
        if (each.size < RECORD_BYTES_MIN)
            return 0;
        if (i && (found->bytes + each.size > limits.bytes_max || gap < 0 ||
                  gap > limits.gap_bytes_max || each.begin >= end ||
                  each.size > end - each.begin)) {
            chosen = i; /* the next read may bring it */
            continue;
        }
        if (each.size > end - each.begin)
            return 0;
        found->end = each.begin + each.size;
        found->bytes += each.size;
        found->last_sent = each.begin;
    }
    found->count = (int64_t)chosen;
    found->last_read = entry_at(entries, chosen < count ? chosen : count - 1).begin;
    return 1;
}

static int is_among(int64_t code, const int64_t *codes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (codes[i] == code)
            return 1;
    return 0;
}

int filter_entries(struct bytes entries, const int64_t *codes, size_t codes_count,
                   struct stretch_limits limits, uint8_t *out, struct filtered *found) {
    size_t count = entries.size / ENTRY_BYTES;
    *found = (struct filtered){.last_sent = -1, .last_read = -1};
    if (!count || entries.size % ENTRY_BYTES || limits.count_max < 1)
        return 0;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *at = entries.begin + i * ENTRY_BYTES;
        struct entry each = entry_at(entries, i);
        int64_t code = (int64_t)get_64(at + TAGS_CODE_AT);
        if (each.begin < limits.begin || each.begin >= limits.end ||
            each.size < RECORD_BYTES_MIN || code <= EXTENSION_ADDRESS_MAX)
            return 0;
        found->last_read = each.begin;
        if (found->count && (found->count >= limits.count_max ||
                             found->bytes + each.size > limits.bytes_max))
            break; /* whatever its tags are */
        found->scanned++;
        if (!is_among(code, codes, codes_count))
            continue;
        memcpy(out + found->count++ * ENTRY_BYTES, at, ENTRY_BYTES);
        found->bytes += each.size;
        found->last_sent = each.begin;
    }
    return 1;
}

/* Whether a sound record of the common kind begins here; one of its size is in the view. */
static int is_common(const uint8_t *record, struct entry entry) {
    size_t size = (size_t)entry.size, body = get_32(record + BODY_SIZE_AT_V4);
    if (get_32(record) != size || get_32(record + MAGIC_AT) != MESSAGE_MAGIC ||
        (int64_t)get_64(record + PHYSICAL_OFFSET_AT) != entry.begin ||
        get_32(record + SYS_FLAG_AT) & UNCOMMON_FLAGS || body == 0 ||
        body > size - RECORD_BYTES_MIN)
        return 0;
    /* The topic's length follows the body, the properties' length the topic. */
    size_t tail = HEAD_BYTES_V4 + body;
    tail += (size_t)1 + record[tail];
    if (tail > size - 2)
        return 0;
    size_t properties = (size_t)record[tail] << 8 | record[tail + 1];
    if (properties > RECORD_PROPERTIES_BYTES_MAX)
        properties = 0; /* a negative length */
    return properties == size - 2 - tail;
}

int join_records(struct bytes view, int64_t begin, struct bytes entries, size_t count, uint8_t *out,
                 size_t out_size) {
    size_t used = 0;
    if (begin < 0 || count > entries.size / ENTRY_BYTES)
        return 0;
    for (size_t i = 0; i < count; i++) {
        struct entry each = entry_at(entries, i);
        if (each.size < RECORD_BYTES_MIN || each.begin < begin ||
            (uint64_t)(each.begin - begin) > view.size ||
            (size_t)each.size > view.size - (size_t)(each.begin - begin) ||
            (size_t)each.size > out_size - used)
            return 0;
        const uint8_t *record = view.begin + (each.begin - begin);
        if (!is_common(record, each))
            return 0;
        if (record != out + used) /* it may have been read to its place */
            memcpy(out + used, record, (size_t)each.size);
        used += (size_t)each.size;
    }
    return used == out_size;
}
