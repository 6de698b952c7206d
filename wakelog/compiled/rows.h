/* What fills Arrow's buffers from rows of records; rows.py makes arrays of it. */

#ifndef WAKELOG_ROWS_H
#define WAKELOG_ROWS_H

#include "records.h"

/* One record's fields, as wakelog/compiled/fields.py names them. Begins and ends are
   positions in the buffer. A property that a record lacks has an empty span. */
struct fields {
    int64_t record, flag, body_crc, born_timestamp, born_host, store_host, reconsume_times;
    int64_t body_begin, body_end;
    int64_t keys_begin, keys_end, tags_begin, tags_end, uniq_begin, uniq_end;
};

struct pair {
    int64_t name_begin, name_end, value_begin, value_end;
};

/* Each returns -1 if what Python gave does not fit together. */

/* Fill one of `fields` for each record of `numbers`. has_bodies: 0 if topics follow the heads. */
int read_fields(struct buffer buffer, const struct row *rows, int64_t rows_count,
                const int64_t *numbers, int64_t count, struct fields *fields, int has_bodies);

/* Copy spans one after another; offsets[count + 1] gets their begins, and the end. Return the or
   of all bytes. */
int gather(struct buffer buffer, const int64_t *begins, const int64_t *ends, int64_t count,
           int32_t *offsets, struct buffer out);

/* Find the properties of each record; return the total count. The last value of a repeated name
   counts, in the place of the first one.

   places: zeros, left so: a hash table of a power of two, and as many again for what is used. */
int64_t find_pairs(struct buffer buffer, const struct row *rows, int64_t rows_count,
                   const int64_t *numbers, int64_t count, int32_t *row_ends, struct pair *pairs,
                   int64_t pairs_max, int32_t *places, int64_t places_count);

/* A column of texts or bytes: where each begins, and the end of what was appended. */
struct texts {
    uint8_t *begin;
    int64_t size, end;
    int32_t *offsets;
};

enum { BODIES, IDS, OFFSET_IDS, TAGS, KEYS, NAMES, VALUES, TEXTS_COUNT };
enum { QUEUE_OFFSETS, BORN, STORED, LONGS_COUNT };
enum { QUEUE_IDS, FLAGS, RECONSUMED, INTS_COUNT };

/* The columns of a batch of messages. `pairs` and `places` are as in find_pairs, for one record. */
struct batch {
    int64_t rows_max, count, properties_max, properties_count;
    int64_t *longs;    /* LONGS_COUNT columns of rows_max */
    int32_t *ints;     /* INTS_COUNT columns of rows_max */
    uint8_t *has;      /* whether a row has tags, and whether keys: two columns of rows_max */
    int32_t *row_ends; /* where the properties of each row end */
    struct texts texts[TEXTS_COUNT];
    struct pair *pairs;
    int64_t pairs_max;
    int32_t *places;
    int64_t places_count;
};

/* Append pulled records to a batch. A compressed body is left out. Return the or of all bytes of
   properties. */
int fill_batch(struct buffer buffer, const struct row *rows, int64_t count, struct batch *batch);

/* Write message ids: the store host and the physical offset in hexadecimal; or UNIQ_KEY, if
   use_uniq is set and a record has it. Return the or of all bytes of these. */
int format_ids(struct buffer buffer, const struct fields *fields, int64_t count,
               const uint8_t *is_v6, int use_uniq, int32_t *offsets, struct buffer out);

#endif
