/* The list of notes of one probe. They become the tuples that `borders.py` describes when somebody takes them. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <structmember.h>
#include <time.h>

#define FIRST_CAPACITY 4096

enum kind { OBJECT, RANGE, PHASE, CUT_OFF };

/* OBJECT: `what` is the note itself, and owned. Else a use of the scope `what`, which `Notes.scopes` keeps alive. The
   marks are owned, NULL where none was taken; CUT_OFF: an exception left the scope. */
typedef struct {
    enum kind kind;
    PyObject *what, *begin, *end;
    long long start_ns, end_ns;
} Note;

/* What one probe has noted. last: the step that began last, or NULL; many: notes that are to be taken before the next
   step begins; silent: timed calls note nothing. */
typedef struct {
    PyObject_HEAD
    Note *notes;
    Py_ssize_t size, capacity, many;
    PyObject *scopes, *ledger, *last;
    char silent;
} Notes;

static PyTypeObject *notes_type; /* made once, as all types: the module is imported once a process */

/* time.perf_counter_ns, on Linux. */
static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* `clear` is the type's own, not that of a class below it. */
static void free_object(PyObject *object, inquiry clear)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    clear(object);
    type->tp_free(object);
    Py_DECREF(type);
}

/* The next free record; NULL and an exception where there is no memory. */
static inline Note *next_note(Notes *self)
{
    if (self->size == self->capacity) {
        Py_ssize_t capacity = self->capacity ? 2 * self->capacity : FIRST_CAPACITY;
        Note *larger = PyMem_Realloc(self->notes, capacity * sizeof(Note));
        if (larger == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        self->notes = larger;
        self->capacity = capacity;
    }
    return &self->notes[self->size++];
}

static int note_object(Notes *self, PyObject *what)
{
    Note *note = next_note(self);
    if (note == NULL)
        return -1;
    *note = (Note){OBJECT, Py_NewRef(what), NULL, NULL, 0, 0};
    return 0;
}

static PyObject *notes_append(PyObject *object, PyObject *what)
{
    if (note_object((Notes *)object, what))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *as_object(const Note *note)
{
    PyObject *begin = note->begin ? note->begin : Py_None, *end = note->end ? note->end : Py_None;
    switch (note->kind) {
    case OBJECT:
        return Py_NewRef(note->what);
    case RANGE:
        return Py_BuildValue("(OLL)", note->what, note->start_ns, note->end_ns);
    default:
        return Py_BuildValue("(OLLOOO)", note->what, note->start_ns, note->end_ns, begin, end,
                             note->kind == PHASE ? Py_True : Py_False);
    }
}

static void drop(Note *notes, Py_ssize_t size)
{
    for (Note *note = notes; note < notes + size; note++) {
        if (note->kind == OBJECT)
            Py_DECREF(note->what);
        Py_XDECREF(note->begin);
        Py_XDECREF(note->end);
    }
}

/* Making tuples may run the garbage collector and with it anything, also a note: so the array is put aside first. */
static PyObject *notes_take(PyObject *object, PyObject *unused)
{
    Notes *self = (Notes *)object;
    Note *taken = self->notes;
    Py_ssize_t size = self->size, capacity = self->capacity;
    self->notes = NULL;
    self->size = self->capacity = 0;
    PyObject *list = PyList_New(size);
    for (Py_ssize_t at = 0; list != NULL && at < size; at++) {
        PyObject *made = as_object(&taken[at]);
        if (made == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, at, made);
    }
    drop(taken, size);
    if (self->notes == NULL) { /* its pages are there already */
        self->notes = taken;
        self->capacity = capacity;
    } else {
        PyMem_Free(taken);
    }
    return list;
}

static Py_ssize_t notes_length(PyObject *object) { return ((Notes *)object)->size; }

/* Notes(ledger, many) */
static PyObject *notes_new(PyTypeObject *type, PyObject *values, PyObject *names)
{
    PyObject *ledger;
    Py_ssize_t many;
    if (!PyArg_ParseTuple(values, "On", &ledger, &many))
        return NULL;
    Notes *self = (Notes *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->ledger = Py_NewRef(ledger);
    self->many = many;
    self->scopes = PySet_New(NULL);
    if (self->scopes == NULL)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static int notes_traverse(PyObject *object, visitproc visit, void *arg)
{
    Notes *self = (Notes *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->scopes);
    Py_VISIT(self->ledger);
    Py_VISIT(self->last);
    for (Note *note = self->notes; note < self->notes + self->size; note++) {
        if (note->kind == OBJECT)
            Py_VISIT(note->what);
        Py_VISIT(note->begin);
        Py_VISIT(note->end);
    }
    return 0;
}

/* Ledger and scopes stay until the end: whoever is collected with the notes may still note, and a use refers to its scope
   without owning it. */
static int notes_clear(PyObject *object)
{
    Notes *self = (Notes *)object;
    Note *notes = self->notes;
    Py_ssize_t size = self->size;
    self->notes = NULL;
    self->size = self->capacity = 0;
    drop(notes, size);
    PyMem_Free(notes);
    Py_CLEAR(self->last);
    return 0;
}

static int notes_drop(PyObject *object)
{
    Notes *self = (Notes *)object;
    notes_clear(object);
    Py_CLEAR(self->scopes);
    Py_CLEAR(self->ledger);
    return 0;
}

static void notes_free(PyObject *object) { free_object(object, notes_drop); }

static PyMethodDef notes_methods[] = {
    {"append", notes_append, METH_O, "Note an object."},
    {"take", notes_take, METH_NOARGS, "Hand over all notes so far, as a list, and start empty."},
    {NULL},
};
static PyMemberDef notes_members[] = {
    {"silent", T_BOOL, offsetof(Notes, silent), 0, NULL},
    {"last", T_OBJECT, offsetof(Notes, last), READONLY, NULL},
    {NULL},
};
static PyType_Slot notes_slots[] = {
    {Py_tp_new, notes_new}, {Py_tp_methods, notes_methods},
    {Py_tp_members, notes_members}, {Py_sq_length, notes_length}, {Py_tp_traverse, notes_traverse},
    {Py_tp_clear, notes_clear}, {Py_tp_dealloc, notes_free}, {0, NULL},
};
static PyType_Spec notes_spec = {
    "hot_path.Notes", sizeof(Notes), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, notes_slots};
