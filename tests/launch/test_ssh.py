"""collalgo run over the ssh and the sshd of the system, as users have them."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from collalgo.launch.options import SshOptions
from collalgo.launch.remote_shell import BATCH, SSH, remote_shell
from tests.support.ports import await_server

#: Where distributions have it, which is in no user's path.
SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin")

pytestmark = [
    pytest.mark.skipif(
        SSHD is None or not all(map(shutil.which, ("ssh", "ssh-keygen"))),
        reason="there is no OpenSSH with a server",
    ),
]

SERVER = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/key.pub
StrictModes no
PidFile none
"""

CLIENT = """
Host a b
  HostName 127.0.0.1
  Port {port}
  IdentityFile {folder}/key
  UserKnownHostsFile {folder}/known
  StrictHostKeyChecking accept-new
Host b
  ProxyJump a
"""

JOB = """
import os, signal, time
import numpy as np, collalgo
comm = collalgo.init(timeout=60)
assert "SSH_CONNECTION" in os.environ
assert comm.hosts == (0, 0, 1)
assert os.environ["GREETING"] == "it's $HOME"
print(collalgo.allreduce(np.ones(1)), flush=True)
if os.environ.get("KILL") and comm.rank == 2:
    os.kill(os.getpid(), signal.SIGKILL)
while os.environ.get("KILL"):
    collalgo.allreduce(np.ones(1))
"""


@pytest.fixture
def port(tmp_path, reserved_port):
    """The port of a server of ssh that accepts one key."""
    for name in ("key", "host"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name]
        subprocess.run(command, check=True)
    for name, text in (("sshd_config", SERVER), ("config", CLIENT)):
        (tmp_path / name).write_text(text.format(port=reserved_port, folder=tmp_path))
    if os.geteuid() == 0:  # its sshd wants a folder of its own
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    server = subprocess.Popen([SSHD, "-D", "-e", "-f", tmp_path / "sshd_config"],
                              stderr=subprocess.PIPE)  # fmt: skip
    try:
        await_server(server, reserved_port)
        yield reserved_port
    finally:
        server.kill()
        server.communicate()


@pytest.fixture
def hosts(tmp_path, port, monkeypatch):
    """Two names of this machine, of which one is behind the other."""
    client = " ".join((SSH, *BATCH, "-F", str(tmp_path / "config")))
    monkeypatch.setenv("COLLALGO_RSH", client)
    monkeypatch.setenv("GREETING", "it's $HOME")
    return "a:2,b:1"


def run(hosts, tmp_path):
    job = tmp_path / "job.py"
    job.write_text(JOB)
    return subprocess.run(
        [sys.executable, "-m", "collalgo", "run", "-H", hosts, str(job)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_ranks_start_by_keys_aliases_and_jumps(hosts, tmp_path):
    done = run(hosts, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("[3.]") == 3


def test_the_doctor_knows_the_aliases_of_ssh(hosts):
    done = subprocess.run(
        [sys.executable, "-m", "collalgo", "doctor", "-H", hosts],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    text = re.sub(r"\s+", " ", done.stdout)
    assert "route to a from 127.0.0.1" in text
    assert all(f"host {name} can be used" in text for name in "ab")


def test_a_rank_that_is_killed_behind_a_jump_ends_the_job(hosts, tmp_path, monkeypatch):
    monkeypatch.setenv("KILL", "1")
    done = run(hosts, tmp_path)
    assert "rank 2 was killed by SIGKILL" in done.stderr
    left = subprocess.run(["pgrep", "-f", str(tmp_path / "job.py")], check=False)
    assert left.returncode == 1


def options(tmp_path, port, key="key", **settings):
    """The options by which ssh reaches this machine under any name."""
    known = {"HostName": "127.0.0.1", "UserKnownHostsFile": tmp_path / "known",
             "StrictHostKeyChecking": "accept-new", **settings}  # fmt: skip
    words = ["-p", port, "-i", tmp_path / key]
    return [
        *words,
        *(w for k, v in known.items() for w in ("--ssh-option", f"{k}={v}")),
    ]


def start(*words):
    return subprocess.run(
        [sys.executable, "-m", "collalgo", "run", *map(str, words)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_options_of_ssh_take_the_place_of_its_configuration(tmp_path, port):
    reach = options(tmp_path, port)
    done = start("-H", "x:1,y:1", *reach, "sh", "-c", "echo $RANK $CROSS_RANK")
    assert sorted(done.stdout.splitlines()) == ["[0] 0 0", "[1] 1 1"], done.stderr


def test_a_host_that_does_not_come_up_is_named_with_its_error_and_advice(
    tmp_path, port
):
    strict = {"StrictHostKeyChecking": "yes"}
    done = start("-H", "x:1,y:1", *options(tmp_path, port, **strict), "true")
    assert done.returncode == 1
    for host in "xy":
        assert f"host {host} cannot be used; this command failed: ssh -p" in done.stderr
        assert f"connect once by hand (ssh {host}), or pass" in done.stderr
    assert done.stderr.count("Host key verification failed") == 2
    stranger = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other"]
    subprocess.run(stranger, check=True)
    done = start("-H", "x:1", *options(tmp_path, port, "other"), "true")
    assert "Permission denied" in done.stderr
    assert "it does not accept your key: ssh-copy-id x, or -i FILE" in done.stderr


def settings_by(options, folder, config):
    """The settings of ssh on our command line, with a configuration of the user."""
    file = folder / "of user"
    file.write_text(config)
    own = SshOptions(options=options)
    shell = replace(remote_shell(own), words=("ssh", "-F", str(file), *own.words))
    *command, _ = shell.line("x", ["true"])
    said = subprocess.check_output([*command[:-1], "-G", command[-1]], text=True)
    return dict(line.split(" ", 1) for line in said.splitlines())


@pytest.mark.parametrize(
    ("options", "config", "found"),
    [
        ([], "", ("5", "3", "10")),
        ([], "Host *\n ServerAliveCountMax 4", ("5", "4", "10")),
        ([], "Host x\n ServerAliveInterval 60", ("60", "3", "10")),
        ([], "Host y\n ServerAliveInterval 60", ("5", "3", "10")),
        ([], "ConnectTimeout 40", ("5", "3", "40")),
        (["ServerAliveInterval=7"], "ServerAliveInterval 60", ("7", "3", "10")),
        (["ServerAliveInterval=0", "ConnectTimeout=3"], "", ("0", "3", "3")),
    ],
)
def test_settings_of_the_user_come_before_ours(
    options, config, found, tmp_path, monkeypatch
):
    monkeypatch.delenv("COLLALGO_RSH", raising=False)
    settings = settings_by(options, tmp_path, config)
    names = ("serveraliveinterval", "serveralivecountmax", "connecttimeout")
    assert tuple(settings[name] for name in names) == found
    assert settings["batchmode"] == "yes"
