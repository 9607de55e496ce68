"""Identities from the environment, and foreign connections at the rendezvous."""

import logging
import os
import secrets
import socket
import time
from threading import Thread

import numpy as np
import pytest

from collalgo import BootstrapError
from collalgo.bootstrap.identity import Identity, Route, identity
from collalgo.bootstrap.join_request import HELLO, MAGIC
from collalgo.bootstrap.rendezvous import HostRendezvous, address_of
from collalgo.comm.communicator import Communicator

STEP = {
    "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "2", "SLURM_PROCID": "3",
    "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NUM_NODES": "1",
}  # fmt: skip
RUN = {"COLLALGO_JOB": "j", "RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4"}

MISSING = STEP | {"SLURM_STEP_NUM_NODES": ""}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, Identity(0, 1, "", "none")),
        (RUN, Identity(1, 4, "j", "collalgo run")),
        (
            {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3"},
            Identity(2, 3, "", "mpiexec of Open MPI", Route.MPI),
        ),
        (
            {"PMI_RANK": "0", "PMI_SIZE": "2"},
            Identity(0, 2, "", "mpiexec of MPICH", Route.MPI),
        ),
        (
            {"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "3"},
            Identity(1, 3, "", "mpirun_rsh of MVAPICH", Route.MPI),
        ),
        (
            {"JSM_NAMESPACE_RANK": "1", "JSM_NAMESPACE_SIZE": "3", "PMIX_RANK": "1"},
            Identity(1, 3, "", "jsrun", Route.MPI),
        ),
        (
            {"PALS_RANKID": "1", "PALS_SIZE": "3"},
            Identity(1, 3, "", "mpiexec of PALS", Route.MPI),
        ),
        ({"SLURM_PROCID": "0", "SLURM_JOB_ID": "7"}, Identity(0, 1, "", "none")),
        (STEP, Identity(3, 4, "srun/7.2", "srun")),
        (
            STEP | {"SLURM_STEP_NUM_NODES": "2"},
            Identity(3, 4, "", "srun", Route.MPI),
        ),
        (
            {"HOROVOD_RANK": "1", "HOROVOD_SIZE": "2", "HOROVOD_LOCAL_SIZE": "2"},
            Identity(1, 2, "horovodrun//", "horovodrun"),
        ),
    ],
)
def test_the_variables_of_each_launcher_are_read(environment, expected):
    assert identity(environment) == expected


def test_two_jobs_of_torchrun_have_different_names():
    base = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": "1"}
    jobs = {identity({**base, "MASTER_PORT": port}).job for port in ("1", "2")}
    assert len(jobs) == 2
    assert "" not in jobs


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"RANK": "4"}, "RANK=4 and WORLD_SIZE=4; need 0 <= rank < size"),
        ({"RANK": "x"}, "RANK is 'x', not a number"),
        ({"WORLD_SIZE": "9" * 20}, "need 0 <= rank < size <= 131072"),
        ({"WORLD_SIZE": "9" * 5000}, r"WORLD_SIZE is '9{1,20}[.]+9+', not a number"),
        ({"WORLD_SIZE": ""}, "WORLD_SIZE is not set, but COLLALGO_JOB and RANK and L"),
        (dict.fromkeys(RUN, "") | {"COLLALGO_JOB": "j"}, "RANK is not set, but COLLA"),
        ({"WORLD_SIZE": "1_0"}, "WORLD_SIZE is '1_0', not a number"),
        ({"LOCAL_WORLD_SIZE": "5"}, "WORLD_SIZE=4 but LOCAL_WORLD_SIZE=5; need 1 <= L"),
        ({"LOCAL_WORLD_SIZE": "0"}, "WORLD_SIZE=4 but LOCAL_WORLD_SIZE=0; need 1 <= L"),
        ({"LOCAL_RANK": "x"}, "LOCAL_RANK is 'x', not a number"),
        (
            {"LOCAL_RANK": "-1"},
            "LOCAL_RANK=-1, but 4 ranks are on this host; need 0 <=",
        ),
        ({"LOCAL_RANK": "4"}, "need 0 <= LOCAL_RANK < LOCAL_WORLD_SIZE"),
        ({"LOCAL_RANK": "4", "LOCAL_WORLD_SIZE": ""}, "0 <= LOCAL_RANK < WORLD_SIZE"),
        (dict.fromkeys(RUN, "") | MISSING, "SLURM_STEP_NUM_NODES is not set"),
        ({"RANK": "", "COLLALGO_MEMBER": "m"}, r"use collalgo.elastic.run\(fn\) in"),
        (
            {"LOCAL_WORLD_SIZE": "2"},
            "WORLD_SIZE=4 but LOCAL_WORLD_SIZE=2, and no store",
        ),
    ],
)
def test_malformed_variables_are_refused(change, message):
    with pytest.raises(BootstrapError, match=message):
        identity({**RUN, **change})


@pytest.mark.parametrize(
    "names",
    [
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
        ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
        ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"),
        ("PALS_RANKID", "PALS_SIZE"),
        ("HOROVOD_RANK", "HOROVOD_SIZE"),
        ("RANK", "WORLD_SIZE"),
        ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ],
)
@pytest.mark.parametrize("values", [("3", "3"), ("-1", "3"), ("0", "0"), ("x", "2")])
def test_a_rank_is_a_number_below_the_size_under_every_launcher(names, values):
    step = STEP if names[0] in STEP else {}
    with pytest.raises(BootstrapError, match=rf"{names[0]}(=| is )"):
        identity(step | dict(zip(names, values, strict=True)))


