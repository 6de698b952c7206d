/* Writes the responses of a run as frames, from a template of the header that all of them have. */

#include "runs.h"

#define FRAME_HEAD_BYTES 8
#define PLACES 4 /* the message id's offset, the queue id, the queue offset, the opaque */
#define HEX_DIGITS 16

static size_t digits_of(uint64_t value) {
    size_t digits = 1;
    while (value >= 10) {
        value /= 10;
        digits++;
    }
    return digits;
}

static uint64_t magnitude(int64_t value) {
    return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

static size_t number_bytes(int64_t value) {
    return digits_of(magnitude(value)) + (value < 0);
}

static uint8_t *put_number(uint8_t *out, int64_t value) {
    uint64_t rest = magnitude(value);
    uint8_t *end = out + number_bytes(value), *at = end;
    do {
        *--at = (uint8_t)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (value < 0)
        *--at = '-';
    return end;
}

static uint8_t *put_hex(uint8_t *out, uint64_t value) {
    for (int shift = 60; shift >= 0; shift -= 4)
        *out++ = (uint8_t)"0123456789ABCDEF"[value >> shift & 0xF];
    return out;
}

static uint8_t *put_bytes(uint8_t *out, struct bytes from) {
    memcpy(out, from.begin, from.size);
    return out + from.size;
}

/* Split the template at its NUL bytes. Return 0 if it has not as many as there are places. */
static int split(struct bytes template, struct bytes parts[PLACES + 1]) {
    const uint8_t *at = template.begin, *end = at + template.size;
    for (int i = 0; i < PLACES; i++) {
        const uint8_t *nul = memchr(at, 0, (size_t)(end - at));
        if (!nul)
            return 0;
        parts[i] = (struct bytes){at, (size_t)(nul - at)};
        at = nul + 1;
    }
    parts[PLACES] = (struct bytes){at, (size_t)(end - at)};
    return memchr(at, 0, (size_t)(end - at)) == NULL;
}

/* Return how many rows one response has: of a batch it is one for each message. */
static size_t rows_of(const struct stored *stored, size_t left) {
    size_t count = 1;
    while (count < left && stored[count].queue_offset < 0)
        count++;
    return count;
}

size_t encode_responses(struct bytes template, struct bytes joint, const struct stored *stored,
                        size_t stored_count, uint8_t *out) {
    struct bytes parts[PLACES + 1];
    size_t total = 0;
    if (template.size == 0 || !split(template, parts))
        return 0;
    for (size_t i = 0, ids; i < stored_count; i += ids) {
        const struct stored *each = &stored[i];
        ids = rows_of(each, stored_count - i);
        size_t header = template.size - PLACES + ids * (HEX_DIGITS + joint.size) - joint.size +
                        number_bytes(each->queue_id) + number_bytes(each->queue_offset) +
                        number_bytes(each->opaque);
        total += FRAME_HEAD_BYTES + header;
        if (!out)
            continue;
        put_32(out, (uint32_t)(header + 4));
        put_32(out + 4, (uint32_t)header);
        out = put_bytes(out + FRAME_HEAD_BYTES, parts[0]);
        out = put_hex(out, (uint64_t)each->physical_offset);
        for (size_t id = 1; id < ids; id++)
            out = put_hex(put_bytes(out, joint), (uint64_t)each[id].physical_offset);
        out = put_bytes(out, parts[1]);
        out = put_bytes(put_number(out, each->queue_id), parts[2]);
        out = put_bytes(put_number(out, each->queue_offset), parts[3]);
        out = put_bytes(put_number(out, each->opaque), parts[4]);
    }
    return total;
}
