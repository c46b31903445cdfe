"""An ensemble of taggers: the mean of their probabilities of tags, or, with CRFs, of their scores."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from ...data.stores.examples import ExampleBatch
from ...networks.crf import CRF
from ..shared.ensemble import Ensemble, mean_log_prob
from .network import TaggerNetwork


class TaggerEnsemble(Ensemble, TaggerNetwork):
    """Taggers as one. With CRFs, emissions and transitions are the means of the members': a tagging is as probable as
    the geometric mean of what the members give it, normalised."""

    def __init__(self, members: Sequence[TaggerNetwork]) -> None:
        super().__init__(members)
        self.crf = mean_crf([member.crf for member in members if member.crf is not None])

    def emissions(self, batch: ExampleBatch) -> Tensor:
        """A score for each tag of each word, (T, B, K); without a CRF, its log-probability."""
        each = [member.emissions(batch) for member in self.members]
        return mean_log_prob(each) if self.crf is None else torch.stack(each).mean(0)


def mean_crf(crfs: Sequence[CRF]) -> CRF | None:
    """A CRF whose transitions are the means of theirs; None if there are none."""
    if not crfs:
        return None
    mean = copy.deepcopy(crfs[0]).requires_grad_(False)
    for parameter, *each in zip(mean.parameters(), *(crf.parameters() for crf in crfs), strict=True):
        parameter.copy_(torch.stack([one.detach() for one in each]).mean(0))
    return mean
