/* What is used of DLPack: a class of tensors describes one of them by a C function. */
#ifndef COLLALGO_DLPACK_H
#define COLLALGO_DLPACK_H

#include <stdint.h>

#define DLPACK_MAJOR 1           /* the version of these structures */
#define DLPACK_HOST 1            /* the device of host memory */
#define DLPACK_BOOL 6            /* codes of elements that have one size only */
#define DLPACK_BFLOAT 4
#define DLPACK_FLOAT8 7 /* and the next codes */

typedef struct {
    void *data;
    int32_t device, device_number, axes;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; /* in elements; no strides if they are those of C */
    uint64_t offset;          /* in bytes */
} dlpack_tensor;

typedef struct {
    uint32_t major, minor;
    void *earlier, *allocate, *own, *import;
    int (*describe)(void *tensor, dlpack_tensor *found); /* or NULL; -1 and an exception */
    void *stream;
} dlpack_functions;

#endif
