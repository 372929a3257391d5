/* What the probe does in an engine's step, without Python: `notes.h`, `timed_call.h`, `step_times.h`; on the `cuda`
   device also `event_pool.h`, `stamp_lane.h`.

   In Python (`call_forms.py`, `step.py`, `notes.py`) a timed call costs a frame, two calls of the clock, a tuple and two
   integers, all of them in memory that is cold behind a stage of the step; here one record in an array. All of it runs
   under the interpreter's lock. */

#include "notes.h"
#include "timed_call.h"
#include "step_times.h"
#include "event_pool.h"
#include "stamp_lane.h"

static PyMethodDef functions[] = {
    {"timed", timed, METH_VARARGS, "See timed_call.h."}, {"steps", steps, METH_VARARGS, "See step_times.h."}, {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "hot_path", NULL, -1, functions};

static struct {
    PyTypeObject **type;
    PyType_Spec *spec;
} types[] = {
    {&notes_type, &notes_spec}, {&call_type, &call_spec}, {&step_type, &step_spec}, {&pool_type, &pool_spec},
    {&stamp_type, &stamp_spec}, {&untimed_type, &untimed_spec}, {&lane_type, &lane_spec}, {&marks_type, &marks_spec},
};
static struct {
    PyObject **name;
    const char *text;
} names[] = {
    {&noted_name, "noted"}, {&step_name, "step"}, {&warmup_name, "warmup"}, {&record_name, "record"},
    {&handle_name, "cuda_event"}, {&append_name, "append"}, {&apart_name, "_apart"}, {&now_name, "now_ns"},
    {&no_engine, ""},
};

PyMODINIT_FUNC PyInit_hot_path(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL)
        return NULL;
    for (size_t at = 0; at < sizeof types / sizeof *types; at++) {
        *types[at].type = (PyTypeObject *)PyType_FromSpec(types[at].spec);
        if (*types[at].type == NULL || PyModule_AddType(module, *types[at].type))
            return NULL;
    }
    for (size_t at = 0; at < sizeof names / sizeof *names; at++) {
        *names[at].name = PyUnicode_InternFromString(names[at].text);
        if (*names[at].name == NULL)
            return NULL;
    }
    return module;
}
