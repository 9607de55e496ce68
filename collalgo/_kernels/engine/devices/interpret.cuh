/* A whole plan run by one kernel: the rows of a rank, one after the other, by all threads.
 *
 * A team of threads differs between a device and a host; its type is a parameter with:
 *
 *   thread, threads    the number of the thread in the team, and the size of the team
 *   lane, lanes        the same for its block
 *   sync()             wait for the other threads of the block
 *   all_here(row)      true in one thread, after the writes of all threads
 *   meet(row)          wait for all threads
 *   wait(flag, n)      wait until a flag that another rank sets has at least the value n
 *   release()          order earlier writes before the next flag that is set
 *   set(flag, n)       set a flag
 */
#ifndef COLLALGO_INTERPRET_CUH
#define COLLALGO_INTERPRET_CUH

#include "reduce.cuh"

namespace collalgo {

/* The memory that a kernel can address: some buffers of each rank. */
constexpr int BUFFERS = 480;

struct Buffers {
    char *begin[BUFFERS];
};

struct Place {
    int64 buffer, at;
};

enum Kind : int64 { WAIT, SIGNAL, CLEAR, COMBINE };

/* An operation of devices/operations.py. */
struct Row {
    int64 kind;
    Place place;          /* of the flag, or of the result */
    int64 number;         /* of the flag, or of the bytes of the result */
    int64 first, sources; /* which of the places are read, and how many; of flags, how many
                             rows of the same kind there are from here on */
    int64 divisor;        /* 0 for none */
    int64 meets;          /* whether this depends on earlier rows of other blocks */
};

template <class T, class Source, class Team>
EVERYWHERE void write_all(T *result, const Source &source, int64 count, bool alike,
                          const Team &team) {
    constexpr int WIDTH = sizeof(T) < 16 ? 16 / sizeof(T) : 1;
    if (alike)
        write<WIDTH>(result, source, count, team.thread, team.threads);
    else
        write<1>(result, source, count, team.thread, team.threads);
}

/* Find the inputs of a row, for the threads of a block. */
template <class Team>
EVERYWHERE void find_inputs(const Row &row, const Place *places, const Buffers &buffers,
                            Inputs &inputs, const Team &team) {
    for (int64 k = team.lane; k < row.sources; k += team.lanes) {
        const Place &place = places[row.first + k];
        inputs.array[k] = buffers.begin[place.buffer] + place.at;
    }
    team.sync();
}

/* Whether some inputs and the result lie alike between multiples of 16 bytes. */
EVERYWHERE bool lie_alike(const Inputs &inputs, int n, const char *target) {
    bool alike = true;
    for (int k = 0; k < n; k++)
        alike &= reinterpret_cast<uint64>(inputs.array[k]) % 16 ==
                 reinterpret_cast<uint64>(target) % 16;
    return alike;
}

template <class T, class Op, class Team>
EVERYWHERE void combine(const Row &row, const Place *places, const Buffers &buffers,
                        Inputs &inputs, const Team &team) {
    find_inputs(row, places, buffers, inputs, team);
    char *target = buffers.begin[row.place.buffer] + row.place.at;
    T *result = reinterpret_cast<T *>(target);
    int n = static_cast<int>(row.sources);
    bool alike = lie_alike(inputs, n, target);
    int64 count = row.number / static_cast<int64>(sizeof(T));
    if constexpr (MEANS<Op>)
        if (row.divisor) {
            write_all(result, Averaged<T>{inputs, n, row.divisor}, count, alike, team);
            return;
        }
    if (n == 1) {
        if (target != inputs.array[0])
            write_all(result, Copied<T>{inputs.array[0]}, count, alike, team);
    } else if (n == 2) {
        write_all(result, Combined<T, Op, 2>{inputs, n}, count, alike, team);
    } else {
        write_all(result, Combined<T, Op, 0>{inputs, n}, count, alike, team);
    }
}

EVERYWHERE unsigned *flag_of(const Row &row, const Buffers &buffers) {
    return reinterpret_cast<unsigned *>(buffers.begin[row.place.buffer] + row.place.at);
}

/* The value to which a flag is set, or for which a rank waits. */
EVERYWHERE unsigned number_of(const Row &row) { return static_cast<unsigned>(row.number); }

/* Wait for the flags of some rows. */
template <class Team>
EVERYWHERE void wait_for_flags(const Row *rows, int n, const Buffers &buffers,
                               const Team &team) {
    for (int64 k = team.lane; k < n; k += team.lanes)
        team.wait(flag_of(rows[k], buffers), number_of(rows[k]));
    team.sync();
}

/* Set the flags of some rows. */
template <class Team>
EVERYWHERE void set_flags(const Row *rows, int n, const Buffers &buffers,
                          const Team &team) {
    team.release();
    for (int k = 0; k < n; k++)
        team.set(flag_of(rows[k], buffers), number_of(rows[k]));
}

/* The inputs are shared by the threads of a block. */
template <class T, class Op, class Team>
EVERYWHERE void interpret(const Row *rows, int n, const Place *places,
                          const Buffers &buffers, Inputs &inputs, const Team &team) {
    for (int i = 0; i < n;) {
        const Row &row = rows[i];
        int alike = row.kind == COMBINE ? 1 : static_cast<int>(row.sources);
        if (row.kind == COMBINE) {
            if (row.meets) team.meet(i);
            else team.sync();
            combine<T, Op>(row, places, buffers, inputs, team);
        } else if (row.kind == WAIT) {
            wait_for_flags(&rows[i], alike, buffers, team);
        } else if (team.all_here(i)) {
            set_flags(&rows[i], alike, buffers, team);
        }
        i += alike;
    }
}

}  // namespace collalgo

#endif
