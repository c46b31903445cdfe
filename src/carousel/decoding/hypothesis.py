"""What a search gives back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """One sequence found, without its prompt.

    `tokens` ends with the end token if the sequence is `finished`; `token_log_probs` are the model's log-probabilities
    of these tokens, one each, and `log_prob` is their sum. `score` is what the search ranks by: `log_prob`, with
    whatever constraints added to it, normalised by length.

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
    """One token of a stream: the `copy`-th sample (0 unless several are drawn) of prompt `item` goes on with `token`.

    `last` says that this sequence ends here, by its end token or at its length limit.

    >>> Chosen(item=0, copy=0, token=42, log_prob=-0.7, last=False).token
    42
    """

    item: int
    copy: int
    token: int
    log_prob: float
    last: bool
