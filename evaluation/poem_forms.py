"""How many greedy poems are in exact form: 8 lines of 5 characters, ， and 。 in turn, then the end.

    python evaluation/poem_forms.py RUN TRAIN [COUNT]

One poem for each of the COUNT (200) most frequent first characters of TRAIN, without any constraint.
"""

import sys
from collections import Counter

import carousel
from carousel.data import Lines
from carousel.decoding import Pattern


def main(run: str, train: str, count: int = 200) -> None:
    model = carousel.load(run)
    heads = [c for c, _ in Counter(line[0] for line in Lines(train)).most_common() if c in model.vocabulary][:count]
    layout = Pattern.named("五言律詩").layout()
    marks = set(layout) - {"○"}
    exact = 0
    for poem in model.generate(heads, num_beams=1):
        shape = "".join(c if c in marks or not c.isalpha() else "○" for c in poem.text)
        exact += poem.finished and shape == layout
    print(f"{exact} of {len(heads)} greedy poems ({exact / len(heads):.1%}) are in exact form")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
