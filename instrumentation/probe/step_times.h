/* The times of a step, and its note; `StepFigures` in `step.py` adds what is Python's. */

typedef struct {
    PyObject_HEAD
    Notes *notes;
    PyObject *keeper, *number, *warmup, *later; /* later: NULL or a list */
    char is_open, complete;
    long long start_ns, end_ns;
} Step;

static PyTypeObject *step_type;
static PyObject *noted_name, *step_name, *warmup_name;

static PyObject *step_new(PyTypeObject *type, PyObject *values, PyObject *names)
{
    PyObject *keeper, *number;
    if (!PyArg_ParseTuple(values, "OO", &keeper, &number))
        return NULL;
    Step *self = (Step *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->keeper = Py_NewRef(keeper);
    self->number = Py_NewRef(number);
    self->warmup = PyObject_GetAttr(keeper, warmup_name);
    self->notes = (Notes *)PyObject_GetAttr(keeper, noted_name);
    if (self->notes != NULL && Py_TYPE(self->notes) != notes_type) {
        PyErr_SetString(PyExc_TypeError, "the keeper of a step in C has its notes in C");
        Py_CLEAR(self->notes);
    }
    if (self->warmup == NULL || self->notes == NULL)
        Py_CLEAR(self);
    return (PyObject *)self;
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

static void step_free(PyObject *object) { free_object(object, step_clear); }

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
    {Py_tp_new, step_new}, {Py_tp_methods, step_methods}, {Py_tp_members, step_members},
    {Py_tp_traverse, step_traverse}, {Py_tp_clear, step_clear},
    {Py_tp_dealloc, step_free}, {0, NULL},
};
static PyType_Spec step_spec = {
    "hot_path.Step", sizeof(Step), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, step_slots};
