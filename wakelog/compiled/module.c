/* The functions of the library as Python calls them: arguments in, values out, nothing kept.

   Each one is given buffers, and looks at nothing else. library.py says what each takes. */

#include "arguments.h"
#include "pulls.h"
#include "runs.h"
#include "stable_abi.h"

#ifndef SOURCE_DIGEST
#error "build.py gives the digest of the source"
#endif
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define BUFFERS_MAX 6
#define CRC_UNLOCKED_BYTES_MIN (64 << 10) /* some 6 us */

/* The buffers of one call, which are released together. */
struct views {
    Py_buffer all[BUFFERS_MAX];
    int count;
};

static void release(struct views *views) {
    while (views->count)
        PyBuffer_Release(&views->all[--views->count]);
}

static struct bytes bytes_of(const Py_buffer *view) {
    static const uint8_t NOTHING[1];
    return (struct bytes){view->buf ? view->buf : NOTHING, (size_t)view->len};
}

static Py_buffer *view_of(struct views *views, PyObject *object, int flags) {
    Py_buffer *view = &views->all[views->count];
    if (PyObject_GetBuffer(object, view, flags) < 0)
        return NULL;
    views->count++;
    return view;
}

static int bytes_from(struct views *views, PyObject *object, struct bytes *found) {
    const Py_buffer *view = view_of(views, object, PyBUF_SIMPLE);
    if (!view)
        return 0;
    *found = bytes_of(view);
    return 1;
}

static int numbers_from(PyObject *const *objects, int count, int64_t *found) {
    for (int i = 0; i < count; i++) {
        found[i] = PyLong_AsLongLong(objects[i]);
        if (found[i] == -1 && PyErr_Occurred())
            return 0;
    }
    return 1;
}

static PyObject *refuse(struct views *views, const char *why) {
    release(views);
    PyErr_SetString(PyExc_ValueError, why);
    return NULL;
}

static PyObject *tuple_of(Py_ssize_t count, PyObject *const *items) {
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!items[i] || !tuple) {
            Py_DecRef(tuple);
            tuple = NULL;
        }
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (tuple)
            PyTuple_SetItem(tuple, i, items[i]);
        else
            Py_DecRef(items[i]);
    }
    return tuple;
}

/* Return the distinct queues as tuples of topic and queue id; equal topics are one object. */
static PyObject *queues_of(struct bytes chunk, const struct send *sends, const int32_t *first,
                           int count) {
    PyObject *queues[RUN_MESSAGES_MAX], *topic = NULL;
    const struct send *last = NULL;
    for (int i = 0; i < count; i++) {
        const struct send *send = &sends[first[i]];
        if (!last || last->topic_bytes != send->topic_bytes ||
            memcmp(chunk.begin + last->topic_begin, chunk.begin + send->topic_begin,
                   (size_t)send->topic_bytes) != 0) {
            Py_DecRef(topic);
            topic = PyUnicode_FromStringAndSize((const char *)chunk.begin + send->topic_begin,
                                                send->topic_bytes);
        }
        last = send;
        Py_IncRef(topic);
        PyObject *pair[] = {topic, PyLong_FromLongLong(send->queue_id)};
        queues[i] = tuple_of(2, pair);
    }
    Py_DecRef(topic);
    return tuple_of(count, queues);
}

static PyObject *py_read_sends(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    struct views views = {.count = 0};
    struct bytes chunk;
    struct run run;
    int64_t numbers[5]; /* begin, then the four limits */
    (void)self;
    if (count != 6)
        return refuse(&views, "read_sends takes 6 arguments");
    if (!numbers_from(args + 1, 5, numbers) || !bytes_from(&views, args[0], &chunk))
        return NULL;
    for (int i = 0; i < 5; i++)
        if (numbers[i] < 0 || numbers[i] > (i == 1 ? RUN_MESSAGES_MAX : INT32_MAX))
            return refuse(&views, "a position or a limit is out of range");
    struct read_limits limits = {(int)numbers[1], (size_t)numbers[2], (size_t)numbers[3],
                                 (size_t)numbers[4]};
    read_sends(chunk, (size_t)numbers[0], limits, &run);
    int64_t end = run.sends_count ? run.sends[run.sends_count - 1].end : numbers[0];
    PyObject *found[] = {
        PyLong_FromLongLong(end),
        PyLong_FromLongLong(run.code),
        PyLong_FromLongLong(run.records),
        PyLong_FromLongLong(run.record_bytes),
        PyBytes_FromStringAndSize((const char *)run.sends,
                                  (Py_ssize_t)sizeof(struct send) * run.sends_count),
        queues_of(chunk, run.sends, run.first, run.queues_count),
    };
    release(&views);
    return tuple_of(6, found);
}

