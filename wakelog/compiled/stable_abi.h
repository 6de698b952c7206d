/* The part of Python's stable ABI that the library uses, of 3.11 and later.

   Written out so that building needs a C compiler only, and no Python.h. Nothing may be added that
   is not in the stable ABI; Python's manual lists it. PyObject stays opaque. The layouts of
   Py_buffer (since 3.11), PyMethodDef and PyModuleDef are part of that ABI. */

#ifndef WAKELOG_STABLE_ABI_H
#define WAKELOG_STABLE_ABI_H

#include <stddef.h>

typedef ptrdiff_t Py_ssize_t;
typedef struct _object PyObject;

typedef struct {
    void *buf;
    PyObject *obj;
    Py_ssize_t len;
    Py_ssize_t itemsize;
    int readonly;
    int ndim;
    char *format;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    Py_ssize_t *suboffsets;
    void *internal;
} Py_buffer;

typedef PyObject *(*FastFunction)(PyObject *, PyObject *const *, Py_ssize_t);

typedef struct {
    const char *ml_name;
    FastFunction ml_meth;
    int ml_flags;
    const char *ml_doc;
} PyMethodDef;

typedef struct {
    int slot;
    void *value;
} PyModuleDef_Slot;

typedef struct {
    struct {
        Py_ssize_t ob_refcnt;
        void *ob_type;
        PyObject *(*m_init)(void);
        Py_ssize_t m_index;
        PyObject *m_copy;
    } m_base;
    const char *m_name;
    const char *m_doc;
    Py_ssize_t m_size;
    PyMethodDef *m_methods;
    PyModuleDef_Slot *m_slots;
    void *m_traverse;
    void *m_clear;
    void *m_free;
} PyModuleDef;

#define METH_FASTCALL 0x0080
#define Py_mod_exec 2
#define PyBUF_SIMPLE 0
#define PyBUF_WRITABLE 1

typedef struct _typeobject PyTypeObject;

typedef PyObject *(*NewFunction)(PyTypeObject *, PyObject *, PyObject *);
#define Py_tp_new 65

extern PyObject *PyExc_TypeError, *PyExc_ValueError;
extern PyTypeObject PyBytes_Type, PyTuple_Type, PyType_Type, PyUnicode_Type;

void Py_IncRef(PyObject *);
void Py_DecRef(PyObject *);
int PyObject_GetBuffer(PyObject *, Py_buffer *, int);
void PyBuffer_Release(Py_buffer *);
PyObject *PyErr_Occurred(void);
void PyErr_SetString(PyObject *, const char *);
long long PyLong_AsLongLong(PyObject *);
PyObject *PyLong_FromLongLong(long long);
PyObject *PyLong_FromUnsignedLong(unsigned long);
PyObject *PyBytes_FromStringAndSize(const char *, Py_ssize_t);
char *PyBytes_AsString(PyObject *);
Py_ssize_t PyBytes_Size(PyObject *);
PyObject *PyByteArray_FromStringAndSize(const char *, Py_ssize_t);
PyObject *PyUnicode_FromStringAndSize(const char *, Py_ssize_t);
const char *PyUnicode_AsUTF8AndSize(PyObject *, Py_ssize_t *);
int PyUnicode_Compare(PyObject *, PyObject *);
PyObject *PyUnicode_DecodeUTF8(const char *, Py_ssize_t, const char *);
PyObject *PyUnicode_InternFromString(const char *);
PyObject *PyObject_Type(PyObject *);
int PyObject_SetAttr(PyObject *, PyObject *, PyObject *);
Py_ssize_t PyObject_Size(PyObject *);
int PySequence_Contains(PyObject *, PyObject *);
int PyType_IsSubtype(PyTypeObject *, PyTypeObject *);
void *PyType_GetSlot(PyTypeObject *, int);
PyObject *PyList_New(Py_ssize_t);
int PyList_Append(PyObject *, PyObject *);
PyObject *PyObject_CallFunctionObjArgs(PyObject *, ...);
Py_ssize_t PyList_Size(PyObject *);
PyObject *PyList_GetItem(PyObject *, Py_ssize_t);
Py_ssize_t PyTuple_Size(PyObject *);
PyObject *PyTuple_GetItem(PyObject *, Py_ssize_t);
PyObject *PyTuple_New(Py_ssize_t);
int PyTuple_SetItem(PyObject *, Py_ssize_t, PyObject *);
PyObject *PyModuleDef_Init(PyModuleDef *);
int PyModule_AddFunctions(PyObject *, PyMethodDef *);
void *PyEval_SaveThread(void); /* a PyThreadState */
void PyEval_RestoreThread(void *);
int PyModule_AddStringConstant(PyObject *, const char *, const char *);

#endif
