"""`carousel demo` does not begin where something else is."""


def test_where_something_else_is_the_demo_does_not_begin(carousel, tmp_path):
    (tmp_path / "file").write_text("mine")
    code, _, err = carousel("demo", "--out", tmp_path / "file")
    assert code == 2
    assert len(err.splitlines()) == 1
    folder = tmp_path / "folder"
    (folder / "run").mkdir(parents=True)
    (folder / "run" / "mine.txt").write_text("mine")
    code, _, err = carousel("demo", "--out", folder)
    assert code == 1
    assert err == f"error: {folder}/run: holds other files; give an empty or new directory\n"
    assert [path.name for path in folder.iterdir()] == ["run"]
