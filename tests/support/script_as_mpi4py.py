"""A program of mpi4py: it gives the same under an MPI and under ``--as-mpi4py``."""

import sys

import numpy as np
from mpi4py import MPI
from mpi4py.util import pkl5

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
right, left = (rank + 1) % size, (rank - 1) % size


def messages():
    """Any source and tag, a shorter message, probes, and messages of all modes."""
    status, room = MPI.Status(), np.full(5, -1.0)
    for send in (comm.Send, comm.Ssend, comm.Rsend):
        request = comm.Irecv(room, MPI.ANY_SOURCE, MPI.ANY_TAG)
        comm.Barrier()
        send(np.full(3, rank, float), right, 7)
        request.Wait(status)
        assert (status.source, status.tag) == (left, 7)
        assert status.Get_count(MPI.DOUBLE) == 3
        assert room.tolist() == [left] * 3 + [-1.0] * 2
    sent = comm.isend({"from": rank}, right, 8)
    found = comm.mprobe(MPI.ANY_SOURCE, 8)
    assert not comm.iprobe(left, 8)
    assert found.recv() == {"from": left}
    sent.wait()
    assert comm.sendrecv(rank, MPI.PROC_NULL, source=MPI.PROC_NULL) is None


def refused_sends():
    """A receive beside a send that is refused does not take the next message."""
    lost, room = np.full(1, -1.0), np.zeros(1)
    ring = comm.Create_cart([size], periods=[True])
    for call in (
        lambda: comm.Sendrecv(room, size, recvbuf=lost, source=left),
        lambda: comm.Isendrecv(room, size, recvbuf=lost, source=left),
        lambda: comm.sendrecv(0, size, source=left),
        lambda: ring.neighbor_alltoall([0]),
    ):
        try:
            call()
        except (MPI.Exception, ValueError):
            pass
        else:
            raise AssertionError("a send to no rank was made")
    sent = comm.Isend(np.full(1, rank, float), right)
    comm.Recv(room, left)
    sent.Wait()
    assert (room[0], lost[0]) == (left, -1)
    assert ring.neighbor_allgather(rank) == [left, right]


def overtaken():
    """Messages are taken in the order of their tags, not of their arrival."""
    requests = [comm.Isend(np.array([tag]), right, tag) for tag in range(5)]
    for tag in (4, 0, 3, 1, 2):
        room = np.zeros(1, int)
        comm.Recv(room, left, tag)
        assert room[0] == tag
    MPI.Request.Waitall(requests)


def long_messages():
    """Both ranks wait for their own send, while receives are posted."""
    big, room = np.full(300_000, rank), np.empty(300_000, int)
    received = comm.Irecv(room, left, 1)
    comm.Send(big, right, 1)
    received.Wait()
    assert (room == left).all()
    received = comm.Irecv(room[:10], left, 2)
    comm.Send(big, right, 2)
    try:
        received.Wait()
    except MPI.Exception as error:
        assert error.Get_error_class() == MPI.ERR_TRUNCATE
    else:
        raise AssertionError("a message that is too long was taken")


def beside_a_collective():
    """A synchronous send ends while its receiver is in a collective."""
    room = np.zeros(1, int)
    request = comm.Irecv(room, left, 3)
    comm.Ssend(np.array([rank]), right, 3)
    comm.Barrier()
    request.Wait()
    assert room[0] == left


def counts_in_the_background():
    """A rank begins calls with counts before the others do, which wait for it."""
    counts = [place + 1 for place in range(size)]
    mine, sent = np.full(rank + 1, rank), np.arange(sum(counts))
    gathered, scattered = np.empty(sum(counts), int), np.empty(rank + 1, int)
    swapped = np.empty(size * (rank + 1), int)
    if rank:
        comm.recv(source=left, tag=4)  # after that rank has begun its calls
    requests = [
        comm.Igatherv(mine, [gathered, counts], root=size - 1),
        comm.Iscatterv([sent, counts], scattered, root=0),
        comm.Ialltoallv([sent, counts], [swapped, [rank + 1] * size]),
    ]
    comm.send(None, right, tag=4)
    if rank == 0:
        comm.recv(source=left, tag=4)
    MPI.Request.Waitall(requests)
    block = sent[sum(counts[:rank]) :][: rank + 1].tolist()
    assert scattered.tolist() == block
    assert swapped.tolist() == block * size
    assert rank < size - 1 or (gathered == np.repeat(range(size), counts)).all()


