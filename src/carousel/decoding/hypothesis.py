"""Results of a search: hypotheses, and single tokens of a stream."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """A sequence found by a search, without its prompt.

    `tokens` ends with the end token if the sequence is `finished`. `token_log_probs` are the model's log-probabilities
    of these tokens, and `log_prob` is their sum. `score` ranks complete hypotheses: `log_prob`, plus what constraints
    added, normalised by length.

    >>> h = Hypothesis((4, 7, 2), -3.0, -1.0, (-1.0, -1.5, -0.5), True)
    >>> h.tokens, h.score
    ((4, 7, 2), -1.0)
    """

    tokens: tuple[int, ...]
    log_prob: float
    score: float
    token_log_probs: tuple[float, ...]
    finished: bool


@dataclass(frozen=True)
class Chosen:
    """One token of a stream: the next one of sample number `copy` (0 unless there are several) of prompt `item`.

    `last`: the sequence ends here, by its end token or at the length limit.

    >>> Chosen(item=0, copy=0, token=42, log_prob=-0.7, last=False).token
    42
    """

    item: int
    copy: int
    token: int
    log_prob: float
    last: bool
