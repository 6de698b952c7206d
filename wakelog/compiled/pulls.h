/* What a pull needs of queue entries and records. Every range is half-open. */

#ifndef WAKELOG_PULLS_H
#define WAKELOG_PULLS_H

#include "runs.h"

struct stretch_limits {
    int64_t count_max, bytes_max; /* of the records; one record may have more */
    int64_t begin, end;           /* of the log as far as it may be sent */
    int64_t segment_bytes, gap_bytes_max;
};

/* Records near each other in one segment. */
struct stretch {
    int64_t count, begin, end;
    int64_t bytes;             /* of the records, without the gaps */
    int64_t last_sent, last_read; /* where the last record begins, and that of the last entry seen */
};

/* Choose the first records of some entries, up to a count, to bytes, or to what another read has to
   bring. Return 0 if one is too short, or if an entry is outside of the log. */
int choose_stretch(struct bytes entries, struct stretch_limits limits, struct stretch *found);

/* What of some entries a pull by tags sends, and how many of them it has looked at. */
struct filtered {
    int64_t count, scanned;
    int64_t bytes;                /* of the records */
    int64_t last_sent, last_read; /* where these records begin; -1 if none is sent */
};

/* Copy the entries with a wanted tags code to `out`, up to a count or to bytes. Return 0 if one is
   of a unit, outside of the log, or too short. There is room for all entries. */
int filter_entries(struct bytes entries, const int64_t *codes, size_t codes_count,
                   struct stretch_limits limits, uint8_t *out, struct filtered *found);

/* Copy the records of the first entries; view[0] lies at `begin`. Return 0 if one is not of the
   common kind, or not sound. */
int join_records(struct bytes view, int64_t begin, struct bytes entries, size_t count, uint8_t *out,
                 size_t out_size);

#endif
