"""The remote shell that runs a command line on another host: ssh or another program."""

import os
import shlex
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from collalgo.base.environment import RSH
from collalgo.bootstrap.interfaces import addresses
from collalgo.errors import BootstrapError
from collalgo.launch.hosts import is_ipv6
from collalgo.launch.options import SshOptions

#: The remote shell, unless a variable names another: the user's own client with its
#: configuration, keys and jumps.
SSH = "ssh"

#: No questions on a terminal.
BATCH = ("-o", "BatchMode=yes")

#: The defaults of settings of ssh, with our values: a host that does not answer for 10
#: s cannot be reached, and one that is silent for 15 s (three times the interval), as
#: without power, is lost.
UNSET = {
    ("connecttimeout", "none"): ("-o", "ConnectTimeout=10"),
    ("serveraliveinterval", "0"): ("-o", "ServerAliveInterval=5"),
}

#: Seconds in which ssh shows its settings for a host.
SETTINGS_SECONDS = 10.0

#: Variables that name another remote shell, the first one first: ours, and those of
#: Open MPI 4 and 5, which clusters without ssh set (as to kubexec.sh on Kubernetes).
VARIABLES = (
    RSH.name,
    "OMPI_MCA_plm_rsh_agent",
    "PRTE_MCA_plm_ssh_agent",
)

#: Hosts that need no remote shell, besides the names and addresses of this one.
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")

#: Errors of ssh or of the remote host, and the advice for each.
ADVICE = {
    "Host key verification failed": "its key is not known here: connect once by hand "
    "(ssh {host}), or pass --ssh-option StrictHostKeyChecking=accept-new",
    "REMOTE HOST IDENTIFICATION HAS CHANGED": "its key has changed: make sure that it "
    "is the same host, then ssh-keygen -R {host}",
    "Permission denied": "it does not accept your key: ssh-copy-id {host}, or -i FILE",
    "Could not resolve hostname": "check its name, or give its address",
    "Connection refused": "no server listens there; another port may be right: -p PORT",
    "timed out": "check the network; a slow host needs a longer --start-timeout",
    "No module named": "install collalgo there, at the path that it has here",
    "No such file": "Python must have the same path there as here",
    "command not found": "Python must have the same path there as here",
}


@dataclass(frozen=True)
class RemoteShell:
    """A command that runs a command line on a host.

    Attributes
    ----------
    words : tuple of str
        The command, before the name of the host.
    source : str or None
        The variable that names it; None: the default.
    """

    words: tuple[str, ...]
    source: str | None = None

    @property
    def is_ssh(self) -> bool:
        """Whether it is an ssh client, which has its options and aliases."""
        return Path(self.words[0]).name == "ssh"

    def is_needed(self, host: str) -> bool:
        """Whether a host can be reached by it only.

        A shell that the user has named is used for this host, too.
        """
        return self.source is not None or not is_this_host(host)

    def line(self, host: str, command: list[str]) -> list[str]:
        """The command line that runs a command on a host."""
        if not self.is_needed(host):
            return command
        own = self._own_options(host) if self.source is None else ()
        return [*self.words, *own, host, "exec " + shlex.join(command)]

    def hostname(self, alias: str) -> str:
        """The host name of an alias in the configuration of ssh."""
        return self._settings(alias).get("hostname", alias) if self.is_ssh else alias

    def _own_options(self, host: str) -> Iterator[str]:
        """Our options of ssh, but for settings that the user's configuration has."""
        yield from BATCH
        settings = self._settings(host).items()
        for setting, option in UNSET.items():
            if setting in settings or not settings:
                yield from option

    def _settings(self, host: str) -> dict[str, str]:
        """The settings of ssh for a host; none without an ssh that shows them."""
        try:
            asked = subprocess.run(
                [*self.words, "-G", host], stdin=subprocess.DEVNULL,
                capture_output=True, text=True, check=False, timeout=SETTINGS_SECONDS,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return {}
        lines = (line.partition(" ") for line in asked.stdout.splitlines())
        return {key: value for key, _, value in lines}


def remote_shell(options: SshOptions | None = None) -> RemoteShell:
    """The remote shell that the environment names, by default ssh, with some options.

    Raises
    ------
    BootstrapError
        If the variable names no program, or the options are not for it.
    """
    source = next((name for name in VARIABLES if os.environ.get(name)), None)
    extra = options.words if options is not None else []
    if source is None:
        return RemoteShell((SSH, *extra))
    given = os.environ[source]
    try:
        shell = RemoteShell(tuple(shlex.split(given)), source)
    except ValueError as error:
        raise BootstrapError(f"{source} is not a command: {given} ({error})") from None
    if not shell.words or shutil.which(shell.words[0]) is None:
        raise BootstrapError(f"{source} names no program that can be run: {given}")
    if extra and not shell.is_ssh:
        raise BootstrapError(
            f"{shlex.join(extra)} is for ssh, but {source} names {given}; unset "
            f"{source}, or write the options into it"
        )
    return RemoteShell((*shell.words, *extra), source)


@cache
def is_this_host(name: str) -> bool:
    """Whether a name or an address is of this host: it needs no remote shell."""
    own = socket.gethostname()
    if name in LOCAL_NAMES or name == own or name in addresses(loopback=True):
        return True
    if is_ipv6(name):
        return _has_address(name)
    if name.partition(".")[0] != own.partition(".")[0]:
        return False  # so that no other host is asked of a name server
    with suppress(OSError):
        found = {str(each[4][0]) for each in socket.getaddrinfo(name, None)}
        return any(
            address.startswith("127.") or address in (*addresses(), "::1")
            for address in found
        )
    return False


def _has_address(address: str) -> bool:
    """Whether an IPv6 address is of this host, so that a socket can have it."""
    with suppress(OSError), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        probe.bind(socket.getaddrinfo(address, 0, socket.AF_INET6)[0][4])
        return True
    return False


def advice(said: str, host: str) -> str:
    """The advice for the errors of a remote shell; empty if they are unknown."""
    for words, what in ADVICE.items():
        if words in said:
            return what.format(host=host)
    return ""
