/* Writes the records of plain sends one behind the other; a batch has one for each message.

   The layout of a record is that of wakelog/protocol/record.py; a test compares the bytes. Its
   head comes with the hosts in it. Properties are decoded, get CLUSTER, lose WAIT, and are written
   in the order of a java.util.HashMap, as properties.py and java.py do. */

#include "record_layout.h"
#include "runs.h"

enum { HOST_FLAGS = BORN_HOST_V6 | STORE_HOST_V6, ONEWAY_FLAG = 0x2 };
enum { TABLE_CAPACITY_MIN = 16, TREEIFY_THRESHOLD = 8, TREEIFY_CAPACITY_MIN = 64 };

struct property {
    struct bytes name, value;
    uint32_t hash;
};

struct properties {
    struct property all[NAMES_MAX];
    int count;
    int waits; /* WAIT is absent, or true */
    uint8_t order[NAMES_MAX]; /* of those that are stored */
    int stored_count;
    size_t bytes; /* of the text that is stored */
};

static int is_text(struct bytes a, const char *b) {
    return a.size == strlen(b) && memcmp(a.begin, b, a.size) == 0;
}

static int is_true(struct bytes a) {
    static const char TRUE[] = "true";
    if (a.size != 4)
        return 0;
    for (int i = 0; i < 4; i++)
        if ((a.begin[i] | 0x20) != TRUE[i])
            return 0;
    return 1;
}

static uint32_t hex_digit(uint8_t byte) {
    return byte <= '9' ? (uint32_t)(byte - '0') : (uint32_t)((byte | 0x20) - 'a' + 10);
}

/* Decode one escape, which read_sends has checked; return what follows it, NULL if it is none. */
static const uint8_t *decode_escape(const uint8_t *at, const uint8_t *end, uint8_t **out) {
    static const char LETTERS[] = "bfnrt", BYTES[] = "\b\f\n\r\t";
    uint8_t *to = *out;
    if (end - at < 2)
        return NULL;
    if (at[1] != 'u') {
        const char *letter = at[1] ? strchr(LETTERS, at[1]) : NULL;
        *to++ = letter ? (uint8_t)BYTES[letter - LETTERS] : at[1];
        *out = to;
        return at + 2;
    }
    if (end - at < 6)
        return NULL;
    uint32_t c = hex_digit(at[2]) << 12 | hex_digit(at[3]) << 8 | hex_digit(at[4]) << 4 |
                 hex_digit(at[5]);
    if (c < 0x80) {
        *to++ = (uint8_t)c;
    } else if (c < 0x800) {
        *to++ = (uint8_t)(0xC0 | c >> 6);
        *to++ = (uint8_t)(0x80 | (c & 0x3F));
    } else {
        *to++ = (uint8_t)(0xE0 | (c >> 12 & 0x0F));
        *to++ = (uint8_t)(0x80 | (c >> 6 & 0x3F));
        *to++ = (uint8_t)(0x80 | (c & 0x3F));
    }
    *out = to;
    return at + 6;
}

ptrdiff_t decode_text(const uint8_t *at, size_t size, uint8_t *out) {
    const uint8_t *end = at + size;
    uint8_t *to = out;
    while (at < end) {
        const uint8_t *slash = memchr(at, '\\', (size_t)(end - at));
        size_t plain = (size_t)((slash ? slash : end) - at);
        memcpy(to, at, plain);
        to += plain;
        at += plain;
        if (slash && !(at = decode_escape(at, end, &to)))
            return -1;
    }
    return to - out;
}

/* Set a property; a name keeps the place where it came first. Return 0 if that is for Python. */
static int put_property(struct properties *found, struct bytes name, struct bytes value) {
    uint32_t hash = 0;
    for (size_t i = 0; i < name.size; i++) {
        if (name.begin[i] >= 0x80)
            return 0;
        hash = hash * 31 + name.begin[i];
    }
    hash ^= hash >> 16;
    for (int i = 0; i < found->count; i++) {
        struct property *each = &found->all[i];
        if (each->hash == hash && each->name.size == name.size &&
            memcmp(each->name.begin, name.begin, name.size) == 0) {
            each->value = value;
            return 1;
        }
    }
    if (found->count == NAMES_MAX)
        return 0;
    found->all[found->count++] = (struct property){name, value, hash};
    return 1;
}

