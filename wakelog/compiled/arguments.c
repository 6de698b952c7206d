/* See arguments.h. */

#include "arguments.h"

#include <string.h>

static size_t item_bytes(char kind) {
    return kind == 'l' || kind == 'L' ? 8 : kind == 'i' || kind == 'I' ? 4 : 1;
}

static int take_buffer(struct arguments *arguments, char kind, PyObject *object,
                       struct argument *taken) {
    static int64_t nothing;
    Py_buffer *view = &arguments->views[arguments->views_count];
    int writes = kind == 'B' || kind == 'I' || kind == 'L';
    if (PyObject_GetBuffer(object, view, writes ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0)
        return 0;
    arguments->views_count++;
    size_t size = item_bytes(kind);
    taken->items = view->len ? view->buf : &nothing;
    taken->count = view->len / (Py_ssize_t)size;
    if ((uintptr_t)taken->items % size || (size_t)view->len % size) {
        PyErr_SetString(PyExc_ValueError, "an array is not aligned, or has no whole items");
        return 0;
    }
    return 1;
}

int take_arguments(struct arguments *arguments, const char *pattern, PyObject *const *objects,
                   Py_ssize_t count) {
    arguments->views_count = 0;
    if ((size_t)count != strlen(pattern)) {
        PyErr_SetString(PyExc_ValueError, "the function takes another number of arguments");
        return 0;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        struct argument *taken = &arguments->at[i];
        int fits = 1;
        if (pattern[i] == 'n') {
            taken->number = PyLong_AsLongLong(objects[i]);
            fits = taken->number != -1 || !PyErr_Occurred();
        } else if (pattern[i] == 'o') {
            taken->items = objects[i];
        } else {
            fits = take_buffer(arguments, pattern[i], objects[i], taken);
        }
        if (!fits) {
            release_arguments(arguments);
            return 0;
        }
    }
    return 1;
}

void release_arguments(struct arguments *arguments) {
    while (arguments->views_count)
        PyBuffer_Release(&arguments->views[--arguments->views_count]);
}

PyObject *refuse_arguments(struct arguments *arguments, const char *why) {
    release_arguments(arguments);
    PyErr_SetString(PyExc_ValueError, why);
    return NULL;
}

PyObject *return_numbers(struct arguments *arguments, int count, const int64_t *numbers) {
    release_arguments(arguments);
    if (count == 1)
        return PyLong_FromLongLong(numbers[0]);
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < count; i++) {
        PyObject *number = PyLong_FromLongLong(numbers[i]);
        if (!number) {
            Py_DecRef(tuple);
            return NULL;
        }
        PyTuple_SetItem(tuple, i, number);
    }
    return tuple;
}
