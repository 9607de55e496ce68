"""A folder as a store: for one job of one user, and nothing of others is lost."""

import os
import threading
from pathlib import Path

import pytest

import collalgo
from collalgo import BootstrapError
from collalgo.bootstrap.folder import INSIDE, Folder
from tests.support.connecting import all_connect


def test_a_folder_is_for_one_job_of_one_user(tmp_path):
    folder = Folder(tmp_path / "job")
    folder.set("host/0", b"mine")
    assert folder.get("host/0", 1) == b"mine"
    assert (tmp_path / "job").stat().st_mode & 0o077 == 0
    with pytest.raises(BootstrapError, match="another job has used"):
        folder.set("host/0", b"another's")
    with pytest.raises(
        BootstrapError, match=r"no rank has written .*host-1 within 0\.1 s"
    ):
        folder.get("host/1", 0.1)
    later = threading.Timer(0.2, folder.set, ("late", b"x"))
    later.start()
    assert folder.get("late", 5) == b"x"
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(BootstrapError, match="no other user may write to it"):
        Folder(open_to_all)
    with pytest.raises(BootstrapError, match="cannot connect in"):
        Folder(Path("/proc/nowhere"))


def test_a_rank_that_is_there_already_is_told_to_all(tmp_path):
    first, waiting, second = (Folder(tmp_path / "job") for _ in range(3))
    first.set("said/1", b"mine")
    for told in (second, waiting, first):
        with pytest.raises(BootstrapError, match=r"started twice \(said/1 exists\)"):
            told.set("said/1", b"x") if told is second else told.get("said/0", 20)


@pytest.mark.parametrize("depth", range(4))
@pytest.mark.parametrize("present", range(4))
@pytest.mark.parametrize("end", ["remove", "take_back"])
def test_folders_that_ranks_have_made_are_removed_and_no_others(
    tmp_path, depth, present, end
):
    names = ["x", "y", "z", "job"][: depth + 1]
    kept = tmp_path.joinpath(*names[:present])
    kept.mkdir(parents=True, exist_ok=True)
    ranks = [Folder(tmp_path.joinpath(*names)) for _ in range(3)]
    for number, rank in enumerate(ranks):
        rank.set(f"said/{number}", b"")
    for number in range(3):
        ranks[0].get(f"said/{number}", 1)
    for rank in ranks[:1] if end == "remove" else ranks:
        getattr(rank, end)()
    assert kept.exists()
    assert not any(kept.iterdir())


def test_a_parent_with_other_files_stays(tmp_path):
    folder = Folder(tmp_path / "x" / "y" / "job")
    (tmp_path / "x" / "mine").touch()
    folder.remove()
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["mine"]


def test_folders_are_removed_if_a_rank_cannot_connect(tmp_path, monkeypatch):
    def refuse(folder):
        raise OSError(f"planted for {folder}")

    monkeypatch.setattr("collalgo.bootstrap.folder._refuse_others", refuse)
    with pytest.raises(BootstrapError, match="planted"):
        Folder(tmp_path / "x" / "y" / "job")
    assert not any(tmp_path.iterdir())


def test_parents_are_removed_if_the_folder_cannot_be_made(tmp_path):
    with pytest.raises(BootstrapError, match="cannot connect in"):
        Folder(tmp_path / "x" / "y" / ("n" * 300))
    assert not any(tmp_path.iterdir())


def listed(folder):
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*") if path.is_file()}  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("inside", ["thesis.tex", ".hidden", "said-0", "first", "a/b"])
def test_a_folder_with_files_of_others_is_refused_and_stays_whole(
    size, inside, tmp_path
):
    folder = tmp_path / "mine"
    (folder / inside).parent.mkdir(parents=True)
    (folder / inside).write_bytes(b"years of work")
    before = listed(folder)
    for rank in range(size):
        with pytest.raises(BootstrapError, match=r"holds other files \(1, as"):
            collalgo.init(f"file://{folder}", rank=rank, size=size, join_timeout=0.2)
    assert listed(folder) == before


def test_a_file_that_is_written_while_ranks_connect_stays(tmp_path):
    folder = tmp_path / "job"
    store = Folder(folder)
    store.set("said/0", b"x")
    (folder / "notes").write_text("mine")
    (folder / INSIDE / "said-1").write_text("of a rank that is not known")
    store.remove()
    assert listed(folder) == {
        "notes": b"mine",
        f"{INSIDE}/said-1": b"of a rank that is not known",
        f"{INSIDE}/made-by-a-rank-0": b"",
    }


def test_an_empty_folder_of_the_user_stays_after_ranks_have_connected(tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir(mode=0o755)
    for _ in range(2):
        all_connect(f"file://{folder}", tmp_path)
        assert list(folder.iterdir()) == []


def test_links_are_refused(tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    for name, aim in (("link", target), ("dangling", tmp_path / "nowhere")):
        (tmp_path / name).symlink_to(aim)
        with pytest.raises(BootstrapError, match="which is a symbolic link; choose"):
            Folder(tmp_path / name)
        assert (tmp_path / name).is_symlink()
    assert list(target.iterdir()) == []
    (target / INSIDE).symlink_to(tmp_path)
    with pytest.raises(BootstrapError, match="which is a symbolic link; choose"):
        Folder(target)


def test_other_files_are_refused(tmp_path):
    named_alike = tmp_path / INSIDE
    named_alike.mkdir()
    (named_alike / "thesis.tex").touch()
    with pytest.raises(BootstrapError, match="holds other files"):
        Folder(named_alike)
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(BootstrapError, match="which is a file; choose"):
        Folder(file)
    assert file.read_text() == "mine"


def test_a_folder_that_a_crashed_job_has_left_is_refused(tmp_path):
    url = tmp_path / "job"
    crashed = Folder(url)
    crashed.set("said/0", b"old")
    with pytest.raises(BootstrapError, match="runs or has crashed"):
        collalgo.init(f"file://{url}", rank=0, size=2, join_timeout=0.2)
    crashed.set("first", b"old")  # so that all had come
    before = listed(url)
    with pytest.raises(BootstrapError, match="another job has used"):
        collalgo.init(f"file://{url}", rank=1, size=2, join_timeout=60)
    assert listed(url) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_refused(tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir()
    os.chown(folder, 12345, 12345)
    with pytest.raises(BootstrapError, match="of user 12345 with mode 755"):
        Folder(folder)
    assert list(folder.iterdir()) == []
