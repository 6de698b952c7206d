/* Decodes one record to Python's values; wakelog/protocol/record.py has the plain way.

   What is damaged, or may be, is left to Python, which says what is wrong. */

#include "arguments.h"
#include "records.h"

enum { FIELDS = 16 }; /* of record.py's MessageRecord, in its order */

/* Return a tuple of objects, of which each is given away; NULL if one is NULL. */
static PyObject *tuple_of(Py_ssize_t count, PyObject *const *items) {
    int has_all = 1;
    for (Py_ssize_t i = 0; i < count; i++)
        has_all = has_all && items[i];
    PyObject *tuple = has_all ? PyTuple_New(count) : NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (tuple)
            PyTuple_SetItem(tuple, i, items[i]);
        else
            Py_DecRef(items[i]);
    }
    return tuple;
}

static PyObject *number_of(int64_t number) { return PyLong_FromLongLong(number); }

static PyObject *text_of(const uint8_t *begin, int64_t size) {
    return PyUnicode_DecodeUTF8((const char *)begin, (Py_ssize_t)size, "replace");
}

/* Return an address as text and its port. */
static PyObject *host_of(PyObject *host_text, const uint8_t *at, int64_t extra_bytes) {
    int64_t address_bytes = HOST_BYTES_V4 - 4 + extra_bytes;
    PyObject *address = PyBytes_FromStringAndSize((const char *)at, (Py_ssize_t)address_bytes);
    PyObject *text = address ? PyObject_CallFunctionObjArgs(host_text, address, NULL) : NULL;
    Py_DecRef(address);
    if (!text)
        return NULL;
    PyObject *pair[] = {text, number_of((int32_t)get_32(at + address_bytes))};
    return tuple_of(2, pair);
}

static PyObject *values_of(const uint8_t *buffer, const struct row *row, int64_t at,
                           PyObject *host_text) {
    const uint8_t *head = buffer + at;
    int64_t born = born_extra_bytes(row->sys_flag), hosts = hosts_extra_bytes(row->sys_flag);
    const uint8_t *body = head + HEAD_BYTES_V4 + hosts;
    PyObject *born_host = host_of(host_text, head + BORN_HOST_AT, born);
    PyObject *store_host =
        born_host ? host_of(host_text, head + STORE_HOST_AT_V4 + born, hosts - born) : NULL;
    if (!store_host) {
        Py_DecRef(born_host);
        return NULL;
    }
    PyObject *values[FIELDS] = {
        number_of(row->size),
        number_of((int32_t)get_32(head + CRC_AT)),
        number_of(row->queue_id),
        number_of((int32_t)get_32(head + FLAG_AT)),
        number_of(row->queue_offset),
        number_of(row->physical_offset),
        number_of(row->sys_flag),
        number_of((int64_t)get_64(head + BORN_TIMESTAMP_AT)),
        born_host,
        number_of(row->store_timestamp),
        store_host,
        number_of((int32_t)get_32(head + RECONSUME_TIMES_AT_V4 + hosts)),
        number_of(row->prepared_offset),
        PyBytes_FromStringAndSize((const char *)body, buffer + row->topic_begin - 1 - body),
        text_of(buffer + row->topic_begin, row->topic_bytes),
        text_of(buffer + row->properties_begin, row->properties_bytes),
    };
    return tuple_of(FIELDS, values);
}

PyObject *py_decode_record(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    struct arguments taken;
    struct row row;
    (void)self;
    if (!take_arguments(&taken, "bno", args, count))
        return NULL;
    struct buffer buffer = {taken.at[0].items, taken.at[0].count};
    int64_t at = taken.at[1].number;
    PyObject *found = at >= 0 && read_whole(buffer, at, &row)
                          ? values_of(buffer.begin, &row, at, taken.at[2].items)
                          : PyTuple_New(0);
    release_arguments(&taken);
    return found;
}
