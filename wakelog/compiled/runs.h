/* What the functions of the library share. They know bytes, and nothing of Python.

   Every range is half-open. Every offset that comes from outside is compared with the end of its
   buffer before it is used. */

#ifndef WAKELOG_RUNS_H
#define WAKELOG_RUNS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define RUN_MESSAGES_MAX 64
/* A caller may ask for less. */

#define RUN_RECORDS_MAX 256
#define BATCH_RECORDS_MAX 1024
/* Of all batches and single messages of a run, and of a batch that is a run by itself. */

#define PROPERTIES_READ_BYTES_MAX 8192
/* Of the JSON text of a message's properties; a longer one is for Python. */

#define SIGNED_BYTES_MAX 8192
/* Of a header of which the signature is checked here. */

#define RECORD_BYTES_ADDED_MAX 116
/* Of a record, beside body, topic, properties and cluster: with two v6 hosts, and a separator. */

#define NAMES_MAX 32
/* Of the properties of a message, CLUSTER among them. */

/* One plain send: compiled_run.py unpacks it too. Positions are in the chunk. */
struct send {
    int64_t born_ms;
    int32_t header_begin, body_begin, end;
    int32_t opaque, command_flag;
    int32_t queue; /* which of the distinct queues of the run */
    int32_t queue_id;
    int32_t topic_begin, topic_bytes;
    int32_t sys_flag, flag, reconsume_times;
    int32_t properties_begin, properties_bytes; /* between its quotes, as JSON; -1 without any */
    int32_t batched; /* how many messages its body has as a batch; 0 if it is one message */
    int32_t filling;
};

/* One distinct queue of a run: send_run.py has the columns. */
struct queue {
    int64_t next_offset; /* negative: its messages are not for a run */
    int64_t sys_flag;    /* what each of its messages gets */
    int64_t count;       /* out: messages placed, each of a batch counted */
    int64_t bytes;       /* out: of their records */
    int64_t sends;       /* out: placed, a batch is one */
};

/* One placed message that wants a response: run_responses.py unpacks it too. A batch has a row for
   each message, and one response. */
struct stored {
    int32_t opaque, queue_id;
    int64_t physical_offset;
    int64_t queue_offset; /* -1: a further message of the batch above */
};

struct bytes {
    const uint8_t *begin;
    size_t size;
};

/* The fields of a header, by number: first those of one letter, in the order of the alphabet. */
enum { LETTERS = 14, ACCESS_KEY = LETTERS, SECURITY_TOKEN, SIGNATURE, FIELDS_COUNT };

struct header_fields {
    uint32_t seen;                     /* a bit for each that is there */
    struct bytes values[FIELDS_COUNT]; /* as JSON, with the quotes of a text */
};

struct log_end {
    int64_t physical_offset, timestamp_ms;
    int64_t room_end;         /* no record may reach beyond it */
    int64_t record_bytes_max;
    int obeys_wait; /* a message that does not wait is not for this run */
};

struct read_limits {
    int sends_max; /* at most RUN_MESSAGES_MAX */
    size_t frame_bytes_max, batch_frame_bytes_max, header_bytes_max;
};

/* What a run is as a whole. */
struct run {
    int sends_count, queues_count;
    int code;             /* of all its frames */
    int64_t records;      /* messages, each of a batch counted */
    int64_t record_bytes; /* what their records take at most, without the cluster's property */
    struct send sends[RUN_MESSAGES_MAX];
    int32_t first[RUN_MESSAGES_MAX]; /* the send that has queue i first */
};

/* Read successive plain sends of one code from `begin` on. */
void read_sends(struct bytes chunk, size_t begin, struct read_limits limits, struct run *run);

/* Read the header of a plain send once more. Return 0 if it is none. */
int read_header_fields(struct bytes header, struct header_fields *fields);

/* Decode JSON text without its quotes; what is written is never longer. Return its size, or -1. */
ptrdiff_t decode_text(const uint8_t *at, size_t size, uint8_t *out);

/* What an access key and a signature are compared with; all lies in `text`. */
struct signed_send {
    struct bytes access_key, signature;
    struct bytes content; /* what the signature covers, before the body */
    uint8_t text[SIGNED_BYTES_MAX];
};

/* Read what of a header is signed. Return 0 if there is no access key, or it is for Python. */
int read_signed(struct bytes header, struct signed_send *found);

/* One message of a batch. */
struct part {
    int32_t flag;
    struct bytes body, properties;
};

/* Take the first message of what is left of a batch. Return 0 if it is none. */
int take_part(struct bytes *left, struct part *part);

struct stored_counts {
    int rows, responses;
};

/* Encode records from sends[0] on, up to one that needs more than that. Return how many, or -1 if
   what Python gave does not fit together. There is room for BATCH_RECORDS_MAX rows. */
int encode_records(struct bytes chunk, const struct send *sends, int sends_count,
                   struct queue *queues, size_t queues_count, struct bytes head,
                   struct bytes cluster, struct log_end log, uint8_t *out, size_t out_size,
                   size_t *out_used, struct stored *stored, struct stored_counts *counts);

/* Return how many bytes the responses take, and write them if `out` is not NULL. Return 0 if the
   template has not its four places. joint: what is between two ids of a batch. */
size_t encode_responses(struct bytes template, struct bytes joint, const struct stored *stored,
                        size_t stored_count, uint8_t *out);

/* Return what zlib.crc32 returns. */
uint32_t crc32_of(const uint8_t *data, size_t size);
void prepare_crc(void); /* before the first one */

static inline void put_32(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 24);
    at[1] = (uint8_t)(value >> 16);
    at[2] = (uint8_t)(value >> 8);
    at[3] = (uint8_t)value;
}

static inline void put_64(uint8_t *at, uint64_t value) {
    put_32(at, (uint32_t)(value >> 32));
    put_32(at + 4, (uint32_t)value);
}

static inline void put_16(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static inline uint32_t get_32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline uint64_t get_64(const uint8_t *at) {
    return (uint64_t)get_32(at) << 32 | get_32(at + 4);
}

#endif