static PyObject *py_encode_records(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    struct views views = {.count = 0};
    struct bytes chunk, table, head, cluster;
    struct send sends[RUN_MESSAGES_MAX];
    struct queue queues[RUN_MESSAGES_MAX];
    struct stored stored[BATCH_RECORDS_MAX];
    struct stored_counts counts = {0, 0};
    int64_t numbers[6]; /* taken, physical_offset, timestamp_ms, room_end, bytes_max, obeys_wait */
    const Py_buffer *out, *queues_view;
    size_t used = 0;
    (void)self;
    if (count != 12)
        return refuse(&views, "encode_records takes 12 arguments");
    if (!numbers_from(args + 6, 6, numbers))
        return NULL;
    if (!bytes_from(&views, args[0], &chunk) || !bytes_from(&views, args[1], &table) ||
        !bytes_from(&views, args[2], &head) || !bytes_from(&views, args[3], &cluster) ||
        !(queues_view = view_of(&views, args[4], PyBUF_WRITABLE)) ||
        !(out = view_of(&views, args[5], PyBUF_WRITABLE))) {
        release(&views);
        return NULL;
    }
    size_t sends_count = table.size / sizeof(struct send);
    size_t queues_size = (size_t)queues_view->len;
    if (table.size > sizeof sends || table.size % sizeof(struct send) || queues_size > sizeof queues ||
        queues_size % sizeof(struct queue))
        return refuse(&views, "a table has no whole rows, or too many");
    if (numbers[0] < 0 || (size_t)numbers[0] > sends_count)
        return refuse(&views, "more sends are taken than there are");
    memcpy(sends, table.begin, table.size);
    memcpy(queues, bytes_of(queues_view).begin, queues_size);
    struct log_end log = {numbers[1], numbers[2], numbers[3], numbers[4], numbers[5] != 0};
    int placed = encode_records(chunk, sends + numbers[0], (int)(sends_count - (size_t)numbers[0]),
                                queues, queues_size / sizeof(struct queue), head, cluster, log,
                                out->buf, (size_t)out->len, &used, stored, &counts);
    if (placed < 0)
        return refuse(&views, "the tables, the head or the room do not fit the sends");
    if (queues_size)
        memcpy(queues_view->buf, queues, queues_size);
    release(&views);
    PyObject *found[] = {
        PyLong_FromLongLong(placed),
        PyLong_FromLongLong((long long)used),
        PyBytes_FromStringAndSize((const char *)stored,
                                  (Py_ssize_t)sizeof(struct stored) * counts.rows),
        PyLong_FromLongLong(counts.responses),
    };
    return tuple_of(4, found);
}

static PyObject *py_encode_responses(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    struct views views = {.count = 0};
    struct bytes template, joint, table;
    struct stored stored[BATCH_RECORDS_MAX];
    (void)self;
    if (count != 3)
        return refuse(&views, "encode_responses takes 3 arguments");
    if (!bytes_from(&views, args[0], &template) || !bytes_from(&views, args[1], &joint) ||
        !bytes_from(&views, args[2], &table)) {
        release(&views);
        return NULL;
    }
    size_t stored_count = table.size / sizeof(struct stored);
    if (table.size > sizeof stored || table.size % sizeof(struct stored))
        return refuse(&views, "the table has no whole rows, or too many");
    memcpy(stored, table.begin, table.size);
    size_t size = encode_responses(template, joint, stored, stored_count, NULL);
    if (!size && stored_count)
        return refuse(&views, "the template has not its four places");
    PyObject *frames = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (frames && size)
        encode_responses(template, joint, stored, stored_count,
                         (uint8_t *)PyBytes_AsString(frames));
    release(&views);
    return frames;
}