/* Read the pairs of a text. Return 0 if the message is delayed, half, or for Python. */
static int read_properties(struct bytes text, struct bytes cluster, struct properties *found) {
    const uint8_t *at = text.begin, *end = text.begin + text.size;
    while (at < end) {
        const uint8_t *pair_end = memchr(at, PROPERTY_SEPARATOR, (size_t)(end - at));
        if (!pair_end)
            pair_end = end;
        const uint8_t *middle = memchr(at, NAME_VALUE_SEPARATOR, (size_t)(pair_end - at));
        if (middle && middle > at && middle + 1 < pair_end) {
            struct bytes name = {at, (size_t)(middle - at)};
            struct bytes value = {middle + 1, (size_t)(pair_end - middle - 1)};
            if (is_text(name, "DELAY") || is_text(name, "TRAN_MSG"))
                return 0;
            if (!put_property(found, name, value))
                return 0;
            if (is_text(name, "WAIT"))
                found->waits = is_true(value);
        }
        at = pair_end + 1;
    }
    struct bytes name = {(const uint8_t *)"CLUSTER", 7};
    return put_property(found, name, cluster);
}

/* Return the capacity of a HashMap into which the names were put one after the other. */
static uint32_t table_capacity(const struct properties *found) {
    uint32_t capacity = TABLE_CAPACITY_MIN;
    uint8_t sizes[NAMES_MAX * 4] = {0};
    if (found->count <= TREEIFY_THRESHOLD)
        return capacity; /* no bucket can be crowded */
    for (int i = 0; i < found->count; i++) {
        uint8_t *bucket = &sizes[found->all[i].hash & (capacity - 1)];
        int doublings = *bucket >= TREEIFY_THRESHOLD && capacity < TREEIFY_CAPACITY_MIN;
        ++*bucket;
        while ((uint32_t)(i + 1) > (capacity << doublings) * 3 / 4)
            doublings++;
        if (doublings) {
            capacity <<= doublings;
            memset(sizes, 0, sizeof sizes);
            for (int j = 0; j <= i; j++)
                sizes[found->all[j].hash & (capacity - 1)]++;
        }
    }
    return capacity;
}

/* Put the names that are stored in order, and measure their text. */
static void order_properties(struct properties *found, int keeps_wait) {
    uint32_t mask = table_capacity(found) - 1;
    uint8_t *order = found->order;
    int count = 0;
    found->bytes = 0;
    for (int i = 0; i < found->count; i++) {
        const struct property *each = &found->all[i];
        int place = count;
        if (!keeps_wait && is_text(each->name, "WAIT"))
            continue;
        while (place > 0 && (found->all[order[place - 1]].hash & mask) > (each->hash & mask)) {
            order[place] = order[place - 1];
            place--;
        }
        order[place] = (uint8_t)i;
        found->bytes += each->name.size + 1 + each->value.size + (count > 0);
        count++;
    }
    found->stored_count = count;
}

static uint8_t *put_bytes(uint8_t *out, struct bytes from) {
    memcpy(out, from.begin, from.size);
    return out + from.size;
}

static uint8_t *put_properties(uint8_t *out, const struct properties *found) {
    for (int i = 0; i < found->stored_count; i++) {
        const struct property *each = &found->all[found->order[i]];
        if (i)
            *out++ = PROPERTY_SEPARATOR;
        out = put_bytes(out, each->name);
        *out++ = NAME_VALUE_SEPARATOR;
        out = put_bytes(out, each->value);
    }
    return out;
}

/* Whether the ranges of a send are in the chunk, and its queue is one of the table's. */
static int is_sound(struct bytes chunk, size_t queues_count, const struct send *send) {
    int64_t size = (int64_t)chunk.size;
    return send->queue >= 0 && (size_t)send->queue < queues_count && send->body_begin >= 0 &&
           send->body_begin <= send->end && send->end <= size && send->topic_begin >= 0 &&
           send->topic_bytes >= 0 && (int64_t)send->topic_begin + send->topic_bytes <= size &&
           send->properties_bytes >= 0 && send->batched >= 0 && send->properties_begin >= -1 &&
           (send->properties_begin >= 0
                ? (int64_t)send->properties_begin + send->properties_bytes <= size
                : send->properties_bytes == 0);
}

/* What the records of one send have in common. */
struct draft {
    const struct send *send;
    struct queue *queue;
    struct bytes head, topic;
    struct properties properties;
    uint8_t text[PROPERTIES_READ_BYTES_MAX]; /* which the properties point to */
};

