/* What the functions over columns of records share. They know bytes, and nothing of Python.

   A row is one record, as wakelog/compiled/layout.py names its fields. Rows may come from
   anywhere: each position in one is compared with its buffer before it is used. A function that
   returns -1 was given what does not fit together. */

#ifndef WAKELOG_RECORDS_H
#define WAKELOG_RECORDS_H

#include "record_layout.h"
#include "runs.h"

#define NO_GROUP (-1)
#define RECORD_KEYS_MAX 64
enum { REFINE_TEXT = 1, REFINE_DELAY = 2, REFINE_MULTI = 4, REFINE_KEYS = 8 };

struct row {
    int64_t physical_offset, size, queue_id, queue_offset, sys_flag;
    int64_t store_timestamp, prepared_offset, tags_code;
    int64_t topic_begin, topic_bytes, properties_begin, properties_bytes;
    int64_t refine, group;
};
#define ROW_FIELDS ((int64_t)(sizeof(struct row) / sizeof(int64_t)))

struct buffer {
    uint8_t *begin;
    int64_t size;
};

/* The distinct queues of rows, as groups by number, and a hash table of them. */
struct groups {
    int32_t *numbers;     /* by place: a group's number plus 1, or 0 */
    int32_t *places;      /* by group: its place */
    int64_t places_count; /* a power of two, and more than there are groups */
    int32_t *firsts;      /* by group: its first row; behind them the count of groups */
    int64_t groups_max;
    struct buffer names;  /* the groups' topics, which outlive the buffer */
    int32_t *name_begins;
    int64_t name_begins_count;
    int64_t names_end; /* -1: nothing is copied, and `names` is the buffer with all rows */
};

struct keys {
    int32_t *hashes, *rows; /* of each index key */
    int64_t max, count;
};

struct columns {
    struct row *rows;
    int64_t rows_max, count;
};

static inline int64_t born_extra_bytes(int64_t sys_flag) {
    return sys_flag & BORN_HOST_V6 ? V6_EXTRA_BYTES : 0;
}

static inline int64_t hosts_extra_bytes(int64_t sys_flag) {
    return born_extra_bytes(sys_flag) + (sys_flag & STORE_HOST_V6 ? V6_EXTRA_BYTES : 0);
}

/* Whether [begin, begin + count) lies in [0, size). */
static inline int is_within(int64_t begin, int64_t count, int64_t size) {
    return begin >= 0 && count >= 0 && begin <= size && count <= size - begin;
}

/* Whether topic and properties of a row lie in a buffer. */
static inline int has_texts(const struct row *row, int64_t size) {
    return is_within(row->topic_begin, row->topic_bytes, size) &&
           is_within(row->properties_begin, row->properties_bytes, size);
}

/* Where the record of a row begins, bodies included; -1 if it is not in the buffer. */
static inline int64_t record_begin(const struct row *row, int64_t size) {
    if (!has_texts(row, size))
        return -1;
    int64_t record_end = row->properties_begin + row->properties_bytes;
    if (row->size < 0 || row->size > record_end)
        return -1;
    int64_t begin = record_end - row->size;
    int64_t body_begin = begin + HEAD_BYTES_V4 + hosts_extra_bytes(row->sys_flag);
    return body_begin < row->topic_begin && row->topic_begin <= record_end ? begin : -1;
}

/* Fill all of a row but tags, refine and group from the sound record at begin[at]. Return its
   size, 0 if there is none; bodies are not checked. record_walk.py is the twin.

   Source: org.apache.rocketmq.store.CommitLog#checkMessageAndReturnSize (4.9.3). */
static inline int64_t read_record(const uint8_t *buffer, int64_t at, int64_t end,
                                  uint64_t physical_offset, struct row *row) {
    const uint8_t *head = buffer + at;
    if (end - at < HEAD_BYTES_V4 + TAIL_BYTES_MIN)
        return 0;
    int64_t size = (int32_t)get_32(head + SIZE_AT);
    if (get_32(head + MAGIC_AT) != MESSAGE_MAGIC ||
        get_64(head + PHYSICAL_OFFSET_AT) != physical_offset)
        return 0;
    int64_t sys_flag = (int32_t)get_32(head + SYS_FLAG_AT), born = born_extra_bytes(sys_flag);
    int64_t hosts = hosts_extra_bytes(sys_flag), body_begin = HEAD_BYTES_V4 + hosts;
    if (size > end - at || body_begin + TAIL_BYTES_MIN > size)
        return 0;
    int64_t body_bytes = (int32_t)get_32(head + BODY_SIZE_AT_V4 + hosts);
    int64_t body_end = body_begin + (body_bytes > 0 ? body_bytes : 0);
    if (body_end + TAIL_BYTES_MIN > size)
        return 0;
    int64_t topic_bytes = head[body_end], topic_end = body_end + 1 + topic_bytes;
    if (topic_bytes > TOPIC_BYTES_MAX || topic_end + 2 > size)
        return 0;
    int64_t properties_bytes = head[topic_end] << 8 | head[topic_end + 1];
    if (properties_bytes > RECORD_PROPERTIES_BYTES_MAX)
        properties_bytes = 0; /* a negative length */
    if (topic_end + 2 + properties_bytes != size)
        return 0;
    row->physical_offset = (int64_t)physical_offset;
    row->size = size;
    row->queue_id = (int32_t)get_32(head + QUEUE_ID_AT);
    row->queue_offset = (int64_t)get_64(head + QUEUE_OFFSET_AT);
    row->sys_flag = sys_flag;
    row->store_timestamp = (int64_t)get_64(head + STORE_TIMESTAMP_AT_V4 + born);
    row->prepared_offset = (int64_t)get_64(head + PREPARED_OFFSET_AT_V4 + hosts);
    row->topic_begin = at + body_end + 1;
    row->topic_bytes = topic_bytes;
    row->properties_begin = at + topic_end + 2;
    row->properties_bytes = properties_bytes;
    return size;
}

