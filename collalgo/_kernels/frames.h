/* Where the interpreter is. */
#ifndef COLLALGO_FRAMES_H
#define COLLALGO_FRAMES_H

#include <Python.h>

/* The instruction that a frame is at, as PyCode_Addr2Line takes it. */
static inline int instruction_of(PyFrameObject *frame)
{
#if PY_VERSION_HEX >= 0x030B0000
    return PyFrame_GetLasti(frame);
#else
    return 2 * frame->f_lasti;
#endif
}

#endif
