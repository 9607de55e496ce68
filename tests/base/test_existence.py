"""Whether a file exists is known, or an error says why not."""

import pytest

from collalgo.base.existence import exists


def test_what_is_there_exists_and_what_is_not_does_not(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "broken").symlink_to("nothing")
    assert exists(tmp_path)
    assert exists(tmp_path / "file")
    assert exists(tmp_path / "link")
    for name in ("nothing", "nothing/below", "file/below", "broken"):
        assert not exists(tmp_path / name)


def test_what_cannot_be_found_out_is_an_error(tmp_path):
    (tmp_path / "circle").symlink_to("circle")
    for name in ("x" * 300, "circle"):
        with pytest.raises(OSError, match=r"too long|Too many"):
            exists(tmp_path / name)