/* Read the record at `at`, wherever in a log it lies. Return its size, 0 if decode_record of
   record.py would refuse it: a negative length counts as none above, and as damage here. */
static inline int64_t read_whole(struct buffer buffer, int64_t at, struct row *row) {
    if (buffer.size - at < PHYSICAL_OFFSET_AT + 8)
        return 0;
    const uint8_t *head = buffer.begin + at;
    int64_t size = read_record(buffer.begin, at, buffer.size, get_64(head + PHYSICAL_OFFSET_AT),
                               row);
    if (!size)
        return 0;
    int64_t body_bytes_at = BODY_SIZE_AT_V4 + hosts_extra_bytes(row->sys_flag);
    int is_negative = head[body_bytes_at] >> 7 || buffer.begin[row->properties_begin - 2] >> 7;
    return is_negative ? 0 : size;
}

/* Continue a Java hash with bytes; *seen gets the or of all. Of text beyond ASCII it is not that
   of Java.

   Source: java.lang.String#hashCode. */
static inline uint32_t java_hash(const uint8_t *at, const uint8_t *end, uint32_t hash,
                                 uint8_t *seen) {
    uint8_t all = *seen;
    for (; end - at >= 4; at += 4) {
        hash = hash * (31u * 31 * 31 * 31) + (at[0] * (31u * 31 * 31) + at[1] * (31u * 31) +
                                              at[2] * 31u + at[3]);
        all |= at[0] | at[1] | at[2] | at[3];
    }
    for (; at < end; at++) {
        hash = hash * 31 + *at;
        all |= *at;
    }
    *seen = all;
    return hash;
}

/* One property of [at, end): its name is [at, separator), its value (separator, stop). It is one
   only if neither is empty and the value has no further separator.

   Source: org.apache.rocketmq.common.message.MessageDecoder#string2messageProperties (4.9.3). */
struct span_of_property {
    const uint8_t *separator, *stop;
    int is_property;
};

struct span_of_property next_property(const uint8_t *at, const uint8_t *end);

/* The values of the properties that the functions look at, as positions in the buffer. */
enum { FOUND_KEYS, FOUND_TAGS, FOUND_UNIQ, FOUND_DELAY, FOUND_MULTI, FOUND_COUNT };
struct found {
    int64_t begin[FOUND_COUNT], end[FOUND_COUNT]; /* equal where one is absent */
};

void find_properties(const uint8_t *buffer, int64_t begin, int64_t end, struct found *found);

/* Return the group of a row's queue, which is made if it is new; -1. */
int64_t group_of(const uint8_t *buffer, int64_t size, const struct columns *columns, int64_t number,
                 uint32_t topic_hash, struct groups *groups);

/* Scan sound records of [begin, end), and append to what the columns hold. Return where the scan
   stopped, or -1. *refined gets the or of all bits of the new rows. */
int64_t scan_records(struct buffer buffer, int64_t begin, int64_t end, int64_t physical_offset,
                     struct columns *columns, struct keys *keys, struct groups *groups,
                     int64_t *refined);

/* The same without keys and tags; groups may be NULL. */
int64_t walk_records(struct buffer buffer, int64_t begin, int64_t end, int64_t physical_offset,
                     struct columns *columns, struct groups *groups);

/* The same for records of any place, in group 0 if they are of a queue. */
int64_t scan_pulled(struct buffer buffer, struct buffer topic, int64_t queue_id,
                    struct columns *columns);

/* Append rows [begin, end) of `found` without their bodies. Return the first without room, or -1.
   kept_end: of the bytes in `kept`, before and after. */
int64_t keep_records(struct buffer window, const struct row *found, int64_t begin, int64_t end,
                     struct buffer kept, int64_t *kept_end, struct columns *columns,
                     struct groups *groups);

/* Put the rows of [first, count) whose body has another CRC into `damaged`. Return how many, or
   -1. */
int64_t check_bodies(struct buffer buffer, const struct row *rows, int64_t first, int64_t count,
                     int32_t *damaged);

/* Sort rows by group, and encode their consume queue entries. Return 0, or -1. */
int encode_groups(const struct row *rows, int64_t count, const int32_t *firsts,
                  int64_t groups_count, int32_t *order, int32_t *ends, uint8_t *unbroken,
                  uint8_t *entries);

/* Link keys [begin, end) into slots, and encode their entries. Return how many slots were empty,
   or -1. */
int64_t link_keys(int32_t *slots, uint32_t slots_count, int64_t entry_next,
                  int64_t begin_timestamp_ms, const struct keys *keys, int64_t begin, int64_t end,
                  const struct row *rows, int64_t rows_count, uint8_t *entries);

#endif
