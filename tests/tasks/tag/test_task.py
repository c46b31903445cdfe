"""Tagged sentences in memory, as columns that the task reads again."""

from carousel.tasks.tag.task import Tag


def test_words_and_tags(tmp_path):
    path = Tag.write_data([[("Ada", "N"), ("sat", "V")], [("here", "A")]], tmp_path / "train", {})
    assert path.read_text("utf-8").split("\n\n")[0].splitlines()[-2:] == ["Ada\tN", "sat\tV"]
