"""Text in, integer batches out: readers, vocabulary, token store, batches. Knows nothing of models.

lines.py             a file of one item a line, or of running text, checked and streamed
vocabulary.py        text to ids and back (the three kinds are in kinds.py)
store.py             ids of a whole file, made once and memory-mapped (the Arrow file is in ragged.py)
line_batches.py      batches of whole lines (how lengths come together is in bucketed.py)
examples.py          labelled examples, made once, and batches of them
sentences.py         sentences without labels (words as integers: wordbook.py)
reading.py           texts as integers, for a model and for its embedder
tables.py            TSV, CSV and JSONL with a text and a label
conll.py             tagged sentences in columns, CoNLL-U among them (as examples: tagged.py)
tags.py              spans as tags: IOB1, IOB2, BIOES
vectors.py           word vectors in text form
stream_batches.py    batches of running text, state carried (what both share is in batches.py)
dates.py             dates as people write them, to make pairs of
check.py             what is in a file, before training on it
"""

from .batches import Batches, TextBatch
from .check import TextCheck, TextFacts, check_text
from .kinds import END, PAD, SPECIAL, START, UNK, Kind
from .line_batches import LineBatches
from .lines import Lines, Piece, RunningText, Source, check_file, read_lines
from .store import TokenStore, tokenize
from .stream_batches import StreamBatches
from .vocabulary import Vocabulary

__all__ = [
    "END",
    "PAD",
    "SPECIAL",
    "START",
    "UNK",
    "Batches",
    "Kind",
    "LineBatches",
    "Lines",
    "Piece",
    "RunningText",
    "Source",
    "StreamBatches",
    "TextBatch",
    "TextCheck",
    "TextFacts",
    "TokenStore",
    "Vocabulary",
    "check_file",
    "check_text",
    "read_lines",
    "tokenize",
]
