/* The functions over columns of records as Python calls them; wakelog/compiled/columns.py says what
   each takes. Each runs without the interpreter's lock, and holds its buffers meanwhile. */

#include "arguments.h"
#include "rows.h"

#define UNFIT "the arrays, the ranges or the rows do not fit together"

#define WITHOUT_LOCK(call)                                                                         \
    do {                                                                                           \
        void *lock = PyEval_SaveThread();                                                          \
        call;                                                                                      \
        PyEval_RestoreThread(lock);                                                                \
    } while (0)

static struct buffer buffer_of(const struct argument *argument) {
    return (struct buffer){argument->items, argument->count};
}

static int is_range(int64_t begin, int64_t end, int64_t size) {
    return begin >= 0 && begin <= end && end <= size;
}

/* Rows have to be whole, and few enough for 32-bit numbers. */
static int columns_of(const struct argument *rows, int64_t count, struct columns *columns) {
    *columns = (struct columns){rows->items, rows->count / ROW_FIELDS, count};
    return rows->count % ROW_FIELDS == 0 && is_range(0, count, columns->rows_max) &&
           columns->rows_max < INT32_MAX;
}

static int keys_of(const struct argument *argument, int64_t count, struct keys *keys) {
    int32_t *items = argument->items;
    *keys = (struct keys){items, items + argument->count / 2, argument->count / 2, count};
    return argument->count % 2 == 0 && is_range(0, count, keys->max);
}

/* The groups of rows whose buffer has their topics. */
static int groups_of(const struct argument *table, const struct argument *firsts,
                     struct buffer buffer, struct groups *groups) {
    int32_t *items = table->items;
    int64_t places = table->count / 2;
    *groups = (struct groups){items,   items + places, places, firsts->items, firsts->count - 1,
                              buffer, NULL,           0,      -1};
    return table->count % 2 == 0 && places > 0 && (places & (places - 1)) == 0 &&
           firsts->count > 0;
}

static PyObject *py_scan_records(PyObject *self, PyObject *const *objects, Py_ssize_t count) {
    struct arguments taken;
    struct columns columns;
    struct keys keys;
    struct groups groups;
    int64_t refined = 0, stop = -1;
    (void)self;
    if (!take_arguments(&taken, "bnnnLIIIBInnn", objects, count))
        return NULL;
    const struct argument *at = taken.at;
    struct buffer buffer = buffer_of(&at[0]);
    int fits = columns_of(&at[4], at[10].number, &columns) &&
               keys_of(&at[5], at[11].number, &keys) &&
               groups_of(&at[6], &at[7], buffer, &groups) &&
               is_range(at[1].number, at[2].number, buffer.size) &&
               at[12].number <= at[8].count && at[8].count <= INT32_MAX;
    if (fits && at[12].number >= 0) {
        groups.names = buffer_of(&at[8]);
        groups.name_begins = at[9].items;
        groups.name_begins_count = at[9].count;
        groups.names_end = at[12].number;
    }
    if (fits)
        WITHOUT_LOCK(stop = scan_records(buffer, at[1].number, at[2].number, at[3].number,
                                         &columns, &keys, &groups, &refined));
    if (stop < 0)
        return refuse_arguments(&taken, UNFIT);
    int64_t numbers[] = {columns.count, keys.count, stop, groups.names_end, refined};
    return return_numbers(&taken, 5, numbers);
}

static PyObject *py_walk_records(PyObject *self, PyObject *const *objects, Py_ssize_t count) {
    struct arguments taken;
    struct columns columns;
    struct groups groups;
    int64_t stop = -1;
    (void)self;
    if (!take_arguments(&taken, "bnnnLIIn", objects, count))
        return NULL;
    const struct argument *at = taken.at;
    struct buffer buffer = buffer_of(&at[0]);
    int fits = columns_of(&at[4], 0, &columns) && groups_of(&at[5], &at[6], buffer, &groups) &&
               is_range(at[1].number, at[2].number, buffer.size);
    if (fits)
        WITHOUT_LOCK(stop = walk_records(buffer, at[1].number, at[2].number, at[3].number,
                                         &columns, at[7].number ? &groups : NULL));
    if (stop < 0)
        return refuse_arguments(&taken, UNFIT);
    int64_t numbers[] = {columns.count, stop};
    return return_numbers(&taken, 2, numbers);
}