def datatypes():
    """Columns of a matrix are sent, broadcast and gathered."""
    column = MPI.DOUBLE.Create_vector(3, 1, 4).Commit()
    matrix = np.arange(12.0).reshape(3, 4) + 100 * rank
    room = np.zeros((3, 4))
    request = comm.Isend([matrix, 1, column], right)
    comm.Recv([room, 1, column], left)
    request.Wait()
    assert room[:, 0].tolist() == [100 * left + 4 * row for row in range(3)]
    assert not room[:, 1:].any()
    comm.Bcast([matrix, 1, column], root=size - 1)
    assert matrix[1].tolist() == [
        100 * (size - 1) + 4,
        *(100 * rank + k for k in (5, 6, 7)),
    ]
    rows = np.zeros((size, 3))
    comm.Gather([matrix, 1, column], rows if rank == 0 else None)
    if rank == 0:
        assert (rows == 100 * (size - 1) + np.array([0, 4, 8])).all()


def collectives():
    """In place, with blocks of any lengths, in the background, and again and again."""
    x = np.array([1 + rank, -rank])
    comm.Allreduce(MPI.IN_PLACE, x)
    assert x.tolist() == [size * (size + 1) // 2, -size * (size - 1) // 2]
    counts = [r + 1 for r in range(size)]
    room = np.zeros(sum(counts), "i")
    request = comm.Iallgatherv(np.full(rank + 1, rank, "i"), [room, counts])
    request.Wait()
    assert room.tolist() == [r for r in range(size) for _ in range(r + 1)]
    total = np.zeros(1)
    again = comm.Allreduce_init(one := np.ones(1), total)
    for factor in (1, 2):
        one[0] = factor
        again.Start()
        again.Wait()
        assert total[0] == factor * size
    again.Free()
    dtype = np.dtype([("value", "f8"), ("index", "i4")], align=True)
    mine, best = np.array([(-rank, rank)], dtype), np.zeros(1, dtype)
    comm.Allreduce([mine, 1, MPI.DOUBLE_INT], [best, 1, MPI.DOUBLE_INT], MPI.MINLOC)
    assert best["index"][0] == size - 1


def operations():
    """An operation of the program that does not commute keeps the order of ranks."""

    def digits(a, b, _datatype):
        left, right = np.frombuffer(a, "i8"), np.frombuffer(b, "i8")
        right[...] = left * 10 + right

    if rank == 0:  # ranks may make different operations
        MPI.Op.Create(digits)
    op = MPI.Op.Create(digits, commute=False)
    found = np.zeros(1, "i8")
    comm.Allreduce(np.array([rank + 1], "i8"), found, op)
    assert found[0] == int("".join(str(r + 1) for r in range(size)))
    op.Free()
    assert comm.allreduce([rank]) == list(range(size))
    assert comm.exscan(1) == (rank or None)


def objects():
    """Objects that fit into a record, and others, of different lengths."""
    assert comm.alltoall(np.arange(size)) == [rank] * size
    assert comm.scatter(np.arange(size) if rank == 0 else None) == rank
    for length in (0, 200, 250, 5000):
        things = ["x" * (length + each) for each in range(size)]
        for root in range(size):
            assert (
                comm.bcast(things[root] if rank == root else None, root) == things[root]
            )
            found = comm.gather(things[rank], root)
            assert found == (things if rank == root else None)
            part = comm.scatter(things if rank == root else None, root)
            assert part == things[rank]
        assert comm.allgather(things[rank]) == things
        assert comm.alltoall(things) == [things[rank]] * size


def communicators():
    """Parts have messages and collectives of their own."""
    half = comm.Split(rank % 2, -rank)
    members = half.allgather(rank)
    assert members == sorted(
        (r for r in range(size) if r % 2 == rank % 2), reverse=True
    )
    copy = comm.Dup()
    mine, other = comm.isend("first", right), copy.isend("second", right)
    assert copy.recv(source=left) == "second"
    assert comm.recv(source=left) == "first"
    MPI.Request.waitall([mine, other])
    group = comm.Get_group().Incl([0])
    if rank == 0:
        assert comm.Create_group(group).Get_size() == 1
    half.Free()
    copy.Free()
    ring = comm.Create_cart([size], periods=[True])
    assert ring.Shift(0, 1) == (left, right)
    assert ring.neighbor_alltoall(["down", "up"]) == ["up", "down"]


def groups_with_a_peer():
    """Calls of pkl5 on the peer go on after its leaders have made an intercomm."""
    half = comm.Split(rank % 2, rank)
    between = half.Create_intercomm(0, comm, 1 - rank % 2)
    assert between.Get_remote_size() == size - half.Get_size()
    assert pkl5.Intracomm(comm).gather(rank) == (None if rank else [*range(size)])
    between.Free()


for check in (
    messages,
    refused_sends,
    overtaken,
    long_messages,
    beside_a_collective,
    counts_in_the_background,
    datatypes,
    collectives,
    operations,
    objects,
    communicators,
    groups_with_a_peer,
):
    check()
sys.stdout.write(f"right {rank} of {size};\n")
