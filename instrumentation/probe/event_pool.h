/* The events of one timeline of the `cuda` device, and stamps: recorded events. `cuda_lanes.py` does it in Python and says
   what their attributes are.

   An event is recorded by the driver's own call, which is where torch ends after 0.5 us: looking up the stream, setting
   the device, a frame of its own. Hazards:
   - torch makes its event at its first record, on the stream's device. Until then it has no handle and torch records it;
     afterwards it answers all else (query, synchronize, elapsed_time, wait_event) whoever recorded it last.
   - An event that is in the pool nobody waits for, and one that somebody waits for is not in the pool: recorded again, it
     would have him wait for the later work. The pool owns its events; a stamp owns the one it was given.
   - Event and stream are of one context, as all of a timeline are. In a stream that captures, the event is captured, as
     by torch. The interpreter's lock is kept: the call takes 1 us and waits for nothing.
   - Whatever the driver refuses is given to torch: it raises its own error, or, in a thread that never touched the
     device, sets the context and records. */

typedef int (*RecordEvent)(void *event, void *stream); /* cuEventRecord: 0, or the number of an error */

typedef struct {
    PyObject *event; /* owned */
    void *handle;    /* the driver's; NULL: torch records it */
} Pooled;

/* make: called for a fresh event when the pool is dry; record: NULL where torch records them all. */
typedef struct {
    PyObject_HEAD
    Pooled *events;
    Py_ssize_t size, capacity;
    PyObject *make;
    RecordEvent record;
} EventPool;

static PyTypeObject *pool_type;
static PyObject *record_name, *handle_name;

static void *handle_of(PyObject *event)
{
    PyObject *value = PyObject_GetAttr(event, handle_name);
    void *handle = value == NULL ? NULL : PyLong_AsVoidPtr(value);
    Py_XDECREF(value);
    if (PyErr_Occurred()) { /* a test's event: it has none */
        PyErr_Clear();
        handle = NULL;
    }
    return handle;
}

/* Give an event back; the reference is given away, also where there is no memory. */
static int give_event(EventPool *self, PyObject *event, void *handle)
{
    if (handle == NULL && self->record != NULL)
        handle = handle_of(event);
    if (self->size == self->capacity) {
        Py_ssize_t capacity = self->capacity ? 2 * self->capacity : FIRST_CAPACITY;
        Pooled *larger = PyMem_Realloc(self->events, capacity * sizeof(Pooled));
        if (larger == NULL) {
            Py_DECREF(event);
            PyErr_NoMemory();
            return -1;
        }
        self->events = larger;
        self->capacity = capacity;
    }
    self->events[self->size++] = (Pooled){event, handle};
    return 0;
}

/* The event that was used last, or a fresh one, recorded. `stream`: torch's, and what the driver knows it by, or NULL. */
static int record_event(EventPool *self, PyObject *stream, void *stream_handle, Pooled *taken)
{
    if (self->size == 0 && self->make == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the events of this timeline are being collected");
        return -1;
    }
    *taken = self->size ? self->events[--self->size] : (Pooled){PyObject_CallNoArgs(self->make), NULL};
    if (taken->event == NULL)
        return -1;
    if (self->size) /* where stamps wait long to be read, the next one was not touched for a while either */
        __builtin_prefetch(self->events[self->size - 1].handle, 1);
    if (taken->handle != NULL && stream_handle != NULL && self->record(taken->handle, stream_handle) == 0)
        return 0;
    PyObject *recorded = PyObject_CallMethodObjArgs(taken->event, record_name, stream, NULL);
    if (recorded == NULL) {
        Py_DECREF(taken->event);
        return -1;
    }
    Py_DECREF(recorded);
    return 0;
}

