"""Whatever a process is called, what the kernel shows of it is read."""

import ctypes
import os
import signal

import pytest

from collalgo.base import proc
from collalgo.base.signal_handlers import catches
from collalgo.bootstrap.ancestors import Environments, depth, start_time
from collalgo.launch.process import process_of

SET_NAME, GET_NAME = 15, 16


@pytest.fixture(params=[b"Verf\xc3", b"a) R 1 (b\nSigCgt: x"])
def name(request):
    """Give this process another name, as of a program cut within a letter."""
    prctl, before = ctypes.CDLL(None).prctl, ctypes.create_string_buffer(16)
    prctl(GET_NAME, before)
    prctl(SET_NAME, request.param)
    yield
    prctl(SET_NAME, before)


def test_a_process_with_any_name_is_read(name):
    me = os.getpid()
    assert catches(me, signal.SIGINT)
    assert not catches(me, signal.SIGKILL)
    assert process_of(me).parent == os.getppid()
    assert start_time(me) == proc.state(me)[19]
    assert depth(["PATH"], os.environ) > 0
    assert proc.environment(me)["PATH"] == os.environ["PATH"]


def test_what_is_no_process_is_an_error_of_the_system():
    for read in (proc.state, proc.environment, lambda each: proc.status(each, "Name")):
        with pytest.raises(OSError, match="No such file"):
            read(2**22 + 1)
    assert start_time(2**22 + 1) is None


def test_questions_about_the_ancestors_share_their_environments(monkeypatch):
    read = []
    original = proc.environment
    monkeypatch.setattr(proc, "environment", lambda p: read.append(p) or original(p))
    began = Environments()
    alone = [depth([name], os.environ) for name in ("PATH", "HOME", "PATH")]
    read.clear()
    assert [depth([n], os.environ, began) for n in ("PATH", "HOME", "PATH")] == alone
    assert len(read) == len(set(read)) > 0
