/* Element-wise reductions of n arrays for one of many threads, device or not. */
#ifndef COLLALGO_REDUCE_CUH
#define COLLALGO_REDUCE_CUH

#include "ops.cuh"

namespace collalgo {

/* The most arrays that are reduced at once. */
constexpr int MOST = 64;

/* The arrays to be reduced, in their order; the result may be one of them. */
struct Inputs {
    const void *array[MOST];
};

template <class T, int WIDTH>
struct alignas(sizeof(T) * WIDTH) Vector {
    T element[WIDTH];
};

template <class T, int WIDTH>
EVERYWHERE Vector<T, WIDTH> vector_of(const void *array, int64 at) {
    return *reinterpret_cast<const Vector<T, WIDTH> *>(static_cast<const T *>(array) + at);
}

/* Elements in the type in which they are computed. */
template <class T, int WIDTH>
struct Total {
    typename Wide<T>::type element[WIDTH];

    EVERYWHERE explicit Total(const Vector<T, WIDTH> &first) {
#pragma unroll
        for (int i = 0; i < WIDTH; i++) element[i] = Wide<T>::load(first.element[i]);
    }

    template <class Op>
    EVERYWHERE void combine(const Vector<T, WIDTH> &next) {
#pragma unroll
        for (int i = 0; i < WIDTH; i++)
            element[i] = Op::of(element[i], Wide<T>::load(next.element[i]));
    }

    EVERYWHERE void divide(int64 divisor) {
#pragma unroll
        for (int i = 0; i < WIDTH; i++) element[i] = divided(element[i], divisor);
    }

    /* Small floats are rounded only here. */
    EVERYWHERE Vector<T, WIDTH> result() const {
        Vector<T, WIDTH> rounded;
#pragma unroll
        for (int i = 0; i < WIDTH; i++) rounded.element[i] = Wide<T>::store(element[i]);
        return rounded;
    }
};

/* WIDTH elements of N arrays, or of n if N is 0, from the same place on. */
template <class T, class Op, int N, int WIDTH>
EVERYWHERE Total<T, WIDTH> combined(const Inputs &inputs, int n, int64 at) {
    using Part = Vector<T, WIDTH>;
    const void *const *array = inputs.array;
    Total<T, WIDTH> total(vector_of<T, WIDTH>(array[0], at));
    if (N == 2) {
        total.template combine<Op>(vector_of<T, WIDTH>(array[1], at));
        return total;
    }
    int k = 1;
#pragma unroll 1
    for (; k + 3 <= n; k += 3) {  /* loads that are issued at once share one latency */
        Part a = vector_of<T, WIDTH>(array[k], at), b = vector_of<T, WIDTH>(array[k + 1], at);
        Part c = vector_of<T, WIDTH>(array[k + 2], at);
        total.template combine<Op>(a);
        total.template combine<Op>(b);
        total.template combine<Op>(c);
    }
#pragma unroll 1
    for (; k < n; k++) total.template combine<Op>(vector_of<T, WIDTH>(array[k], at));
    return total;
}

/* Elements of arrays, combined. */
template <class T, class Op, int N>
struct Combined {
    const Inputs &inputs;
    int n;

    template <int WIDTH>
    EVERYWHERE Vector<T, WIDTH> from(int64 at) const {
        return combined<T, Op, N, WIDTH>(inputs, n, at).result();
    }
};

/* The means of elements; a separate function, as a test for each element would serialise
 * the loads. */
template <class T>
struct Averaged {
    const Inputs &inputs;
    int n;
    int64 divisor;

    template <int WIDTH>
    EVERYWHERE Vector<T, WIDTH> from(int64 at) const {
        Total<T, WIDTH> total = combined<T, Sum, 0, WIDTH>(inputs, n, at);
        total.divide(divisor);
        return total.result();
    }
};

/* Whether the result of an op may be divided. */
template <class Op> constexpr bool MEANS = false;
template <> constexpr bool MEANS<Sum> = true;

/* Elements of one array as they are. */
template <class T>
struct Copied {
    const void *array;

    template <int WIDTH>
    EVERYWHERE Vector<T, WIDTH> from(int64 at) const {
        return vector_of<T, WIDTH>(array, at);
    }
};

/* The part of one thread: one vector in every `threads`, and its share of the elements
 * before the first whole vector of the result and after the last. All arrays have the same
 * offset from a whole vector, unless the vectors are single elements. */
template <int WIDTH, class T, class Source>
EVERYWHERE void write(T *result, const Source &source, int64 count, int64 thread,
                      int64 threads) {
    using Part = Vector<T, WIDTH>;
    constexpr uint64 BYTES = sizeof(Part);
    uint64 past = reinterpret_cast<uint64>(result) % BYTES;
    int64 head = past ? static_cast<int64>((BYTES - past) / sizeof(T)) : 0;
    if (head > count) head = count;
    int64 vectors = (count - head) / WIDTH, tail = head + vectors * WIDTH;
#pragma unroll 1
    for (int64 i = thread; i < vectors; i += threads) {
        int64 at = head + i * WIDTH;
        *reinterpret_cast<Part *>(result + at) = source.template from<WIDTH>(at);
    }
#pragma unroll 1
    for (int64 i = thread; i < head + count - tail; i += threads) {
        int64 at = i < head ? i : tail + i - head;
        result[at] = source.template from<1>(at).element[0];
    }
}

template <class T, class Op, int N, int WIDTH>
EVERYWHERE void reduce(T *result, const Inputs &inputs, int n, int64 count, int64 divisor,
                       int64 thread, int64 threads) {
    if constexpr (MEANS<Op>)
        if (divisor) {
            Averaged<T> means{inputs, n, divisor};
            return write<WIDTH>(result, means, count, thread, threads);
        }
    write<WIDTH>(result, Combined<T, Op, N>{inputs, n}, count, thread, threads);
}

}  // namespace collalgo

#endif
