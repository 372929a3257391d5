/* What the probe does in an engine's step, without Python: `notes.h`, `timed_call.h`, `step_times.h`.

   In Python (`call_forms.py`, `step.py`, `notes.py`) a timed call costs a frame, two calls of the clock, a tuple and two
   integers, all of them in memory that is cold behind a stage of the step; here one record in an array. All of it runs
   under the interpreter's lock. */

#include "notes.h"
#include "timed_call.h"
#include "step_times.h"

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