static void put_head(uint8_t *out, const struct draft *draft, int32_t flag, struct log_end log,
                     uint32_t size, struct bytes body) {
    struct bytes head = draft->head;
    const struct send *send = draft->send;
    memcpy(out, head.begin, head.size);
    uint32_t host_flags = get_32(out + SYS_FLAG_AT) & HOST_FLAGS;
    size_t born = host_flags & BORN_HOST_V6 ? V6_EXTRA_BYTES : 0, hosts = head.size - HEAD_BYTES_V4;
    uint32_t sys_flag = (uint32_t)send->sys_flag | (uint32_t)draft->queue->sys_flag;
    put_32(out + SIZE_AT, size);
    put_32(out + CRC_AT, crc32_of(body.begin, body.size) & CRC_MASK);
    put_32(out + QUEUE_ID_AT, (uint32_t)send->queue_id);
    put_32(out + FLAG_AT, (uint32_t)flag);
    put_64(out + QUEUE_OFFSET_AT, (uint64_t)draft->queue->next_offset);
    put_64(out + PHYSICAL_OFFSET_AT, (uint64_t)log.physical_offset);
    put_32(out + SYS_FLAG_AT, (sys_flag & ~(uint32_t)HOST_FLAGS) | host_flags);
    put_64(out + BORN_TIMESTAMP_AT, (uint64_t)send->born_ms);
    put_64(out + STORE_TIMESTAMP_AT_V4 + born, (uint64_t)log.timestamp_ms);
    put_32(out + RECONSUME_TIMES_AT_V4 + hosts, (uint32_t)send->reconsume_times);
    put_32(out + BODY_SIZE_AT_V4 + hosts, (uint32_t)body.size);
}

/* Understand a send. Return 0 if it needs more than that. */
static int begin_draft(struct draft *draft, struct bytes chunk, const struct send *send,
                       struct queue *queue, struct bytes head, struct bytes cluster,
                       struct log_end log) {
    struct properties *found = &draft->properties;
    ptrdiff_t text_size = 0;
    if (queue->next_offset < 0 || send->sys_flag & TRANSACTION_MASK ||
        send->topic_bytes > TOPIC_BYTES_MAX || (size_t)send->properties_bytes > sizeof draft->text)
        return 0;
    if (send->properties_begin >= 0)
        text_size = decode_text(chunk.begin + send->properties_begin,
                                (size_t)send->properties_bytes, draft->text);
    if (text_size < 0)
        return 0;
    found->count = 0;
    found->waits = 1;
    if (!read_properties((struct bytes){draft->text, (size_t)text_size}, cluster, found) ||
        (log.obeys_wait && !found->waits))
        return 0;
    order_properties(found, send->batched != 0);
    draft->send = send;
    draft->queue = queue;
    draft->head = head;
    draft->topic = (struct bytes){chunk.begin + send->topic_begin, (size_t)send->topic_bytes};
    return 1;
}

/* Where the next record goes, and the row for its response. */
struct placing {
    struct log_end log;
    uint8_t *out;
    const uint8_t *out_end;
    struct stored *rows;
    struct stored_counts counts;
};

/* Write one record up to its properties, at `out`, which moves behind them. Return its size, 0 if it
   is too long or has no room in the log, -1 if there is none in what Python gave. */
static int64_t put_record(const struct draft *draft, int32_t flag, struct bytes body,
                          size_t properties_bytes, const struct placing *to, uint8_t **out) {
    struct log_end log = to->log;
    size_t size = draft->head.size + body.size + 1 + draft->topic.size + 2 + properties_bytes;
    if (properties_bytes > RECORD_PROPERTIES_BYTES_MAX || (int64_t)size > log.record_bytes_max ||
        (int64_t)size > log.room_end - log.physical_offset || draft->queue->next_offset == INT64_MAX)
        return 0;
    if (size > (size_t)(to->out_end - *out) || to->counts.rows == BATCH_RECORDS_MAX)
        return -1;
    put_head(*out, draft, flag, log, (uint32_t)size, body);
    uint8_t *at = put_bytes(*out + draft->head.size, body);
    *at++ = (uint8_t)draft->topic.size;
    at = put_bytes(at, draft->topic);
    put_16(at, (uint32_t)properties_bytes);
    *out = at + 2;
    return (int64_t)size;
}