static PyObject *py_scan_pulled(PyObject *self, PyObject *const *objects, Py_ssize_t count) {
    struct arguments taken;
    struct columns columns;
    int64_t stop = -1;
    (void)self;
    if (!take_arguments(&taken, "bbnL", objects, count))
        return NULL;
    const struct argument *at = taken.at;
    int fits = columns_of(&at[3], 0, &columns);
    if (fits)
        WITHOUT_LOCK(stop = scan_pulled(buffer_of(&at[0]), buffer_of(&at[1]), at[2].number,
                                        &columns));
    if (stop < 0)
        return refuse_arguments(&taken, UNFIT);
    int64_t numbers[] = {columns.count, stop};
    return return_numbers(&taken, 2, numbers);
}

static PyObject *py_keep_records(PyObject *self, PyObject *const *objects, Py_ssize_t count) {
    struct arguments taken;
    struct columns found, columns;
    struct groups groups;
    int64_t next = -1;
    (void)self;
    if (!take_arguments(&taken, "blnnBnLnII", objects, count))
        return NULL;
    const struct argument *at = taken.at;
    struct buffer kept = buffer_of(&at[4]);
    int64_t kept_end = at[5].number;
    int fits = columns_of(&at[1], 0, &found) && columns_of(&at[6], at[7].number, &columns) &&
               groups_of(&at[8], &at[9], kept, &groups) &&
               is_range(at[2].number, at[3].number, found.rows_max) &&
               is_range(0, kept_end, kept.size);
    if (fits)
        WITHOUT_LOCK(next = keep_records(buffer_of(&at[0]), found.rows, at[2].number, at[3].number,
                                         kept, &kept_end, &columns, &groups));
    if (next < 0)
        return refuse_arguments(&taken, UNFIT);
    int64_t numbers[] = {next, kept_end, columns.count};
    return return_numbers(&taken, 3, numbers);
}

static PyObject *py_check_bodies(PyObject *self, PyObject *const *objects, Py_ssize_t count) {
    struct arguments taken;
    struct columns columns;
    int64_t damaged = -1;
    (void)self;
    if (!take_arguments(&taken, "blnnI", objects, count))
        return NULL;
    const struct argument *at = taken.at;
    int fits = columns_of(&at[1], 0, &columns) &&
               is_range(at[2].number, at[3].number, columns.rows_max) &&
               at[4].count >= at[3].number - at[2].number;
    if (fits)
        WITHOUT_LOCK(damaged = check_bodies(buffer_of(&at[0]), columns.rows, at[2].number,
                                            at[3].number, at[4].items));
    return damaged < 0 ? refuse_arguments(&taken, UNFIT) : return_numbers(&taken, 1, &damaged);
}

static PyObject *py_encode_groups(PyObject *self, PyObject *const *objects, Py_ssize_t count) {
    struct arguments taken;
    struct columns columns;
    int64_t groups_count = -1;
    (void)self;
    if (!take_arguments(&taken, "lniIIBB", objects, count))
        return NULL;
    const struct argument *at = taken.at;
    const int32_t *firsts = at[2].items;
    if (columns_of(&at[0], at[1].number, &columns) && at[2].count > 0)
        groups_count = firsts[at[2].count - 1];
    int fits = groups_count >= 0 && groups_count < at[2].count && at[3].count >= columns.count &&
               at[4].count > groups_count && at[5].count >= groups_count &&
               at[6].count / ENTRY_BYTES >= columns.count;
    int64_t outcome = -1;
    if (fits)
        WITHOUT_LOCK(outcome = encode_groups(columns.rows, columns.count, firsts, groups_count,
                                             at[3].items, at[4].items, at[5].items, at[6].items));
    return outcome < 0 ? refuse_arguments(&taken, UNFIT)
                       : return_numbers(&taken, 1, &groups_count);
}

