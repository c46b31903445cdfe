"""Tables as columns of integers, by hand."""

from carousel.data import Vocabulary
from carousel.data.sources.tables import Table
from carousel.data.text.encoder import TextEncoder
from carousel.tasks.classify.examples import LabelledTexts
from carousel.tasks.classify.targets import Target


def test_texts_labels_and_lines_of_several_tables(text_file):
    tables = [
        Table(text_file("good film\tx\nbad\ty\n", "a.tsv")),
        Table(text_file("a very long bad film\tx\n", "b.tsv")),
    ]
    words = Vocabulary.train(["good bad film a very long"], "word")
    target = Target("class", ["x", "y"])
    examples = LabelledTexts(tables, TextEncoder(words, 3), target)
    first, second = examples.chunks()
    assert first["tokens"].values.tolist() == words.encode("good film bad").tolist()
    assert first["tokens"].lengths.tolist() == [2, 1] and first["labels"].values.tolist() == [0, 1]
    assert first["lines"].values.tolist() == [1, 2]
    assert second["tokens"].values.tolist() == words.encode("a very long").tolist()
    assert examples.counts == {"cut": 1}
    assert examples.paths == [table.path for table in tables]
    assert examples.dtypes.keys() == first.keys()
    list(examples.chunks())
    assert examples.counts == {"cut": 1}  # counted once each time
