/* A function of which each call is a range or a phase: one record of `notes.h`, no frame and no object of Python. */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    Notes *notes;
    PyObject *function, *scope, *mark, *taker; /* mark: NULL where none is taken; taker: borrowed from it */
    PyCFunction take;                          /* of taker, where that does the same as calling the mark */
} TimedCall;

static PyTypeObject *call_type;

/* Write the use of a scope; the marks are given away. */
static int note_use(TimedCall *self, enum kind kind, long long start_ns, PyObject *begin, PyObject *end)
{
    Note *note = next_note(self->notes);
    if (note == NULL) {
        Py_XDECREF(begin);
        Py_XDECREF(end);
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

/* A mark. A method of C without arguments, as that of marks in C, needs nothing that a call does around it. */
static inline PyObject *take_mark(TimedCall *self)
{
    if (self->take != NULL)
        return self->take(self->taker, NULL);
    return PyObject_CallNoArgs(self->mark);
}

/* A phase with a device mark at either border. The host end is read behind the mark: what that costs is the phase's. */
static PyObject *call_phase(PyObject *object, PyObject *const *values, size_t count, PyObject *names)
{
    TimedCall *self = (TimedCall *)object;
    if (self->notes->silent)
        return PyObject_Vectorcall(self->function, values, count, names);
    long long start_ns = now_ns();
    PyObject *begin = take_mark(self);
    if (begin == NULL)
        return NULL;
    PyObject *result = PyObject_Vectorcall(self->function, values, count, names);
    if (result == NULL)
        return cut_off(self, start_ns, begin);
    PyObject *end = take_mark(self);
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

/* In a class it is a method of its objects, as a function is. */
static PyObject *call_get(PyObject *object, PyObject *owner, PyObject *type)
{
    return owner == NULL || owner == Py_None ? Py_NewRef(object) : PyMethod_New(object, owner);
}

/* The collector clears none of it: a call does not change, so a cycle that it is in is broken elsewhere, and whoever is
   collected with it may call it until the end. */
static void call_free(PyObject *object)
{
    TimedCall *self = (TimedCall *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    Py_DECREF(self->notes);
    Py_DECREF(self->function);
    Py_DECREF(self->scope);
    Py_XDECREF(self->mark);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMemberDef call_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(TimedCall, vectorcall), READONLY, NULL}, {NULL}};
static PyType_Slot call_slots[] = {
    {Py_tp_call, PyVectorcall_Call}, {Py_tp_members, call_members}, {Py_tp_descr_get, call_get},
    {Py_tp_traverse, call_traverse}, {Py_tp_dealloc, call_free}, {0, NULL},
};
static PyType_Spec call_spec = {
    "hot_path.TimedCall", sizeof(TimedCall), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR |
        Py_TPFLAGS_DISALLOW_INSTANTIATION,
    call_slots};

/* timed(notes, function, scope, mark): `function`, noted at each call; `mark` is called at its borders, unless None. */
static PyObject *timed(PyObject *module, PyObject *values)
{
    PyObject *notes, *function, *scope, *mark;
    if (!PyArg_ParseTuple(values, "O!OOO", notes_type, &notes, &function, &scope, &mark))
        return NULL;
    if (PySet_Add(((Notes *)notes)->scopes, scope))
        return NULL;
    TimedCall *made = PyObject_GC_New(TimedCall, call_type);
    if (made == NULL)
        return NULL;
    made->vectorcall = mark == Py_None ? call_range : call_phase;
    made->notes = (Notes *)Py_NewRef(notes);
    made->function = Py_NewRef(function);
    made->scope = Py_NewRef(scope);
    made->mark = mark == Py_None ? NULL : Py_NewRef(mark);
    made->take = NULL;
    if (PyCFunction_CheckExact(mark) && PyCFunction_GET_FLAGS(mark) == METH_NOARGS) {
        made->take = PyCFunction_GET_FUNCTION(mark);
        made->taker = PyCFunction_GET_SELF(mark);
    }
    PyObject_GC_Track(made);
    return (PyObject *)made;
}