/* Go on behind a record whose properties end at `out`. */
static void advance(struct placing *to, struct draft *draft, uint8_t *out, int64_t size,
                    int is_first) {
    const struct send *send = draft->send;
    to->rows[to->counts.rows++] =
        (struct stored){send->opaque, send->queue_id, to->log.physical_offset,
                        is_first ? draft->queue->next_offset : -1};
    draft->queue->next_offset++;
    to->log.physical_offset += size;
    to->out = out;
}

static int64_t place_message(struct draft *draft, struct bytes body, struct placing *to) {
    size_t properties = draft->properties.bytes;
    uint8_t *at = to->out;
    int64_t size = put_record(draft, draft->send->flag, body, properties, to, &at);
    if (size > 0)
        advance(to, draft, put_properties(at, &draft->properties), size, 1);
    return size;
}

/* Place the messages of a batch; their records together may be as long as one. */
static int64_t place_batch(struct draft *draft, struct bytes body, struct placing *to) {
    const uint8_t *block = NULL; /* the properties that all messages get, as they were written */
    size_t block_bytes = draft->properties.bytes;
    int64_t begin = to->log.physical_offset;
    struct part part;
    while (body.size) {
        if (!take_part(&body, &part))
            return 0;
        size_t inner = part.properties.size;
        int has_separator =
            inner && block_bytes && part.properties.begin[inner - 1] != PROPERTY_SEPARATOR;
        uint8_t *at = to->out;
        int64_t size = put_record(draft, part.flag, part.body,
                                  inner + (size_t)has_separator + block_bytes, to, &at);
        if (size <= 0)
            return size;
        at = put_bytes(at, part.properties);
        if (has_separator)
            *at++ = PROPERTY_SEPARATOR;
        uint8_t *end = block ? put_bytes(at, (struct bytes){block, block_bytes})
                             : put_properties(at, &draft->properties);
        advance(to, draft, end, size, !block);
        block = at;
        to->log.record_bytes_max -= size;
    }
    return to->log.physical_offset - begin;
}

/* Place a send, whole or not at all. Return the size of its records, 0 if it needs more than that,
   -1 if what Python gave does not fit together. */
static int64_t place(struct draft *draft, struct bytes body, struct placing *to) {
    struct placing after = *to;
    const struct send *send = draft->send;
    struct queue *queue = draft->queue;
    int64_t next_offset = queue->next_offset;
    int64_t size = send->batched ? place_batch(draft, body, &after)
                                 : place_message(draft, body, &after);
    if (size <= 0) {
        queue->next_offset = next_offset;
        return size;
    }
    queue->count += queue->next_offset - next_offset;
    queue->bytes += size;
    queue->sends++;
    after.log.record_bytes_max = to->log.record_bytes_max;
    if (send->command_flag & ONEWAY_FLAG)
        after.counts = to->counts;
    else
        after.counts.responses++;
    *to = after;
    return size;
}

int encode_records(struct bytes chunk, const struct send *sends, int sends_count,
                   struct queue *queues, size_t queues_count, struct bytes head,
                   struct bytes cluster, struct log_end log, uint8_t *out, size_t out_size,
                   size_t *out_used, struct stored *stored, struct stored_counts *counts) {
    struct placing to = {log, out, out + out_size, stored, {0, 0}};
    struct draft draft;
    int count = 0;
    if (log.physical_offset < 0 || head.size < HEAD_BYTES_V4)
        return -1;
    uint32_t host_flags = get_32(head.begin + SYS_FLAG_AT);
    size_t hosts = (size_t)!!(host_flags & BORN_HOST_V6) + (size_t)!!(host_flags & STORE_HOST_V6);
    if (head.size != HEAD_BYTES_V4 + hosts * V6_EXTRA_BYTES)
        return -1;
    for (; count < sends_count; count++) {
        const struct send *send = &sends[count];
        if (!is_sound(chunk, queues_count, send))
            return -1;
        if (!begin_draft(&draft, chunk, send, &queues[send->queue], head, cluster, log))
            break;
        struct bytes body = {chunk.begin + send->body_begin,
                             (size_t)(send->end - send->body_begin)};
        int64_t size = place(&draft, body, &to);
        if (size < 0)
            return -1;
        if (size == 0)
            break;
    }
    *out_used = (size_t)(to.out - out);
    *counts = to.counts;
    return count;
}
