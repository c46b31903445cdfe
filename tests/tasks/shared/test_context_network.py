"""The layers of an embedder, mixed by learnt shares."""

import numpy as np
import torch

from carousel.tasks.shared.context_network import ScalarMix


def test_the_mix_by_hand():
    mix = ScalarMix(3).double()
    with torch.no_grad():
        mix.scores.copy_(torch.tensor([0.0, np.log(2), np.log(5)]))
        mix.gamma.fill_(4.0)
    layers = [torch.full((2, 2), value, dtype=torch.float64) for value in (8.0, 16.0, 24.0)]
    expected = 4 * (8 / 8 + 16 * 2 / 8 + 24 * 5 / 8)
    torch.testing.assert_close(mix(layers), torch.full((2, 2), expected, dtype=torch.float64))
    assert torch.autograd.gradcheck(lambda *layers: mix(layers), [layer.requires_grad_() for layer in layers])
