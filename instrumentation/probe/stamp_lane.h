/* The lane of one stream, and marks on it, for `cuda_lanes.py` and `cuda_marks.py`: what a step does with them. */

/* append: that of `waiting`; handle: what the driver knows the stream by, NULL where torch records. */
typedef struct {
    PyObject_HEAD
    EventPool *pool;
    PyObject *stream, *timeline, *name, *waiting, *append, *border, *last, *engine;
    void *handle;
    long long number, done, kernels;
} Lane;

static PyTypeObject *lane_type, *marks_type;
static PyObject *append_name, *apart_name, *now_name, *no_engine;

/* Lane(stream, timeline, name, pool, waiting, handle) */
static PyObject *lane_new(PyTypeObject *type, PyObject *values, PyObject *names)
{
    PyObject *stream, *timeline, *name, *pool, *waiting;
    unsigned long long handle;
    if (!PyArg_ParseTuple(values, "OOOO!OK", &stream, &timeline, &name, pool_type, &pool, &waiting, &handle))
        return NULL;
    Lane *self = (Lane *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->stream = Py_NewRef(stream);
    self->timeline = Py_NewRef(timeline);
    self->name = Py_NewRef(name);
    self->pool = (EventPool *)Py_NewRef(pool);
    self->waiting = Py_NewRef(waiting);
    self->handle = (void *)(uintptr_t)handle;
    self->border = Py_NewRef(Py_None);
    self->last = Py_NewRef(Py_None);
    self->engine = Py_NewRef(no_engine);
    self->append = PyObject_GetAttr(waiting, append_name);
    if (self->append == NULL)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyObject *lane_begin(PyObject *object, PyObject *unused)
{
    Lane *self = (Lane *)object;
    int bare = self->border == NULL || self->border == Py_None;
    int idle = self->done >= self->number && self->done >= self->kernels;
    PyObject *begin = bare && idle ? self->last : self->border;
    return Py_NewRef(begin == NULL ? Py_None : begin);
}

static PyObject *lane_record(PyObject *object, PyObject *now)
{
    Lane *self = (Lane *)object;
    long long recorded_ns = PyLong_AsLongLong(now), number;
    if (recorded_ns == -1 && PyErr_Occurred())
        return NULL;
    Pooled taken;
    number = ++self->number;
    if (record_event(self->pool, self->stream, self->handle, &taken))
        return NULL;
    Stamp *stamp = PyObject_New(Stamp, stamp_type);
    if (stamp == NULL) {
        Py_DECREF(taken.event);
        return NULL;
    }
    stamp->event = taken.event;
    stamp->engine = Py_XNewRef(self->engine);
    stamp->device_ns = Py_NewRef(Py_None);
    stamp->returned_ns = Py_NewRef(Py_None);
    stamp->host = Py_NewRef(Py_None);
    stamp->recorded_ns = recorded_ns;
    stamp->number = number;
    stamp->lost = 0;
    Py_XSETREF(self->last, Py_NewRef(stamp));
    Py_XSETREF(self->border, Py_NewRef(stamp));
    PyObject *appended = PyObject_CallOneArg(self->append, (PyObject *)stamp);
    if (appended == NULL)
        Py_CLEAR(stamp);
    Py_XDECREF(appended);
    return (PyObject *)stamp;
}

static PyObject *lane_record_work(PyObject *object, PyObject *now)
{
    Lane *self = (Lane *)object;
    Py_XSETREF(self->engine, Py_NewRef(no_engine));
    PyObject *stamp = lane_record(object, now);
    if (stamp != NULL)
        self->kernels = ((Stamp *)stamp)->number;
    return stamp;
}

static PyObject *lane_record_untimed(PyObject *object, PyObject *unused)
{
    Lane *self = (Lane *)object;
    Pooled taken;
    if (record_event(self->pool, self->stream, self->handle, &taken))
        return NULL;
    UntimedStamp *stamp = PyObject_New(UntimedStamp, untimed_type);
    if (stamp == NULL) {
        Py_DECREF(taken.event);
        return NULL;
    }
    stamp->pool = (EventPool *)Py_NewRef(self->pool);
    stamp->event = taken.event;
    stamp->handle = taken.handle;
    stamp->returned_ns = Py_NewRef(Py_None);
    stamp->number = 0;
    return (PyObject *)stamp;
}

static int lane_traverse(PyObject *object, visitproc visit, void *arg)
{
    Lane *self = (Lane *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->pool);
    Py_VISIT(self->stream);
    Py_VISIT(self->timeline);
    Py_VISIT(self->name);
    Py_VISIT(self->waiting);
    Py_VISIT(self->append);
    Py_VISIT(self->border);
    Py_VISIT(self->last);
    Py_VISIT(self->engine);
    return 0;
}

/* The pool stays: a lane that is being collected may be asked for a stamp by whoever is collected with it. */
static int lane_clear(PyObject *object)
{
    Lane *self = (Lane *)object;
    Py_CLEAR(self->timeline);
    Py_CLEAR(self->border);
    Py_CLEAR(self->last);
    return 0;
}

static void lane_free(PyObject *object)
{
    Lane *self = (Lane *)object;
    PyObject_GC_UnTrack(object);
    Py_CLEAR(self->append);
    Py_CLEAR(self->waiting);
    Py_CLEAR(self->stream);
    Py_CLEAR(self->name);
    Py_CLEAR(self->engine);
    Py_CLEAR(self->pool);
    free_object(object, lane_clear);
}

static PyMethodDef lane_methods[] = {
    {"begin", lane_begin, METH_NOARGS, "See StampLane.begin."},
    {"record", lane_record, METH_O, "See StampLane.record."},
    {"record_work", lane_record_work, METH_O, "See StampLane.record_work."},
    {"record_untimed", lane_record_untimed, METH_NOARGS, "See StampLane.record_untimed."},
    {NULL},
};
static PyMemberDef lane_members[] = {
    {"timeline", T_OBJECT_EX, offsetof(Lane, timeline), READONLY, NULL},
    {"name", T_OBJECT_EX, offsetof(Lane, name), READONLY, NULL},
    {"waiting", T_OBJECT_EX, offsetof(Lane, waiting), READONLY, NULL},
    {"border", T_OBJECT_EX, offsetof(Lane, border), 0, NULL},
    {"last", T_OBJECT_EX, offsetof(Lane, last), 0, NULL},
    {"engine", T_OBJECT_EX, offsetof(Lane, engine), 0, NULL},
    {"done", T_LONGLONG, offsetof(Lane, done), 0, NULL},
    {"kernels", T_LONGLONG, offsetof(Lane, kernels), 0, NULL},
    {"recorded", T_LONGLONG, offsetof(Lane, number), READONLY, NULL},
    {NULL},
};
static PyType_Slot lane_slots[] = {
    {Py_tp_new, lane_new}, {Py_tp_methods, lane_methods}, {Py_tp_members, lane_members},
    {Py_tp_traverse, lane_traverse}, {Py_tp_clear, lane_clear}, {Py_tp_dealloc, lane_free}, {0, NULL},
};
static PyType_Spec lane_spec = {
    "hot_path.Lane", sizeof(Lane), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, lane_slots};

/* `Marks.take` of Python, but for what stands in the way of a mark: that is `_apart` there. now: the device's clock;
   aside: a set. */
typedef struct {
    PyObject_HEAD
    Lane *lane;
    PyObject *now, *aside;
    char closed;
} Marks;

static PyObject *marks_new(PyTypeObject *type, PyObject *values, PyObject *names)
{
    PyObject *lane, *rows, *clock;
    if (!PyArg_ParseTuple(values, "O!OO", lane_type, &lane, &rows, &clock))
        return NULL;
    Marks *self = (Marks *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->lane = (Lane *)Py_NewRef(lane);
    self->now = PyObject_GetAttr(clock, now_name);
    if (self->now == NULL)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyObject *marks_take(PyObject *object, PyObject *unused)
{
    Marks *self = (Marks *)object;
    int joined = self->aside != NULL && PyAnySet_Check(self->aside) && PySet_GET_SIZE(self->aside) == 0;
    if (self->closed || !joined)
        return PyObject_CallMethodObjArgs(object, apart_name, NULL);
    PyObject *border = self->lane->border;
    if (border != NULL && border != Py_None)
        return Py_NewRef(border);
    PyObject *now = PyObject_CallNoArgs(self->now);
    PyObject *mark = now == NULL ? NULL : lane_record((PyObject *)self->lane, now);
    Py_XDECREF(now);
    return mark;
}

static int marks_traverse(PyObject *object, visitproc visit, void *arg)
{
    Marks *self = (Marks *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->lane);
    Py_VISIT(self->now);
    Py_VISIT(self->aside);
    return 0;
}

/* The lane stays until the end, for `take`; so cycles are broken by what Python keeps. */
static int marks_clear(PyObject *object) { return 0; }

static void marks_free(PyObject *object)
{
    Marks *self = (Marks *)object;
    PyObject_GC_UnTrack(object);
    Py_CLEAR(self->lane);
    Py_CLEAR(self->now);
    Py_CLEAR(self->aside);
    free_object(object, marks_clear);
}

static PyMethodDef marks_methods[] = {{"take", marks_take, METH_NOARGS, "See Marks.take."}, {NULL}};
static PyMemberDef marks_members[] = {
    {"closed", T_BOOL, offsetof(Marks, closed), 0, NULL},
    {"aside", T_OBJECT, offsetof(Marks, aside), 0, NULL},
    {NULL},
};
static PyType_Slot marks_slots[] = {
    {Py_tp_new, marks_new}, {Py_tp_methods, marks_methods}, {Py_tp_members, marks_members},
    {Py_tp_traverse, marks_traverse}, {Py_tp_clear, marks_clear}, {Py_tp_dealloc, marks_free}, {0, NULL},
};
static PyType_Spec marks_spec = {
    "hot_path.Marks", sizeof(Marks), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, marks_slots};
