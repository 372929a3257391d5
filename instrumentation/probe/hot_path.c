/* The list of notes, and timed functions that write into it without a Python frame or object.

   What `call_forms.py` writes in Python. There a call costs a frame, two calls of the clock, a tuple and two integers,
   all of them in memory that is cold after a stage of an engine's step; here one record in an array. Notes become the
   tuples that `borders.py` describes when somebody takes them. All of it runs under the interpreter's lock. */

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

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    Notes *notes;
    PyObject *function, *scope, *mark; /* mark: NULL where none is taken */
} TimedCall;

/* Made once: the module is imported once a process. */
static PyTypeObject *notes_type, *call_type, *step_type;
static PyObject *noted_name, *step_name, *warmup_name;

/* time.perf_counter_ns, on Linux. */
static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Notes */

/* The next free record; NULL and an exception where there is no memory. */
static inline Note *next_note(Notes *self)
{
    if (self->size == self->capacity) {
        Py_ssize_t capacity = self->capacity ? 2 * self->capacity : FIRST_CAPACITY;
        Note *larger = PyMem_Resize(self->notes, Note, capacity);
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
static int notes_init(PyObject *object, PyObject *values, PyObject *names)
{
    Notes *self = (Notes *)object;
    PyObject *ledger;
    if (!PyArg_ParseTuple(values, "On", &ledger, &self->many))
        return -1;
    Py_XSETREF(self->ledger, Py_NewRef(ledger));
    Py_XSETREF(self->scopes, PyList_New(0));
    return self->scopes == NULL ? -1 : 0;
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

static int notes_clear(PyObject *object)
{
    Notes *self = (Notes *)object;
    Note *notes = self->notes;
    Py_ssize_t size = self->size;
    self->notes = NULL;
    self->size = self->capacity = 0;
    drop(notes, size);
    PyMem_Free(notes);
    Py_CLEAR(self->scopes);
    Py_CLEAR(self->ledger);
    Py_CLEAR(self->last);
    return 0;
}

/* Timed calls */

/* Write the use of a scope; the marks are given away. */
static int note_use(TimedCall *self, enum kind kind, long long start_ns, PyObject *begin, PyObject *end)
{
    Note *note = next_note(self->notes);
    if (note == NULL) {
        Py_XDECREF(begin), Py_XDECREF(end);
        return -1;
    }
    *note = (Note){kind, self->scope, begin, end, start_ns, now_ns()};
    return 0;
}

/* Behind an exception, which goes on. */
static PyObject *cut_off(TimedCall *self, long long start_ns, PyObject *begin)
{
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    if (note_use(self, CUT_OFF, start_ns, begin, NULL))
        PyErr_Clear();
    PyErr_Restore(type, error, trace);
    return NULL;
}

static PyObject *call_range(PyObject *object, PyObject *const *values, size_t count, PyObject *names)
{
    TimedCall *self = (TimedCall *)object;
    if (self->notes->silent)
        return PyObject_Vectorcall(self->function, values, count, names);
    long long start_ns = now_ns();
    PyObject *result = PyObject_Vectorcall(self->function, values, count, names);
    if (result == NULL)
        return cut_off(self, start_ns, NULL);
    if (note_use(self, RANGE, start_ns, NULL, NULL))
        Py_CLEAR(result);
    return result;
}

/* A phase with a device mark at either border. The host end is read behind the mark: what that costs is the phase's. */
static PyObject *call_phase(PyObject *object, PyObject *const *values, size_t count, PyObject *names)
{
    TimedCall *self = (TimedCall *)object;
    if (self->notes->silent)
        return PyObject_Vectorcall(self->function, values, count, names);
    long long start_ns = now_ns();
    PyObject *begin = PyObject_CallNoArgs(self->mark);
    if (begin == NULL)
        return NULL;
    PyObject *result = PyObject_Vectorcall(self->function, values, count, names);
    if (result == NULL)
        return cut_off(self, start_ns, begin);
    PyObject *end = PyObject_CallNoArgs(self->mark);
    if (end == NULL)
        Py_DECREF(begin);
    if (end == NULL || note_use(self, PHASE, start_ns, begin, end))
        Py_CLEAR(result);
    return result;
}

static int call_traverse(PyObject *object, visitproc visit, void *arg)
{
    TimedCall *self = (TimedCall *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->notes);
    Py_VISIT(self->function);
    Py_VISIT(self->scope);
    Py_VISIT(self->mark);
    return 0;
}

static int call_clear(PyObject *object)
{
    TimedCall *self = (TimedCall *)object;
    Py_CLEAR(self->notes);
    Py_CLEAR(self->function);
    Py_CLEAR(self->scope);
    Py_CLEAR(self->mark);
    return 0;
}

/* Steps: the times of `step.py`'s, whose figures a class of Python adds */

typedef struct {
    PyObject_HEAD
    Notes *notes;
    PyObject *keeper, *number, *warmup, *later; /* later: NULL or a list */
    char is_open, complete;
    long long start_ns, end_ns;
} Step;

static int step_init(PyObject *object, PyObject *values, PyObject *names)
{
    Step *self = (Step *)object;
    PyObject *keeper, *number;
    if (!PyArg_ParseTuple(values, "OO", &keeper, &number))
        return -1;
    Py_XSETREF(self->keeper, Py_NewRef(keeper));
    Py_XSETREF(self->number, Py_NewRef(number));
    Py_XSETREF(self->warmup, PyObject_GetAttr(keeper, warmup_name));
    PyObject *notes = PyObject_GetAttr(keeper, noted_name);
    if (notes == NULL || self->warmup == NULL)
        return -1;
    if (Py_TYPE(notes) != notes_type) {
        PyErr_SetString(PyExc_TypeError, "the keeper of a step in C has its notes in C");
        return -1;
    }
    Py_XSETREF(self->notes, (Notes *)notes);
    return 0;
}

static PyObject *step_enter(PyObject *object, PyObject *unused)
{
    Step *self = (Step *)object;
    Notes *notes = self->notes;
    if ((notes->last && ((Step *)notes->last)->is_open) || notes->size > notes->many) {
        PyObject *made = PyObject_CallMethod(self->keeper, "make_way", NULL);
        if (made == NULL)
            return NULL;
        Py_DECREF(made);
    }
    Py_XSETREF(notes->last, Py_NewRef(object));
    if (PyObject_SetAttr(notes->ledger, step_name, self->number) || note_object(notes, object))
        return NULL;
    self->is_open = 1;
    self->start_ns = now_ns();
    return Py_NewRef(object);
}

static PyObject *step_exit(PyObject *object, PyObject *const *values, Py_ssize_t count)
{
    Step *self = (Step *)object;
    if (self->is_open) {
        self->end_ns = now_ns();
        self->is_open = 0;
        self->complete = count > 0 && values[0] == Py_None;
        if (note_object(self->notes, object) || PyObject_SetAttr(self->notes->ledger, step_name, Py_None))
            return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *step_note_later(PyObject *object, PyObject *const *values, Py_ssize_t count)
{
    Step *self = (Step *)object;
    if (self->later == NULL && (self->later = PyList_New(0)) == NULL)
        return NULL;
    PyObject *note = PyTuple_New(count);
    if (note == NULL)
        return NULL;
    for (Py_ssize_t at = 0; at < count; at++)
        PyTuple_SET_ITEM(note, at, Py_NewRef(values[at]));
    int failed = PyList_Append(self->later, note);
    Py_DECREF(note);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

static int step_traverse(PyObject *object, visitproc visit, void *arg)
{
    Step *self = (Step *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->notes);
    Py_VISIT(self->keeper);
    Py_VISIT(self->number);
    Py_VISIT(self->warmup);
    Py_VISIT(self->later);
    return 0;
}

static int step_clear(PyObject *object)
{
    Step *self = (Step *)object;
    Py_CLEAR(self->notes);
    Py_CLEAR(self->keeper);
    Py_CLEAR(self->number);
    Py_CLEAR(self->warmup);
    Py_CLEAR(self->later);
    return 0;
}

/* Types. `clear` is the type's own, not that of a class below it. */

static void free_object(PyObject *object, inquiry clear)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    clear(object);
    type->tp_free(object);
    Py_DECREF(type);
}

static void notes_free(PyObject *object) { free_object(object, notes_clear); }
static void call_free(PyObject *object) { free_object(object, call_clear); }
static void step_free(PyObject *object) { free_object(object, step_clear); }

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
    {Py_tp_new, PyType_GenericNew}, {Py_tp_init, notes_init}, {Py_tp_methods, notes_methods},
    {Py_tp_members, notes_members}, {Py_sq_length, notes_length}, {Py_tp_traverse, notes_traverse},
    {Py_tp_clear, notes_clear}, {Py_tp_dealloc, notes_free}, {0, NULL},
};
static PyType_Spec notes_spec = {
    "hot_path.Notes", sizeof(Notes), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, notes_slots};

static PyMemberDef call_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(TimedCall, vectorcall), READONLY, NULL}, {NULL}};
static PyType_Slot call_slots[] = {
    {Py_tp_call, PyVectorcall_Call}, {Py_tp_members, call_members}, {Py_tp_traverse, call_traverse},
    {Py_tp_clear, call_clear}, {Py_tp_dealloc, call_free}, {0, NULL},
};
static PyType_Spec call_spec = {
    "hot_path.TimedCall", sizeof(TimedCall), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, call_slots};

static PyMethodDef step_methods[] = {
    {"__enter__", step_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))step_exit, METH_FASTCALL, NULL},
    {"note_later", (PyCFunction)(void (*)(void))step_note_later, METH_FASTCALL, NULL},
    {NULL},
};
static PyMemberDef step_members[] = {
    {"_keeper", T_OBJECT, offsetof(Step, keeper), READONLY, NULL},
    {"number", T_OBJECT, offsetof(Step, number), READONLY, NULL},
    {"warmup", T_OBJECT, offsetof(Step, warmup), READONLY, NULL},
    {"_later", T_OBJECT, offsetof(Step, later), READONLY, NULL},
    {"is_open", T_BOOL, offsetof(Step, is_open), READONLY, NULL},
    {"complete", T_BOOL, offsetof(Step, complete), READONLY, NULL},
    {"start_ns", T_LONGLONG, offsetof(Step, start_ns), READONLY, NULL},
    {"end_ns", T_LONGLONG, offsetof(Step, end_ns), READONLY, NULL},
    {NULL},
};
static PyType_Slot step_slots[] = {
    {Py_tp_new, PyType_GenericNew}, {Py_tp_init, step_init}, {Py_tp_methods, step_methods},
    {Py_tp_members, step_members}, {Py_tp_traverse, step_traverse}, {Py_tp_clear, step_clear},
    {Py_tp_dealloc, step_free}, {0, NULL},
};
static PyType_Spec step_spec = {
    "hot_path.Step", sizeof(Step), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, step_slots};