static PyObject *py_choose_stretch(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    struct views views = {.count = 0};
    struct bytes entries;
    struct stretch_limits limits;
    struct stretch found = {0};
    int64_t numbers[6]; /* the limits */
    (void)self;
    if (count != 7)
        return refuse(&views, "choose_stretch takes 7 arguments");
    if (!numbers_from(args + 1, 6, numbers) || !bytes_from(&views, args[0], &entries))
        return NULL;
    limits = (struct stretch_limits){numbers[0], numbers[1], numbers[2],
                                     numbers[3], numbers[4], numbers[5]};
    if (limits.begin < 0)
        return refuse(&views, "the log begins below 0");
    if (!choose_stretch(entries, limits, &found))
        found.count = 0;
    release(&views);
    PyObject *values[] = {
        PyLong_FromLongLong(found.count), PyLong_FromLongLong(found.begin),
        PyLong_FromLongLong(found.end), PyLong_FromLongLong(found.bytes),
        PyLong_FromLongLong(found.last_sent), PyLong_FromLongLong(found.last_read),
    };
    return tuple_of(6, values);
}

static PyObject *py_join_records(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    struct views views = {.count = 0};
    struct bytes view, entries;
    int64_t numbers[3]; /* begin, count, bytes */
    (void)self;
    if (count != 5)
        return refuse(&views, "join_records takes 5 arguments");
    if (!numbers_from(args + 1, 3, numbers))
        return NULL;
    if (!bytes_from(&views, args[0], &view) || !bytes_from(&views, args[4], &entries)) {
        release(&views);
        return NULL;
    }
    if (numbers[1] < 0 || numbers[2] < 0 || (uint64_t)numbers[2] > view.size)
        return refuse(&views, "the records are not in the view");
    PyObject *records = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)numbers[2]);
    if (records && !join_records(view, numbers[0], entries, (size_t)numbers[1],
                                 (uint8_t *)PyBytes_AsString(records), (size_t)numbers[2])) {
        Py_DecRef(records);
        records = PyBytes_FromStringAndSize("", 0);
    }
    release(&views);
    return records;
}

static PyObject *py_crc32(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    struct views views = {.count = 0};
    struct bytes data;
    (void)self;
    if (count != 1)
        return refuse(&views, "crc32 takes 1 argument");
    if (!bytes_from(&views, args[0], &data))
        return NULL;
    void *lock = data.size < CRC_UNLOCKED_BYTES_MIN ? NULL : PyEval_SaveThread();
    uint32_t crc = crc32_of(data.begin, data.size);
    if (lock)
        PyEval_RestoreThread(lock);
    release(&views);
    return PyLong_FromUnsignedLong(crc);
}

static PyMethodDef FUNCTIONS[] = {
    {"read_sends", py_read_sends, METH_FASTCALL, "See wakelog.compiled.library."},
    {"encode_records", py_encode_records, METH_FASTCALL, "See wakelog.compiled.library."},
    {"encode_responses", py_encode_responses, METH_FASTCALL, "See wakelog.compiled.library."},
    {"choose_stretch", py_choose_stretch, METH_FASTCALL, "See wakelog.compiled.library."},
    {"join_records", py_join_records, METH_FASTCALL, "See wakelog.compiled.library."},
    {"crc32", py_crc32, METH_FASTCALL, "See wakelog.compiled.library."},
    {NULL, NULL, 0, NULL},
};

static int begin(PyObject *module) {
    prepare_crc();
    if (PyModule_AddFunctions(module, COLUMN_FUNCTIONS) < 0)
        return -1;
    return PyModule_AddStringConstant(module, "SOURCE_DIGEST", TEXT(SOURCE_DIGEST));
}

static PyModuleDef_Slot SLOTS[] = {{Py_mod_exec, (void *)begin}, {0, NULL}};

static PyModuleDef MODULE = {
    .m_base = {.ob_refcnt = 1},
    .m_name = "functions",
    .m_doc = "The compiled twin of wakelog's inner loops.",
    .m_methods = FUNCTIONS,
    .m_slots = SLOTS,
};

#ifdef _WIN32
__declspec(dllexport)
#else
__attribute__((visibility("default")))
#endif
PyObject *PyInit_functions(void);

PyObject *PyInit_functions(void) {
    return PyModuleDef_Init(&MODULE);
}
