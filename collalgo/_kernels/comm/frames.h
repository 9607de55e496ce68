/* The current position of the interpreter. */
#ifndef COLLALGO_FRAMES_H
#define COLLALGO_FRAMES_H

#include <Python.h>

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1 /* 3.11 has no other way to its frames but to make objects of them */
#endif
#include "internal/pycore_frame.h"
#elif PY_VERSION_HEX < 0x030B0000
#include <frameobject.h>
#endif

/* The instruction that a frame is at, as PyCode_Addr2Line takes it. */
static inline int instruction_of(PyFrameObject *frame)
{
#if PY_VERSION_HEX >= 0x030B0000
    return PyFrame_GetLasti(frame);
#else
    return 2 * frame->f_lasti;
#endif
}

#if PY_VERSION_HEX >= 0x030B0000
/* The running frame, or NULL. */
static inline struct _PyInterpreterFrame *running_frame(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_Get()->current_frame;
#else
    return PyThreadState_Get()->cframe->current_frame;
#endif
}
#endif

/* The executable of the running frame, a new reference, and its instruction; or NULL. */
static inline PyObject *running_executable(int *instruction)
{
#if PY_VERSION_HEX >= 0x030C0000
    struct _PyInterpreterFrame *frame = running_frame();
    if (!frame) return NULL;
    *instruction = PyUnstable_InterpreterFrame_GetLasti(frame);
    return PyUnstable_InterpreterFrame_GetCode(frame);
#elif PY_VERSION_HEX >= 0x030B0000
    struct _PyInterpreterFrame *frame = running_frame();
    if (!frame) return NULL;
    *instruction = _PyInterpreterFrame_LASTI(frame) * (int)sizeof(_Py_CODEUNIT);
    return Py_NewRef(frame->f_code);
#else
    PyFrameObject *frame = PyEval_GetFrame();
    if (!frame) return NULL;
    *instruction = instruction_of(frame);
    return (PyObject *)PyFrame_GetCode(frame);
#endif
}

/* The running code, a new reference, and its instruction; or NULL. To make an object of its
 * frame would take a fifth of the time of a short call. */
static inline PyObject *running_code(int *instruction)
{
    PyObject *code = running_executable(instruction);
    if (!code || PyCode_Check(code)) return code;
    Py_DECREF(code);
    return NULL;
}

/* An argument of the running function by its place, borrowed; NULL if it is not shown. */
static inline PyObject *running_argument(int place)
{
#if PY_VERSION_HEX >= 0x030C0000
    (void)place; /* frames are opaque */
    return NULL;
#elif PY_VERSION_HEX >= 0x030B0000
    return running_frame()->localsplus[place];
#else
    return PyEval_GetFrame()->f_localsplus[place];
#endif
}

/* Whether code lies in a file that is not the user's. */
typedef int (*code_test)(PyObject *code);

/* The innermost code of the user, or else the outermost one, as running_code() gives it. */
static inline PyObject *code_of_user(code_test is_inside, int *instruction)
{
    PyObject *code = running_code(instruction);
    if (!code || !is_inside(code)) return code;
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
    struct _PyInterpreterFrame *frame = running_frame();
    while (frame->previous && is_inside((PyObject *)frame->f_code)) frame = frame->previous;
    Py_SETREF(code, Py_NewRef(frame->f_code));
    *instruction = _PyInterpreterFrame_LASTI(frame) * (int)sizeof(_Py_CODEUNIT);
#else
    PyFrameObject *frame = PyEval_GetFrame(), *outer;
    Py_XINCREF(frame);
    while (frame && is_inside(code) && (outer = PyFrame_GetBack(frame))) {
        Py_SETREF(frame, outer);
        Py_SETREF(code, (PyObject *)PyFrame_GetCode(frame));
        *instruction = instruction_of(frame);
    }
    Py_XDECREF(frame);
#endif
    return code;
}

#endif
