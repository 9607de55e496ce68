"""What a process makes can be used by others of its user, whatever the umask."""

import os
import ssl
import stat
import tempfile
from contextlib import closing

import pytest

from collalgo.base import disk_cache, output_files, owned
from collalgo.base.plotting import PICTURE
from collalgo.bootstrap.folder import make_private
from collalgo.bootstrap.store.certificates import client_context
from collalgo.bootstrap.store.file import FileStore
from collalgo.bootstrap.user_secret import user_secret
from collalgo.launch.log_files import LogFiles


@pytest.fixture(params=[0o777, 0o277, 0o077, 0o022])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_folders_and_files_permit_their_owner(umask, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a" / "cache"))
    monkeypatch.delenv("COLLALGO_CACHE", raising=False)
    disk_cache.keep("kind", "key", "value")
    assert user_secret()
    make_private(tmp_path / "b" / "meeting")
    with closing(FileStore(tmp_path / "c" / "store")) as store:
        store.set("key", b"value", lease=store.lease(5.0))
        check_all(tmp_path, umask)  # also the file of the lease
    LogFiles(tmp_path / "d" / "logs").write(0, "stdout", b"text\n")
    output_files.make_folder(tmp_path / "e" / "dumps")
    output_files.write(tmp_path / "e" / "file.svg", "text", PICTURE)
    check_all(tmp_path, umask)


def test_certificates_permit_their_owner(umask, tmp_path, monkeypatch):
    pytest.importorskip("cryptography")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    load = ssl.SSLContext.load_cert_chain

    def check(context, *files):
        check_all(tmp_path, umask)
        load(context, *files)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", check)
    client_context(b"secret", ["localhost"])


def test_a_file_that_exists_keeps_its_mode(tmp_path):
    path = tmp_path / "log"
    path.touch()
    path.chmod(0o200)
    for opener in (owned.opener, owned.private):
        with open(path, "ab", opener=opener) as file:
            file.write(b"more")
    assert stat.S_IMODE(path.stat().st_mode) == 0o200


def check_all(folder, umask):
    """All that is in a folder permits its owner, and no more than the umask."""
    for path in folder.rglob("*"):
        status = path.lstat()
        mode = stat.S_IMODE(status.st_mode)
        own = owned.OF_FOLDER if path.is_dir() else owned.OF_FILE
        assert mode & own == own, path
        assert not mode & umask & 0o077, path


def test_a_file_in_place_of_a_parent_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    for wrong in ("file", "file/below", "file/below/that"):
        with pytest.raises(OSError, match="file"):
            owned.make_folder(tmp_path / wrong)
    assert owned.make_folder(tmp_path / "new" / "one")
    assert not owned.make_folder(tmp_path / "new" / "one")