/* timed(notes, function, scope, mark): `function`, noted at each call; `mark` is called at its borders, unless None. */
static PyObject *timed(PyObject *module, PyObject *values)
{
    PyObject *notes, *function, *scope, *mark;
    if (!PyArg_ParseTuple(values, "O!OOO", notes_type, &notes, &function, &scope, &mark))
        return NULL;
    if (PyList_Append(((Notes *)notes)->scopes, scope))
        return NULL;
    TimedCall *made = PyObject_GC_New(TimedCall, call_type);
    if (made == NULL)
        return NULL;
    made->vectorcall = mark == Py_None ? call_range : call_phase;
    made->notes = (Notes *)Py_NewRef(notes);
    made->function = Py_NewRef(function);
    made->scope = Py_NewRef(scope);
    made->mark = mark == Py_None ? NULL : Py_NewRef(mark);
    PyObject_GC_Track(made);
    return (PyObject *)made;
}

static PyMethodDef functions[] = {{"timed", timed, METH_VARARGS, "See above."}, {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "hot_path", NULL, -1, functions};

PyMODINIT_FUNC PyInit_hot_path(void)
{
    PyObject *module = PyModule_Create(&definition);
    notes_type = (PyTypeObject *)PyType_FromSpec(&notes_spec);
    call_type = (PyTypeObject *)PyType_FromSpec(&call_spec);
    step_type = (PyTypeObject *)PyType_FromSpec(&step_spec);
    noted_name = PyUnicode_InternFromString("noted");
    step_name = PyUnicode_InternFromString("step");
    warmup_name = PyUnicode_InternFromString("warmup");
    if (module == NULL || notes_type == NULL || call_type == NULL || step_type == NULL || warmup_name == NULL)
        return NULL;
    return PyModule_AddType(module, notes_type) || PyModule_AddType(module, step_type) ? NULL : module;
}
