# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""Run plans: the rows of :mod:`collalgo.plan`, without the GIL.

All transfers of a step progress side by side, segment by segment, in the order of the
buffer. A segment is received only once the posts of the same step have read what it
overwrites. Every message goes through the buffer in ascending order, so that a chain
of ranks waiting for each other's segments descends in the buffer: it cannot close.

A plan runs in waves: all its steps on the first part of every piece, then on the next.
So what a step leaves is still in the caches when the next step reads it, and neither the
memory that the ranks share nor the scratch of a rank need hold more than a wave.
"""

cimport cython
cimport numpy as cnp
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset, strncpy

import numpy as np

from collalgo._kernels.reduce cimport Reduction
from collalgo._kernels.transport cimport (
    CACHE_LINE, CLOSED, FORKED, GO_ON, NAME_BYTES, SIGNALS, STOP, Transport,
    as_dict, copy_bytes, step_log, step_time, stream_bytes,
)

cnp.import_array()

cdef extern from "ticks.h" nogil:
    int64_t ticks()

cdef extern from "Python.h" nogil:
    PyThreadState *PyEval_SaveThread()
    void PyEval_RestoreThread(PyThreadState *thread)
    int check_signals "PyErr_CheckSignals"()  # which leaves its exception behind

#: What became of a run: done, or failed for every rank, or not even begun.
RUN_DONE, RUN_FAILED, RUN_CLOSED, RUN_FORKED = GO_ON, STOP, CLOSED, FORKED
RUN_BUSY, RUN_NEEDS_PACKING, RUN_NEEDS_SCRATCH = -1, -2, -3

cdef enum:
    INTERRUPTED = -100  # by a signal, whose exception is set; what `run` then gives
    NOTHING = -1  # what a receive gives that can do nothing now
    IN_PIECES = -1  # instead of the length of a message that is one piece
    BYTES = 1     # the columns of a piece: its bytes and its source
    SOURCE = 2
    INPUT = 0
    SCRATCH = 2  # which all waves share

cdef void *address(cnp.ndarray array) except? NULL:
    if array.dtype != np.int64 or not cnp.PyArray_IS_C_CONTIGUOUS(array):
        raise TypeError("the arrays of a plan are contiguous and of int64")
    return cnp.PyArray_DATA(array)


@cython.final
cdef class Program:
    """A plan of one rank, bound to a reduction and to what the ranks compare.

    Parameters
    ----------
    plan : collalgo.plan.Plan
        The rows.
    reduction : Reduction or None
        The kernel, for collectives that reduce.
    divisor : int
        What complete sums are divided by; 0 for not at all.
    record : tuple
        Fingerprint, collective, dtype, op, root, count, and the name of the algorithm.
    fetched : bool
        Whether it pays to read what is only copied from the memory of its process.
    streamed : bool
        Whether results that are not read again had better go past the caches.
    """
    def __init__(
        self, plan, Reduction reduction, int64_t divisor, tuple record,
        bint fetched=False, bint streamed=False
    ):
        self.plan = plan
        self.streamed = streamed
        self.fetched = fetched
        self.waves = plan.waves
        self.brief = plan.waves == 1 and plan.pieces[:, BYTES].sum() <= BRIEF_BYTES
        self.reads = bool((plan.pieces[:, SOURCE] == INPUT).any() or len(plan.copies))
        self.reduction = reduction
        self.divisor = divisor
        self.scratch_bytes = plan.scratch_bytes
        self.steps_end = len(plan.steps)
        self.copies_end = len(plan.copies)
        self.divisions_end = len(plan.divisions)
        self.channels_end = len(plan.channels)
        self.steps = <const step_row *>address(plan.steps)
        self.messages = <const message_row *>address(plan.messages)
        self.pieces = <const piece_row *>address(plan.pieces)
        self.copies = <const piece_row *>address(plan.copies)
        self.divisions = <const piece_row *>address(plan.divisions)
        self.channels = <const int64_t *>address(plan.channels)
        self.hazards = <const int64_t *>address(plan.hazards)
        lengths = np.array([
            plan.pieces[first:end, BYTES].sum()
            for first, end in plan.messages[:, :2].tolist()
        ], np.int64)
        one_piece = (plan.messages[:, 1] - plan.messages[:, 0] == 1) & (plan.waves == 1)
        self.states = (
            np.zeros((len(plan.messages), 3), np.int64),
            np.zeros((len(plan.channels), 3), np.int64),
            np.zeros(len(plan.channels) + 1, np.int64),
            plan.lendable.astype(np.int64),
            np.where(one_piece, lengths, IN_PIECES),
            np.stack([plan.messages[:, 0], np.zeros_like(lengths), lengths], axis=1),
        )
        self.progress = <message_state *>address(self.states[0])
        self.segments = <segment_state *>address(self.states[1])
        self.inputs = <const void **>address(self.states[2])
        self.lendable = <const int64_t *>address(self.states[3])
        self.whole = <const int64_t *>address(self.states[4])
        self.begins = <const message_state *>address(self.states[5])
        (
            self.record.fingerprint, self.record.collective, self.record.dtype,
            self.record.op, self.record.root, self.record.count, name
        ) = record
        strncpy(self.record.algorithm, <bytes>name.encode(), NAME_BYTES - 1)

    cpdef int run(
        self, Transport transport, cnp.ndarray source, cnp.ndarray target,
        cnp.ndarray scratch, double timeout
    ) except -100:
        """Run the plan once; a negative timeout means to wait for ever.

        The GIL is released, but for a run of few bytes only when it has to wait: to
        release it and take it again takes as long as to send a message.

        Returns
        -------
        int
            One of the RUN_ values.
        """
        cdef int status
        if transport.busy:
            return RUN_BUSY
        status = self.bind(&self.arrays, source, target, scratch)
        if status != GO_ON:
            return status
        if self.steps_end == 0 and transport.size == 1:
            status = transport.enter(&self.record, timeout)
            if status == GO_ON:
                self.wave = 0
                self.finish()
            return status
        transport.busy = True
        self.has_gil = True
        if not self.brief:
            self.release_gil()
        status = self.execute(transport, timeout)
        if not self.has_gil:
            PyEval_RestoreThread(self.thread)
            self.has_gil = True
        transport.busy = False
        return status

    cdef int bind(
        self, array_bounds *arrays, cnp.ndarray source, cnp.ndarray target,
        cnp.ndarray scratch
    ) except -100:
        """Find where the arrays of a call are: RUN_DONE, or why it cannot run so."""
        if cnp.PyArray_NBYTES(scratch) < self.scratch_bytes:
            return RUN_NEEDS_SCRATCH
        arrays.base[0] = arrays.base[1] = NULL
        arrays.base[2] = cnp.PyArray_BYTES(scratch)
        if source is not None:
            if not cnp.PyArray_CHKFLAGS(source, cnp.NPY_ARRAY_CARRAY_RO):
                return RUN_NEEDS_PACKING
            arrays.base[0] = cnp.PyArray_BYTES(source)
        if target is not None:
            if not cnp.PyArray_CHKFLAGS(target, cnp.NPY_ARRAY_CARRAY):
                return RUN_NEEDS_PACKING
            arrays.base[1] = cnp.PyArray_BYTES(target)
        arrays.apart = not self.reads or arrays.base[0] != arrays.base[1]
        return GO_ON

    cdef int run_without_gil(
        self, Transport transport, const array_bounds *arrays, double timeout
    ) noexcept nogil:
        """Run the plan once on arrays that were bound before."""
        cdef int status
        self.arrays = arrays[0]
        self.has_gil = False
        transport.busy = True
        status = self.execute(transport, timeout)
        transport.busy = False
        return status

    cdef void release_gil(self) noexcept nogil:
        self.has_gil = False
        self.thread = PyEval_SaveThread()

    def repeat(self, Transport transport, int64_t times):
        """Run a plan without buffers many times, as for measuring the transport."""
        cdef int64_t _i
        for piece in self.plan.pieces:
            if piece[BYTES]:
                raise ValueError("only a plan that moves no bytes can be repeated")
        self.release_gil()
        for _i in range(times):
            if self.execute(transport, -1) != GO_ON:
                break
        PyEval_RestoreThread(self.thread)

    cdef int execute(self, Transport transport, double timeout) noexcept nogil:
        cdef int status = transport.enter(&self.record, timeout)
        if status == GO_ON:
            status = self.run_waves(transport)
            if status == GO_ON:
                status = self.settle(transport)
            if status == GO_ON:
                transport.leave()
            else:
                self.forget_segments()
        return status

    cdef int run_waves(self, Transport transport) noexcept nogil:
        cdef int64_t step
        cdef int status = GO_ON
        self.world = transport.size
        for self.wave in range(self.waves):
            for step in range(self.steps_end):
                self.step = step
                if transport.log == NULL:
                    status = self.run_step(transport, &self.steps[step])
                else:
                    status = self.run_logged(transport, transport.log)
                if status != GO_ON:
                    return status
            self.finish()
        return GO_ON

    cdef void forget_segments(self) noexcept nogil:
        """Forget what has come and was not consumed: the call has failed."""
        memset(self.segments, 0, self.channels_end * sizeof(segment_state))

    def call(self):
        """What the ranks compare of a call, by numbers, and the algorithm."""
        found = as_dict(&self.record)
        del found["sequence"]  # which each call has of its own
        return found

    def whereabouts(self):
        """The step that a running program is in, and the ranks that it waits for."""
        cdef int64_t step = self.step, m, c
        peers = set()
        if step < self.steps_end:
            for m in range(self.steps[step].first_post, self.steps[step].end):
                if self.progress[m].piece < self.messages[m].end_piece:
                    for c in range(
                        self.messages[m].first_channel, self.messages[m].end_channel
                    ):
                        peers.add(self.channels[c] % max(self.world, 1))
        return {"step": step, "peers": sorted(peers)}

    cdef int settle(self, Transport transport) noexcept nogil:
        """Wait until nobody needs me any more to read what I have sent."""
        cdef int64_t idle = 0
        cdef int status = GO_ON
        while status == GO_ON and transport.is_needed():
            status = self.pause(transport, &idle)
        if idle:
            transport.resume()
        return status

    cdef int pause(self, Transport transport, int64_t *idle) noexcept nogil:
        """Wait a little: GO_ON, STOP or INTERRUPTED."""
        if self.has_gil and idle[0] >= transport.patience:
            self.release_gil()
        cdef int status = transport.pause(idle)
        if status == SIGNALS:
            with gil:
                status = INTERRUPTED if check_signals() else GO_ON
        return status

    cdef int run_step(self, Transport transport, const step_row *step) noexcept nogil:
        cdef int64_t unfinished = self.begin(transport, step), idle = 0, m
        cdef bint moved
        cdef int status
        while unfinished:
            moved = False
            for m in range(step.first_post, step.first_receive):
                if self.progress[m].piece < self.messages[m].end_piece:
                    if self.push(transport, m, m - step.first_post):
                        moved = True
                        if self.progress[m].piece == self.messages[m].end_piece:
                            unfinished -= 1
            for m in range(step.first_receive, step.end):
                if self.progress[m].piece < self.messages[m].end_piece:
                    status = self.pull(transport, m)
                    if status == STOP:
                        return STOP
                    if status == GO_ON:
                        moved = True
                        if self.progress[m].piece == self.messages[m].end_piece:
                            unfinished -= 1
            if moved:
                if idle:
                    transport.resume()
                    idle = 0
                continue
            status = self.pause(transport, &idle)
            if status != GO_ON:
                return status
        return GO_ON

    cdef int run_logged(self, Transport transport, step_log *log) noexcept nogil:
        """Run the step that it is at, and note when it began and ended."""
        cdef int64_t begun = ticks()
        cdef int status = self.run_step(transport, &self.steps[self.step])
        cdef step_time *note
        if log.count < log.capacity:
            note = &log.steps[log.count]
            note.call, note.wave, note.step = log.call, self.wave, self.step
            note.begun, note.ended = begun, ticks()
        log.count += 1
        return status

    cdef int64_t begin(self, Transport transport, const step_row *step) noexcept nogil:
        """Begin a step of this wave: the number of messages that it has."""
        cdef int64_t m, first = step.first_post, begun = step.end - first
        transport.begin_step(step.first_receive - first, self.waves == 1)
        if self.waves == 1:
            memcpy(
                &self.progress[first], &self.begins[first],
                begun * sizeof(message_state),
            )
            return begun
        for m in range(first, step.end):
            self.skip_to(m, self.messages[m].first_piece)
            self.progress[m].left = self.length_in_wave(m)
            if self.progress[m].piece == self.messages[m].end_piece:
                begun -= 1
        return begun

    cdef int64_t length_in_wave(self, int64_t m) noexcept nogil:
        """How many bytes of a message belong to this wave."""
        cdef int64_t p, nbytes = 0
        for p in range(self.messages[m].first_piece, self.messages[m].end_piece):
            nbytes += self.bytes_until(&self.pieces[p], self.wave + 1)
            nbytes -= self.bytes_until(&self.pieces[p], self.wave)
        return nbytes

    cdef int64_t bytes_until(self, const piece_row *piece, int64_t wave) noexcept nogil:
        """How many bytes of a piece belong to the waves before this one."""
        if wave == 0:
            return 0
        if wave == self.waves:
            return piece.nbytes
        cdef int64_t lines = (piece.nbytes + CACHE_LINE - 1) // CACHE_LINE
        return lines * wave // self.waves * CACHE_LINE

    cdef char *source_of(self, const piece_row *piece, int64_t done) noexcept nogil:
        """Where a piece is to be read, when so many of its bytes are done."""
        return self.place(piece, piece.source, piece.source_offset) + done

    cdef char *target_of(self, const piece_row *piece, int64_t done) noexcept nogil:
        """Where a piece is to be written, when so many of its bytes are done."""
        return self.place(piece, piece.target, piece.target_offset) + done

    cdef char *place(
        self, const piece_row *piece, int64_t array, int64_t offset
    ) noexcept nogil:
        """Where a piece would begin, were the part of this wave where it is."""
        if array == SCRATCH:
            offset -= self.bytes_until(piece, self.wave)
        return self.arrays.base[array] + offset

    cdef void skip_to(self, int64_t m, int64_t piece) noexcept nogil:
        """Let a message go on at a piece, or at the first after it with any bytes."""
        cdef message_state *state = &self.progress[m]
        if self.waves == 1:
            state.piece, state.done = piece, 0
            return
        while piece < self.messages[m].end_piece:
            state.done = self.bytes_until(&self.pieces[piece], self.wave)
            if state.done < self.bytes_until(&self.pieces[piece], self.wave + 1):
                break
            if self.pieces[piece].nbytes == 0:
                break
            piece += 1
        state.piece = piece

    cdef bint lend(self, Transport transport, int64_t m, int64_t post) noexcept nogil:
        """Let the next piece of a post be read where it is; whether that is possible."""
        cdef const message_row *message = &self.messages[m]
        cdef message_state *state = &self.progress[m]
        cdef const piece_row *piece = &self.pieces[state.piece]
        cdef int64_t nbytes = self.bytes_until(piece, self.wave + 1) - state.done
        if nbytes < LEND_BYTES or not transport.lend(
            post, &self.channels[message.first_channel],
            message.end_channel - message.first_channel,
            self.source_of(piece, state.done), nbytes, self.fetched,
        ):
            return False
        self.advance(m, nbytes)
        return True

    cdef bint push(self, Transport transport, int64_t m, int64_t post) noexcept nogil:
        """Send the next segment of a post; whether that was possible."""
        cdef const message_row *message = &self.messages[m]
        cdef const int64_t *channels = &self.channels[message.first_channel]
        cdef int64_t readers = message.end_channel - message.first_channel
        cdef message_state *state = &self.progress[m]
        cdef const piece_row *piece
        cdef int64_t room, filled = 0, nbytes
        if state.left >= LEND_BYTES and (
            self.lendable[m] == ALWAYS or self.lendable[m] == APART and self.arrays.apart
        ):
            if self.lend(transport, m, post):
                return True
        if 0 <= self.whole[m] <= transport.whole:
            piece = &self.pieces[state.piece]
            if transport.post(
                channels, readers, self.source_of(piece, 0), piece.nbytes
            ):
                state.piece += 1
                return True
        cdef char *slot = transport.reserve(post, channels, readers, state.left, &room)
        if slot == NULL:
            return False
        while True:
            piece = &self.pieces[state.piece]
            nbytes = min(room - filled, self.bytes_until(piece, self.wave + 1) - state.done)
            transport.fill(
                channels, slot + filled, self.source_of(piece, state.done), nbytes
            )
            filled += nbytes
            self.advance(m, nbytes)
            if filled == room:
                break
        transport.commit(post, channels, readers, room)
        return True

    cdef int pull(self, Transport transport, int64_t m) noexcept nogil:
        """Receive what has come from all peers of a receive: GO_ON, NOTHING or STOP."""
        cdef const message_row *message = &self.messages[m]
        cdef message_state *state = &self.progress[m]
        cdef const piece_row *piece = &self.pieces[state.piece]
        cdef const int64_t *channels = &self.channels[message.first_channel]
        cdef segment_state *segment = &self.segments[message.first_channel]
        cdef int64_t senders = message.end_channel - message.first_channel, i
        if not transport.peek(channels, senders, segment):
            return NOTHING
        cdef int64_t nbytes = self.bytes_until(piece, self.wave + 1) - state.done
        for i in range(senders):
            nbytes = min(nbytes, segment[i].left)
        if not self.may_overwrite(message, piece.offset + state.done + nbytes):
            return NOTHING
        cdef char *target = self.target_of(piece, state.done)
        if piece.action != COPY and piece.action != STORE:
            self.combine(message, piece, state.done, nbytes)
        elif not segment.remote:
            self.store(target, segment.data, nbytes, piece.action)
        elif transport.fetch(channels[0], target, segment.data, nbytes) != GO_ON:
            return STOP
        if nbytes == self.whole[m]:
            for i in range(senders):
                segment[i].data = NULL
            transport.release(channels, senders)
            state.piece += 1
        else:
            self.consume(transport, m, nbytes)
        return GO_ON

    cdef void consume(
        self, Transport transport, int64_t m, int64_t nbytes
    ) noexcept nogil:
        """Go on behind what has been received of a message, from each of its peers."""
        cdef const message_row *message = &self.messages[m]
        cdef segment_state *segment
        cdef int64_t c
        for c in range(message.first_channel, message.end_channel):
            segment = &self.segments[c]
            segment.data += nbytes
            segment.left -= nbytes
            if segment.left == 0:
                segment.data = NULL
                transport.release(&self.channels[c], 1)
        self.advance(m, nbytes)

    cdef void advance(self, int64_t m, int64_t nbytes) noexcept nogil:
        cdef message_state *state = &self.progress[m]
        state.done += nbytes
        state.left -= nbytes
        if state.done == self.bytes_until(&self.pieces[state.piece], self.wave + 1):
            self.skip_to(m, state.piece + 1)

    cdef bint may_overwrite(
        self, const message_row *message, int64_t end
    ) noexcept nogil:
        """Whether all posts that read from where I write have read up to ``end``."""
        cdef int64_t h, post
        cdef message_state *state
        for h in range(message.first_hazard, message.end_hazard):
            post = self.hazards[h]
            state = &self.progress[post]
            if state.piece < self.messages[post].end_piece:
                if self.pieces[state.piece].offset + state.done < end:
                    return False
        return True

    cdef void combine(
        self, const message_row *message, const piece_row *piece, int64_t done,
        int64_t nbytes
    ) noexcept nogil:
        """Reduce all inputs in the order of the ranks, my own value in its place."""
        cdef char *own = self.source_of(piece, done)
        cdef int64_t n = 0, c
        for c in range(message.first_channel, message.end_channel):
            if n == message.own_place:
                self.inputs[n] = own
                n += 1
            self.inputs[n] = self.segments[c].data
            n += 1
        if n == message.own_place:
            self.inputs[n] = own
            n += 1
        self.reduce(self.target_of(piece, done), n, nbytes, piece.action)

    cdef void reduce(
        self, void *target, int64_t n, int64_t nbytes, int64_t action
    ) noexcept nogil:
        self.reduction.function(
            target, self.inputs, n, nbytes // self.reduction.itemsize,
            self.divisor if action == REDUCE_AND_DIVIDE else 0, self.reduction.tables,
        )

    cdef void store(
        self, char *target, const char *source, int64_t nbytes, int64_t action
    ) noexcept nogil:
        # In place the caches hold the target already: it was the input.
        if action == STORE and self.streamed and self.arrays.apart:
            stream_bytes(target, source, nbytes)
        else:
            copy_bytes(target, source, nbytes)

    cdef void finish(self) noexcept nogil:
        """Copy what no message brought, and divide what came undivided."""
        cdef int64_t i, first, nbytes
        cdef const piece_row *piece
        cdef char *source
        cdef char *target
        for i in range(self.copies_end):
            piece = &self.copies[i]
            first = self.bytes_until(piece, self.wave)
            nbytes = self.bytes_until(piece, self.wave + 1) - first
            source = self.source_of(piece, first)
            target = self.target_of(piece, first)
            if source != target:
                self.store(target, source, nbytes, piece.action)
        for i in range(self.divisions_end):
            piece = &self.divisions[i]
            first = self.bytes_until(piece, self.wave)
            nbytes = self.bytes_until(piece, self.wave + 1) - first
            target = self.target_of(piece, first)
            self.inputs[0] = target
            self.reduce(target, 1, nbytes, REDUCE_AND_DIVIDE)