@pytest.mark.parametrize(
    "names", [("RANK", "WORLD_SIZE", ""), ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_")]
)
def test_the_local_rank_is_below_the_local_size(names):
    rank, size, prefix = names
    given = {rank: "1", size: "4"}
    local = f"{prefix}LOCAL_RANK"
    for value in ("0", "3", " 1 ", ""):
        assert identity({**given, local: value})[:2] == (1, 4)
    for value in ("4", "-1", "1.0", "1_0"):
        with pytest.raises(BootstrapError, match=local):
            identity({**given, local: value})


def test_an_empty_variable_is_not_set():
    every = {**RUN, **STEP, "PMI_RANK": "0", "PMI_SIZE": "2", "RANK": "0"}
    alone = Identity(0, 1, "", "none")
    assert identity(dict.fromkeys(every, "")) == alone
    assert identity({"RANK": " ", "WORLD_SIZE": "", "HOROVOD_RANK": " "}) == alone
    assert identity({**RUN, "LOCAL_WORLD_SIZE": ""}) == identity(RUN)
    assert identity({**dict.fromkeys(RUN, ""), **STEP}) == identity(STEP)


def test_variables_that_were_set_by_hand_are_not_said_to_be_of_torchrun():
    by_hand = {"RANK": "5", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}
    with pytest.raises(BootstrapError, match=r"^the environment sets RANK=5 and WORLD"):
        identity(by_hand)
    with pytest.raises(BootstrapError, match=r"^torchrun sets RANK=5"):
        identity({**by_hand, "TORCHELASTIC_RUN_ID": "7"})


@pytest.fixture
def job():
    return secrets.token_hex(8)


def foreign(job, data, *, stay=None):
    """Connect with the rendezvous as a process that is no rank of the job."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    end = time.monotonic() + 5
    while True:
        try:
            connection.connect(address_of(job))
            break
        except ConnectionRefusedError:
            assert time.monotonic() < end
            time.sleep(0.005)
    if data is not None:
        connection.send(data)
    if stay is not None:
        stay.append(connection)
        return b""
    answer = connection.recv(1000)
    connection.close()
    return answer


def connect(job, rank, size, results, timeout=10.0):
    try:
        context = HostRendezvous(job).connect("", rank, range(size), timeout)
        with Communicator(context, timeout=10) as comm:
            results[rank] = comm.allreduce(np.array([rank + 1]))[0]
    except BootstrapError as error:
        results[rank] = error


def test_foreign_connections_do_not_disturb_the_ranks(job, caplog):
    caplog.set_level(logging.WARNING)
    results, stay = {}, []
    ranks = [Thread(target=connect, args=(job, 0, 3, results))]
    ranks[0].start()
    foreign(job, None, stay=stay)  # sends nothing
    assert b"protocol" in foreign(job, secrets.token_bytes(10_000))
    assert b"protocol" in foreign(job, b"x" * HELLO.size)
    assert b"is one of 5 ranks" in foreign(job, HELLO.pack(MAGIC, 1, 5))
    assert b"rank 7 of 3 is out of range" in foreign(job, HELLO.pack(MAGIC, 7, 3))
    ranks += [Thread(target=connect, args=(job, rank, 3, results)) for rank in (1, 2)]
    for rank in ranks[1:]:
        rank.start()
    for rank in ranks:
        rank.join()
    stay[0].close()
    assert results == {0: 6, 1: 6, 2: 6}
    assert caplog.text.count("was refused at the rendezvous") == 4


def test_ranks_that_do_not_join_are_named(job):
    results = {}
    connect(job, 0, 3, results, timeout=0.2)
    assert "waited 0.2 s for ranks [1, 2] of 3, which did not" in str(results[0])
    assert results[0].missing == (1, 2)
    connect(job, 1, 3, results, timeout=0.2)
    assert "waited 0.2 s for rank 0, which did not" in str(results[1])


def test_a_rank_that_leaves_while_the_others_join_is_named_to_all(job):
    results, stay = {}, []
    ranks = [Thread(target=connect, args=(job, rank, 4, results)) for rank in (0, 1)]
    for rank in ranks:
        rank.start()
    foreign(job, HELLO.pack(MAGIC, 2, 4), stay=stay)
    time.sleep(0.2)  # all but rank 3 have joined
    stay[0].close()
    for rank in ranks:
        rank.join(5)
    assert all("rank 2 has left" in str(results[rank]) for rank in (0, 1)), results
    assert results[0].missing == (2,)


def test_a_second_rank_0_is_refused(job):
    results = {}
    first = Thread(target=connect, args=(job, 0, 2, results, 1.0))
    first.start()
    foreign(job, b"")
    with pytest.raises(BootstrapError, match="is another rank 0"):
        HostRendezvous(job).connect("", 0, range(2), 1.0)
    first.join()


def test_a_failed_rendezvous_leaves_no_descriptor(job):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        connect(job, 0, 2, {}, timeout=0.05)
        connect(job, 1, 2, {}, timeout=0.05)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("port", ["99999", "0", "x", "-1", "9" * 5000])
def test_an_impossible_port_is_refused_before_the_ranks_wait(port):
    by_hand = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": port}
    horovod = {
        "HOROVOD_RANK": "0",
        "HOROVOD_SIZE": "2",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": port,
    }
    for env in (by_hand, {**by_hand, "TORCHELASTIC_RUN_ID": "a"}, horovod):
        with pytest.raises(BootstrapError, match=r"_PORT is .*, not a port; set it"):
            identity(env)
        possible = {name: "29500" if "PORT" in name else env[name] for name in env}
        assert identity(possible).size == 2