static PyObject *py_link_keys(PyObject *self, PyObject *const *objects, Py_ssize_t count) {
    struct arguments taken;
    struct columns columns;
    struct keys keys;
    int64_t newly_used = -1;
    (void)self;
    if (!take_arguments(&taken, "InninnlB", objects, count))
        return NULL;
    const struct argument *at = taken.at;
    int fits = keys_of(&at[3], 0, &keys) && columns_of(&at[6], 0, &columns) &&
               is_range(at[4].number, at[5].number, keys.max) && at[0].count > 0 &&
               at[0].count <= INT32_MAX &&
               is_range(0, at[1].number, INT32_MAX - (at[5].number - at[4].number)) &&
               at[7].count / ENTRY_BYTES >= at[5].number - at[4].number;
    if (fits)
        WITHOUT_LOCK(newly_used = link_keys(at[0].items, (uint32_t)at[0].count, at[1].number,
                                            at[2].number, &keys, at[4].number, at[5].number,
                                            columns.rows, columns.rows_max, at[7].items));
    return newly_used < 0 ? refuse_arguments(&taken, UNFIT)
                          : return_numbers(&taken, 1, &newly_used);
}

static PyObject *py_read_fields(PyObject *self, PyObject *const *objects, Py_ssize_t count) {
    struct arguments taken;
    struct columns columns;
    int64_t outcome = -1;
    (void)self;
    if (!take_arguments(&taken, "bllLn", objects, count))
        return NULL;
    const struct argument *at = taken.at;
    int fits = columns_of(&at[1], 0, &columns) &&
               at[3].count / (int64_t)(sizeof(struct fields) / 8) >= at[2].count;
    if (fits)
        WITHOUT_LOCK(outcome = read_fields(buffer_of(&at[0]), columns.rows, columns.rows_max,
                                           at[2].items, at[2].count, at[3].items, at[4].number !=
                                           0));
    return outcome < 0 ? refuse_arguments(&taken, UNFIT) : return_numbers(&taken, 1, &outcome);
}

static PyObject *py_gather(PyObject *self, PyObject *const *objects, Py_ssize_t count) {
    struct arguments taken;
    int64_t seen = -1;
    (void)self;
    if (!take_arguments(&taken, "bllIB", objects, count))
        return NULL;
    const struct argument *at = taken.at;
    int fits = at[1].count == at[2].count && at[3].count > at[1].count && at[4].count <= INT32_MAX;
    if (fits)
        WITHOUT_LOCK(seen = gather(buffer_of(&at[0]), at[1].items, at[2].items, at[1].count,
                                   at[3].items, buffer_of(&at[4])));
    return seen < 0 ? refuse_arguments(&taken, UNFIT) : return_numbers(&taken, 1, &seen);
}

static PyObject *py_find_pairs(PyObject *self, PyObject *const *objects, Py_ssize_t count) {
    struct arguments taken;
    struct columns columns;
    int64_t found = -1;
    (void)self;
    if (!take_arguments(&taken, "bllILI", objects, count))
        return NULL;
    const struct argument *at = taken.at;
    int64_t places = at[5].count / 2;
    int fits = columns_of(&at[1], 0, &columns) && at[3].count > at[2].count &&
               at[4].count / 4 < INT32_MAX && places > 0 && (places & (places - 1)) == 0;
    if (fits)
        WITHOUT_LOCK(found = find_pairs(buffer_of(&at[0]), columns.rows, columns.rows_max,
                                        at[2].items, at[2].count, at[3].items, at[4].items,
                                        at[4].count / 4, at[5].items, places));
    return found < 0 ? refuse_arguments(&taken, UNFIT) : return_numbers(&taken, 1, &found);
}

static PyObject *py_format_ids(PyObject *self, PyObject *const *objects, Py_ssize_t count) {
    struct arguments taken;
    int64_t seen = -1;
    (void)self;
    if (!take_arguments(&taken, "blbnIB", objects, count))
        return NULL;
    const struct argument *at = taken.at;
    int64_t records = at[2].count;
    int fits = at[1].count / (int64_t)(sizeof(struct fields) / 8) >= records &&
               at[4].count > records && at[5].count <= INT32_MAX;
    if (fits)
        WITHOUT_LOCK(seen = format_ids(buffer_of(&at[0]), at[1].items, records, at[2].items,
                                       at[3].number != 0, at[4].items, buffer_of(&at[5])));
    return seen < 0 ? refuse_arguments(&taken, UNFIT) : return_numbers(&taken, 1, &seen);
}

