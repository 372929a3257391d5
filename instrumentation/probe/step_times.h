/* The times of a step, its note, and what most steps change of the rest; `StepFigures` in `step.py` adds what is Python's.
   A step has no dictionary and mostly no list: what is kept until somebody reads lies in memory that was not used for a
   while, and each piece of it costs. */

#define LATER 6 /* values of a note for later that need no tuple: the runner's */

/* first, count: the first note for later, if it has so few values; later: the others, NULL or a list of tuples;
   noted, visible_ns: NULL is None. */
typedef struct {
    PyObject_HEAD
    Notes *notes;
    PyObject *keeper, *number, *warmup, *later, *noted, *visible_ns, *first[LATER];
    Py_ssize_t count;
    char is_open, complete, held, late;
    long long start_ns, end_ns;
} Step;

static PyTypeObject *step_type;
static PyObject *noted_name, *step_name, *warmup_name;

/* What `steps` gives, called with a number. maker: the type of its steps, their keeper and his notes. */
static PyObject *make_step(PyObject *maker, PyObject *number)
{
    PyTypeObject *type = (PyTypeObject *)PyTuple_GET_ITEM(maker, 0);
    PyObject *keeper = PyTuple_GET_ITEM(maker, 1);
    Step *self = (Step *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->keeper = Py_NewRef(keeper);
    self->notes = (Notes *)Py_NewRef(PyTuple_GET_ITEM(maker, 2));
    self->number = Py_NewRef(number);
    self->warmup = PyObject_GetAttr(keeper, warmup_name);
    if (self->warmup == NULL)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyMethodDef make_step_method = {"step", make_step, METH_O, "The step of a number."};

/* steps(type, keeper): a function that makes the steps of one probe. `type` is below Step. */
static PyObject *steps(PyObject *module, PyObject *values)
{
    PyObject *type, *keeper;
    if (!PyArg_ParseTuple(values, "O!O", &PyType_Type, &type, &keeper))
        return NULL;
    PyObject *notes = PyObject_GetAttr(keeper, noted_name);
    if (notes == NULL)
        return NULL;
    PyObject *made = NULL;
    if (Py_TYPE(notes) != notes_type || !PyType_IsSubtype((PyTypeObject *)type, step_type)) {
        PyErr_SetString(PyExc_TypeError, "the keeper of a step in C has its notes in C");
    } else {
        PyObject *maker = PyTuple_Pack(3, type, keeper, notes);
        made = maker == NULL ? NULL : PyCFunction_New(&make_step_method, maker);
        Py_XDECREF(maker);
    }
    Py_DECREF(notes);
    return made;
}

static PyObject *step_new(PyTypeObject *type, PyObject *values, PyObject *names)
{
    PyErr_SetString(PyExc_TypeError, "a step is made by what `steps` gives");
    return NULL;
}

/* Whether a step's number is above that of the one before; False also where that takes Python to say. */
static int rises(PyObject *number, PyObject *last)
{
    int beyond, beyond_last;
    if (!PyLong_CheckExact(number) || !PyLong_CheckExact(last))
        return 0;
    long long value = PyLong_AsLongLongAndOverflow(number, &beyond);
    return value > PyLong_AsLongLongAndOverflow(last, &beyond_last) && !beyond && !beyond_last;
}

static PyObject *step_enter(PyObject *object, PyObject *unused)
{
    Step *self = (Step *)object;
    Notes *notes = self->notes;
    Step *last = (Step *)notes->last;
    if ((last && (last->is_open || !rises(self->number, last->number))) || notes->size > notes->many) {
        PyObject *number = PyObject_CallMethod(self->keeper, "make_way", "O", self->number);
        if (number == NULL)
            return NULL;
        Py_SETREF(self->number, number);
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
        Py_RETURN_NONE;
    }
    return PyObject_CallMethod(self->keeper, "left_late", "OO", object, count > 0 ? values[0] : Py_None);
}

static PyObject *as_tuple(PyObject *const *values, Py_ssize_t count)
{
    PyObject *made = PyTuple_New(count);
    for (Py_ssize_t at = 0; made != NULL && at < count; at++)
        PyTuple_SET_ITEM(made, at, Py_NewRef(values[at]));
    return made;
}

static PyObject *step_note_later(PyObject *object, PyObject *const *values, Py_ssize_t count)
{
    Step *self = (Step *)object;
    if (count == 0) {
        PyErr_SetString(PyExc_TypeError, "note_later needs what makes the figures");
        return NULL;
    }
    if (self->count == 0 && self->later == NULL && count <= LATER) {
        for (Py_ssize_t at = 0; at < count; at++)
            self->first[at] = Py_NewRef(values[at]);
        self->count = count;
        Py_RETURN_NONE;
    }
    PyObject *note = as_tuple(values, count), *later = self->later == NULL ? PyList_New(0) : NULL;
    if (self->later == NULL) /* still: making objects may run the collector, and with it anything */
        self->later = later;
    else
        Py_XDECREF(later);
    int failed = note == NULL || self->later == NULL || PyList_Append(self->later, note);
    Py_XDECREF(note);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

/* All notes for later, in order. */
static PyObject *step_later(PyObject *object, void *unused)
{
    Step *self = (Step *)object;
    PyObject *all = PyList_New(0);
    PyObject *first = all == NULL || self->count == 0 ? NULL : as_tuple(self->first, self->count);
    int failed = all == NULL || (self->count && (first == NULL || PyList_Append(all, first)));
    Py_XDECREF(first);
    if (!failed && self->later != NULL)
        failed = PyList_SetSlice(all, PY_SSIZE_T_MAX, PY_SSIZE_T_MAX, self->later);
    if (failed)
        Py_CLEAR(all);
    return all;
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
    Py_VISIT(self->noted);
    Py_VISIT(self->visible_ns);
    for (Py_ssize_t at = 0; at < self->count; at++)
        Py_VISIT(self->first[at]);
    return 0;
}

/* What was given at the beginning stays: whoever is collected with a step may still end it. */
static int step_clear(PyObject *object)
{
    Step *self = (Step *)object;
    Py_CLEAR(self->later);
    Py_CLEAR(self->noted);
    Py_CLEAR(self->visible_ns);
    while (self->count) {
        self->count--;
        Py_CLEAR(self->first[self->count]);
    }
    return 0;
}

static int step_drop(PyObject *object)
{
    Step *self = (Step *)object;
    Py_CLEAR(self->notes);
    Py_CLEAR(self->keeper);
    Py_CLEAR(self->number);
    Py_CLEAR(self->warmup);
    return step_clear(object);
}

static void step_free(PyObject *object) { free_object(object, step_drop); }

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
    {"_noted", T_OBJECT, offsetof(Step, noted), 0, NULL},
    {"visible_ns", T_OBJECT, offsetof(Step, visible_ns), 0, NULL},
    {"held", T_BOOL, offsetof(Step, held), 0, NULL},
    {"_late", T_BOOL, offsetof(Step, late), 0, NULL},
    {"is_open", T_BOOL, offsetof(Step, is_open), READONLY, NULL},
    {"complete", T_BOOL, offsetof(Step, complete), READONLY, NULL},
    {"start_ns", T_LONGLONG, offsetof(Step, start_ns), READONLY, NULL},
    {"end_ns", T_LONGLONG, offsetof(Step, end_ns), READONLY, NULL},
    {NULL},
};
static PyGetSetDef step_getters[] = {{"_later", step_later, NULL, NULL, NULL}, {NULL}};
static PyType_Slot step_slots[] = {
    {Py_tp_new, step_new}, {Py_tp_methods, step_methods}, {Py_tp_members, step_members},
    {Py_tp_getset, step_getters}, {Py_tp_traverse, step_traverse}, {Py_tp_clear, step_clear},
    {Py_tp_dealloc, step_free}, {0, NULL},
};
static PyType_Spec step_spec = {
    "hot_path.Step", sizeof(Step), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, step_slots};
