"""What all tests share."""

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def _cache_of_its_own(tmp_path_factory):
    """Keep the figures of the machine out of the user's cache, for children too."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before


@pytest.fixture
def rsh(tmp_path, monkeypatch):
    """What stands for ssh: the same machine under every name but one."""
    script = tmp_path / "rsh"
    script.write_text(
        "#!/bin/sh\n"
        '[ "$1" = nowhere ] && { echo "no route to $1" >&2; exit 255; }\n'
        'shift; exec sh -c "$*"\n'
    )
    script.chmod(0o700)
    monkeypatch.setenv("COLLALGO_RSH", str(script))
    monkeypatch.setenv("UCX_TLS", "tcp,self")  # as between real hosts


#: Scripts for launchers, which look at their arguments.
collect_ignore = ["across_hosts.py", "under_torch.py"]
