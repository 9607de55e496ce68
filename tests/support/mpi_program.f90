! A program of MPI in Fortran that checks six collectives, many times each.
program checks
  use mpi
  implicit none
  integer :: rank, size, error, round, i
  integer, allocatable :: rows(:), blocks(:), counts(:)
  integer :: whole(1000), own
  double precision :: sums(700)
  real :: most
  complex :: z

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, size, error)
  allocate(rows(3 * size), blocks(size), counts(size))
  do round = 1, 20
    sums = rank + round
    call MPI_Allreduce(MPI_IN_PLACE, sums, 700, MPI_DOUBLE_PRECISION, MPI_SUM, &
                       MPI_COMM_WORLD, error)
    call check(all(sums == size * round + size * (size - 1) / 2), "allreduce in place")
    call MPI_Allreduce(real(rank), most, 1, MPI_REAL, MPI_MAX, MPI_COMM_WORLD, error)
    call check(most == size - 1, "allreduce")
    call MPI_Allreduce(cmplx(rank, 1), z, 1, MPI_COMPLEX, MPI_SUM, MPI_COMM_WORLD, error)
    call check(aimag(z) == size, "allreduce of a complex number")
    whole = merge(round, -1, rank == size - 1)
    call MPI_Bcast(whole, 1000, MPI_INTEGER, size - 1, MPI_COMM_WORLD, error)
    call check(all(whole == round), "broadcast")
    call MPI_Allgather([rank, round, 7], 3, MPI_INTEGER, rows, 3, MPI_INTEGER, &
                       MPI_COMM_WORLD, error)
    call check(all(rows(1::3) == [(i, i = 0, size - 1)]), "allgather")
    call MPI_Alltoall([(10 * rank + i, i = 0, size - 1)], 1, MPI_INTEGER, blocks, 1, &
                      MPI_INTEGER, MPI_COMM_WORLD, error)
    call check(all(blocks == [(10 * i + rank, i = 0, size - 1)]), "alltoall")
    counts = 1
    call MPI_Reduce_scatter([(i + rank, i = 1, size)], own, counts, MPI_INTEGER, MPI_SUM, &
                            MPI_COMM_WORLD, error)
    call check(own == size * (rank + 1) + size * (size - 1) / 2, "reduce-scatter")
    call MPI_Barrier(MPI_COMM_WORLD, error)
  end do
  if (rank == 0) print "(a, i0, a)", "right on ", size, " ranks"
  call MPI_Finalize(error)

contains

  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(*), intent(in) :: what
    if (holds) return
    print *, "wrong: ", what, rank, round
    call MPI_Abort(MPI_COMM_WORLD, 1, error)
  end subroutine
end program
