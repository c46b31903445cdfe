"""What a tagger's report shows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...data.sources.conll import Sentence
from ...data.text.tags import Span, spans
from ...metrics.spans import SpanScore
from ...pictures.confusion import show_confusion
from ...report import Html, Page, mark, verbatim
from ..shared.analysis import (
    SHOWN,
    describe_part,
    first_examples,
    measure_dev,
    show_breakdown,
    show_confusions,
)
from .data import open_data
from .network import TagMetric
from .predictor import Tagger
from .tagged import Tagged

LONGEST = 60  # words of a sentence that is shown


class Judged(NamedTuple):
    """A sentence with its true and its predicted tags."""

    gold: Sentence
    predicted: Tagged

    @property
    def missed(self) -> set[Span]:
        return set(spans(self.gold.tags)) - set(self.predicted.spans)

    @property
    def spurious(self) -> set[Span]:
        return set(self.predicted.spans) - set(spans(self.gold.tags))

    @property
    def wrong(self) -> list[int]:
        """The words with a wrong tag."""
        pairs = zip(self.gold.tags, self.predicted.tags, strict=True)
        return [k for k, (gold, predicted) in enumerate(pairs) if gold != predicted]


def report(model: Tagger, page: Page) -> None:
    """The task's part of the report (training/report.py has the rest), in this order: the mix of an embedder's layers;
    scores of spans, missed and spurious spans; sentences with the most errors; confusion matrix; results by length and
    by unseen words. Without spans, confusions take the place of spans."""
    sources = open_data(model.settings)
    metric = measure_dev(model, page, sources)
    if metric is None or sources.dev is None:
        return
    sentences = first_examples(sources.dev)
    tagged = model.predictions(sentence.words for sentence in sentences)
    judged = [Judged(*pair) for pair in zip(sentences, tagged, strict=True)]
    lead = f"`{sources.name}`: accuracy *{metric.confusion.accuracy:.2%}* of {metric.confusion.total:,} words"
    lead += f", *{metric.accuracy_unseen:.2%}* of {metric.unseen:,} unseen in training."
    if model.vocabulary.scheme is not None:
        _show_scores(page, metric)
        show_span_errors(page, judged)
        show_confusion(page, metric.confusion_by_type, lead)
    else:
        show_confusion(page, metric.confusion, lead)
        show_word_errors(page, judged)
    _show_results(model, page, judged)


def _show_scores(page: Page, metric: TagMetric) -> None:
    page.heading("Spans").text("A span is correct if its type, its first and its last word are all correct.")
    rows = [
        [verbatim(type), f"{row['precision']:.4f}", f"{row['recall']:.4f}", f"{row['f1']:.4f}", f"{row['count']:,}"]
        for type, row in {**metric.spans.types(), "all": metric.spans.overall()}.items()
    ]
    page.table(["type", "precision", "recall", "F1", "spans"], rows)


# ---------------------------------------------------------------- errors


def show_span_errors(page: Page, judged: Sequence[Judged]) -> None:
    """Sentences with the most wrong spans, and the most frequent missed and spurious spans."""
    part = describe_part(len(judged), "sentences")
    missed, spurious = _count(judged, lambda one: one.missed), _count(judged, lambda one: one.spurious)
    page.heading("Missed and spurious spans").text(
        f"{missed.total():,} spans are missed and {spurious.total():,} spurious; a span with a wrong type or a wrong "
        f"end is one of each. The most frequent:{part}"
    )
    for title, count in (("missed", missed), ("spurious", spurious)):
        rows = [[verbatim(text), verbatim(type), f"{n:,}"] for (text, type), n in count.most_common(SHOWN)]
        if rows:
            page.table([title, "type", "count"], rows)
    worst = _worst(judged, lambda one: len(one.missed) + len(one.spurious))
    if worst:
        page.heading("Sentences with the most errors").text(
            "Green: correct spans. Red: missed on the left, spurious on the right."
        )
        rows = [
            [_marked(one.gold.words, spans(one.gold.tags), one.missed),
             _marked(one.gold.words, one.predicted.spans, one.spurious)]
            for one in worst
        ]  # fmt: skip
        page.table(["true", "predicted"], rows)


def show_word_errors(page: Page, judged: Sequence[Judged]) -> None:
    """Sentences with the most wrong tags, and the most frequent confusions with the words they happen to."""
    worst = _worst(judged, lambda one: len(one.wrong))
    if not worst:
        return
    page.heading("Sentences with the most errors").text(
        f"Marked words have a wrong tag; the true one is in parentheses.{describe_part(len(judged), 'sentences')}"
    )
    page.table(["sentence"], [[_corrected(one)] for one in worst])
    words: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for one in judged:
        for k in one.wrong:
            words[one.gold.tags[k], one.predicted.tags[k]][one.gold.words[k]] += 1
    examples = {kind: (of.total(), ", ".join(word for word, _ in of.most_common(6))) for kind, of in words.items()}
    show_confusions(page, examples)


def _count(judged: Sequence[Judged], select: Callable[[Judged], set[Span]]) -> Counter[tuple[str, str]]:
    """How often each text was one of the selected spans of a type."""
    return Counter(
        (" ".join(one.gold.words[span.start : span.end]), span.type) for one in judged for span in sorted(select(one))
    )


def _worst(judged: Sequence[Judged], errors: Callable[[Judged], int]) -> list[Judged]:
    """Those with the most errors, of the same number the shortest."""
    short = [one for one in judged if len(one.gold.words) <= LONGEST and errors(one)]
    return sorted(short, key=lambda one: (-errors(one), len(one.gold.words)))[:SHOWN]


def _marked(words: Sequence[str], found: Sequence[Span], wrong: set[Span]) -> Html:
    """A sentence with its spans highlighted."""
    parts, place = [], 0
    for span in sorted(found, key=lambda span: span.start):
        parts += [verbatim(word) for word in words[place : span.start]]
        parts.append(mark(" ".join(words[span.start : span.end]), span.type, wrong=span in wrong))
        place = span.end
    return Html(" ".join([*parts, *(verbatim(word) for word in words[place:])]))


def _corrected(one: Judged) -> Html:
    wrong = set(one.wrong)
    gold, predicted = one.gold.tags, one.predicted.tags
    return Html(
        " ".join(
            mark(word, f"{predicted[k]} ({gold[k]})", wrong=True) if k in wrong else verbatim(word)
            for k, word in enumerate(one.gold.words)
        )
    )


# ---------------------------------------------------------------- results by kind of input


def _show_results(model: Tagger, page: Page, judged: Sequence[Judged]) -> None:
    """By length of the sentence, and by the share of its words that were unseen in training."""
    seen, spanned = model.vocabulary.seen, model.vocabulary.scheme is not None
    lengths = [len(one.gold.words) for one in judged]
    unseen = [sum(word not in seen for word in one.gold.words) / max(1, len(one.gold.words)) for one in judged]

    def measure(numbers: list[int]) -> list[str]:
        words, score = sum(lengths[k] for k in numbers), SpanScore()
        right = words - sum(len(judged[k].wrong) for k in numbers)
        for k in numbers:
            if spanned:
                score.add(judged[k].gold.tags, judged[k].predicted.tags)
        return [f"{right / max(1, words):.1%}", *([f"{score.f1:.1%}"] if spanned else [])]

    columns = ["accuracy", *(["span F1"] if spanned else [])]
    show_breakdown(
        page, lengths, unseen, columns, measure, unit="sentences", token="word", unknown_is="unseen in training"
    )