/* Take the columns of a batch from arguments 2 on. Return 0 if they do not fit together. */
static int batch_of(const struct argument *at, struct batch *batch) {
    int64_t *state = at[2].items;
    if (at[2].count != 2 + TEXTS_COUNT || at[3].count % LONGS_COUNT || at[13].count % 4)
        return 0;
    int64_t rows_max = at[3].count / LONGS_COUNT, offsets = rows_max + 1;
    int64_t properties_max = at[7].count / 2 - 1, places = at[14].count / 2;
    *batch = (struct batch){.rows_max = rows_max, .count = state[0],
                            .properties_max = properties_max, .properties_count = state[1],
                            .longs = at[3].items, .ints = at[4].items, .has = at[6].items,
                            .pairs = at[13].items, .pairs_max = at[13].count / 4,
                            .places = at[14].items, .places_count = places};
    if (!is_range(0, batch->count, rows_max) || rows_max >= INT32_MAX || properties_max < 0 ||
        !is_range(0, batch->properties_count, properties_max) || properties_max >= INT32_MAX ||
        at[4].count != INTS_COUNT * rows_max || at[5].count != 6 * offsets ||
        at[6].count != 2 * rows_max || at[7].count != 2 * (properties_max + 1) || places < 1 ||
        (places & (places - 1)) != 0 || batch->pairs_max >= INT32_MAX)
        return 0;
    int32_t *of_rows = at[5].items, *of_properties = at[7].items;
    for (int64_t i = 0; i < TEXTS_COUNT; i++) {
        const struct argument *bytes = &at[i < NAMES ? 8 + i : 15 + i - NAMES];
        int32_t *begins = i < NAMES ? of_rows + i * offsets
                                    : of_properties + (i - NAMES) * (properties_max + 1);
        batch->texts[i] = (struct texts){bytes->items, bytes->count, state[2 + i], begins};
        if (!is_range(0, state[2 + i], bytes->count) || bytes->count > INT32_MAX)
            return 0;
    }
    batch->row_ends = of_rows + NAMES * offsets;
    return 1;
}

static PyObject *py_fill_batch(PyObject *self, PyObject *const *objects, Py_ssize_t count) {
    struct arguments taken;
    struct columns columns;
    struct batch batch;
    int64_t seen = -1;
    (void)self;
    if (!take_arguments(&taken, "blLLIIBIBBBBBLIBB", objects, count))
        return NULL;
    const struct argument *at = taken.at;
    if (columns_of(&at[1], 0, &columns) && batch_of(at, &batch))
        WITHOUT_LOCK(seen = fill_batch(buffer_of(&at[0]), columns.rows, columns.rows_max, &batch));
    if (seen < 0)
        return refuse_arguments(&taken, UNFIT);
    int64_t *state = at[2].items;
    state[0] = batch.count;
    state[1] = batch.properties_count;
    for (int64_t i = 0; i < TEXTS_COUNT; i++)
        state[2 + i] = batch.texts[i].end;
    return return_numbers(&taken, 1, &seen);
}

#define SEE "See wakelog.compiled.columns."

PyMethodDef COLUMN_FUNCTIONS[] = {
    {"scan_records", py_scan_records, METH_FASTCALL, SEE},
    {"walk_records", py_walk_records, METH_FASTCALL, SEE},
    {"scan_pulled", py_scan_pulled, METH_FASTCALL, SEE},
    {"keep_records", py_keep_records, METH_FASTCALL, SEE},
    {"check_bodies", py_check_bodies, METH_FASTCALL, SEE},
    {"encode_groups", py_encode_groups, METH_FASTCALL, SEE},
    {"link_keys", py_link_keys, METH_FASTCALL, SEE},
    {"read_fields", py_read_fields, METH_FASTCALL, SEE},
    {"gather", py_gather, METH_FASTCALL, SEE},
    {"find_pairs", py_find_pairs, METH_FASTCALL, SEE},
    {"format_ids", py_format_ids, METH_FASTCALL, SEE},
    {"fill_batch", py_fill_batch, METH_FASTCALL, SEE},
    {NULL, NULL, 0, NULL},
};