static PyObject *pool_append(PyObject *object, PyObject *event)
{
    if (give_event((EventPool *)object, Py_NewRef(event), NULL))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *pool_pop(PyObject *object, PyObject *unused)
{
    EventPool *self = (EventPool *)object;
    if (self->size)
        return self->events[--self->size].event;
    PyErr_SetString(PyExc_IndexError, "the pool is dry");
    return NULL;
}

static Py_ssize_t pool_length(PyObject *object) { return ((EventPool *)object)->size; }

static PyObject *pool_item(PyObject *object, Py_ssize_t at)
{
    EventPool *self = (EventPool *)object;
    if (at >= 0 && at < self->size)
        return Py_NewRef(self->events[at].event);
    PyErr_SetString(PyExc_IndexError, "no event there");
    return NULL;
}

/* EventPool(make, address): address of the driver's function, 0 where torch records. */
static PyObject *pool_new(PyTypeObject *type, PyObject *values, PyObject *names)
{
    PyObject *make;
    unsigned long long address;
    if (!PyArg_ParseTuple(values, "OK", &make, &address))
        return NULL;
    EventPool *self = (EventPool *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->make = Py_NewRef(make);
    self->record = (RecordEvent)(uintptr_t)address;
    return (PyObject *)self;
}

static int pool_traverse(PyObject *object, visitproc visit, void *arg)
{
    EventPool *self = (EventPool *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->make);
    for (Pooled *pooled = self->events; pooled < self->events + self->size; pooled++)
        Py_VISIT(pooled->event);
    return 0;
}

static int pool_clear(PyObject *object)
{
    EventPool *self = (EventPool *)object;
    Pooled *events = self->events;
    Py_ssize_t size = self->size;
    self->events = NULL; /* whoever is freed below may give an event back */
    self->size = self->capacity = 0;
    while (size)
        Py_DECREF(events[--size].event);
    PyMem_Free(events);
    Py_CLEAR(self->make);
    return 0;
}

static void pool_free(PyObject *object) { free_object(object, pool_clear); }

static PyMethodDef pool_methods[] = {
    {"append", pool_append, METH_O, "Give an event back that nobody waits for."},
    {"pop", pool_pop, METH_NOARGS, "Take the event that was used last. Raises IndexError."},
    {NULL},
};
static PyType_Slot pool_slots[] = {
    {Py_tp_new, pool_new}, {Py_tp_methods, pool_methods}, {Py_sq_length, pool_length}, {Py_sq_item, pool_item},
    {Py_tp_traverse, pool_traverse}, {Py_tp_clear, pool_clear}, {Py_tp_dealloc, pool_free}, {0, NULL},
};
static PyType_Spec pool_spec = {
    "hot_path.EventPool", sizeof(EventPool), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, pool_slots};

/* Stamps. Not known to the garbage collector: what they refer to does not refer to them. */
typedef struct {
    PyObject_HEAD
    PyObject *event, *engine, *device_ns, *returned_ns, *host;
    long long recorded_ns, number;
    char lost;
} Stamp;

/* Nobody reads it: its event goes back to `pool` with it. */
typedef struct {
    PyObject_HEAD
    EventPool *pool;
    PyObject *event, *returned_ns;
    void *handle;
    long long number;
} UntimedStamp;

static PyTypeObject *stamp_type, *untimed_type;

static void stamp_free(PyObject *object)
{
    Stamp *self = (Stamp *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(self->event);
    Py_XDECREF(self->engine);
    Py_XDECREF(self->device_ns);
    Py_XDECREF(self->returned_ns);
    Py_XDECREF(self->host);
    PyObject_Free(object);
    Py_DECREF(type);
}

static void untimed_free(PyObject *object)
{
    UntimedStamp *self = (UntimedStamp *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject *kind, *error, *trace;
    PyErr_Fetch(&kind, &error, &trace); /* it may be freed on an exception's way */
    if (self->event != NULL && give_event(self->pool, self->event, self->handle))
        PyErr_Clear();
    PyErr_Restore(kind, error, trace);
    Py_XDECREF(self->returned_ns);
    Py_DECREF(self->pool);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyMemberDef stamp_members[] = {
    {"event", T_OBJECT_EX, offsetof(Stamp, event), 0, NULL},
    {"engine", T_OBJECT_EX, offsetof(Stamp, engine), READONLY, NULL},
    {"device_ns", T_OBJECT_EX, offsetof(Stamp, device_ns), 0, NULL},
    {"returned_ns", T_OBJECT_EX, offsetof(Stamp, returned_ns), 0, NULL},
    {"host", T_OBJECT_EX, offsetof(Stamp, host), 0, NULL},
    {"recorded_ns", T_LONGLONG, offsetof(Stamp, recorded_ns), 0, NULL},
    {"number", T_LONGLONG, offsetof(Stamp, number), READONLY, NULL},
    {"lost", T_BOOL, offsetof(Stamp, lost), 0, NULL},
    {NULL},
};
static PyMemberDef untimed_members[] = {
    {"event", T_OBJECT_EX, offsetof(UntimedStamp, event), READONLY, NULL},
    {"returned_ns", T_OBJECT_EX, offsetof(UntimedStamp, returned_ns), 0, NULL},
    {"number", T_LONGLONG, offsetof(UntimedStamp, number), READONLY, NULL},
    {NULL},
};
static PyType_Slot stamp_slots[] = {{Py_tp_members, stamp_members}, {Py_tp_dealloc, stamp_free}, {0, NULL}};
static PyType_Slot untimed_slots[] = {{Py_tp_members, untimed_members}, {Py_tp_dealloc, untimed_free}, {0, NULL}};
static PyType_Spec stamp_spec = {
    "hot_path.Stamp", sizeof(Stamp), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, stamp_slots};
static PyType_Spec untimed_spec = {
    "hot_path.UntimedStamp", sizeof(UntimedStamp), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    untimed_slots};
