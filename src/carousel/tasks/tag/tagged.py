"""A tagged sentence, as a user sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...data.text.tags import Scheme, Span, spans


@dataclass(frozen=True)
class Tagged:
    """The words of a sentence and their tags, the best tagging first.

    >>> Tagged(["Ada", "sat"], [["PROPN", "VERB"]], [0.9, 0.8], [-0.3])
    Ada/PROPN sat/VERB
    >>> Tagged(["Ada", "Lovelace", "sat"], [["B-PER", "I-PER", "O"]], [0.9, 0.9, 0.8], [-0.3], "iob2")
    [Ada Lovelace]PER sat
    """

    words: list[str]
    taggings: list[list[str]]  # n × words
    confidences: list[float]  # the probability of each tag of the best tagging
    log_probs: list[float]  # of each tagging
    scheme: Scheme | None = None  # None: tags are not parts of spans

    @property
    def tags(self) -> list[str]:
        return self.taggings[0]

    @property
    def spans(self) -> list[Span]:
        """The spans of the best tagging; none if its tags are not parts of spans."""
        return [] if self.scheme is None else spans(self.tags)

    def as_dict(self) -> dict[str, Any]:
        """In JSON's terms."""
        result: dict[str, Any] = {
            "words": self.words,
            "tags": self.tags,
            "confidences": [round(p, 4) for p in self.confidences],
            "log_prob": round(self.log_probs[0], 6),
        }
        if self.scheme is not None:
            result["spans"] = [{**s._asdict(), "text": " ".join(self.words[s.start : s.end])} for s in self.spans]
        if len(self.taggings) > 1:
            both = zip(self.taggings, self.log_probs, strict=True)
            result["n_best"] = [{"tags": tags, "log_prob": round(p, 6)} for tags, p in both]
        return result

    def __repr__(self) -> str:
        if self.scheme is None:
            return " ".join(f"{word}/{tag}" for word, tag in zip(self.words, self.tags, strict=True))
        shown = list(self.words)
        for type, start, end in self.spans:
            shown[start] = f"[{shown[start]}"
            shown[end - 1] += f"]{type}"
        return " ".join(shown)


class TaggedList(list[Tagged]):
    """Tagged sentences, printed one per line."""

    def __repr__(self) -> str:
        return "\n".join(map(repr, self))
