"""The small language pair: translations by a rule, and decoders step by step against all steps at once."""

import pytest
import torch

from carousel.lab.transduction import KINDS, SOURCE, TARGET, Translator, draw, real_targets, spell


def translate(source):
    """Source tokens as letters → target tokens as letters, by the rules in words."""
    target, k = [], 0
    while k < len(source):
        letter, variant = source[k][0], source[k][1]
        match letter:
            case "a":
                target.append(f"A{variant}")
            case "b":
                target.append(f"B{variant}")
            case "d":
                target += [f"D{variant}", f"E{variant}"]
            case "f":
                target += [f"G{source[k + 1][1]}", f"F{variant}"]
        k += 2 if letter in "bf" else 1
    return target


def test_every_sentence_is_translated_by_the_rules():
    torch.manual_seed(0)
    batch = draw(60, 4)
    kinds = set()
    for b in range(60):
        source = spell(batch.source[: batch.source_lengths[b], b].tolist(), SOURCE)
        target = spell(batch.targets[: batch.lengths[b], b].tolist(), TARGET)
        assert source.pop() == target.pop() == "[END]"
        assert target == translate(source)
        for token, (kind, places) in zip(target, batch.aligned[b], strict=True):
            letters = {source[place][0].upper() for place in places}
            assert letters == {"A": {"A"}, "B": {"B", "C"}, "D": {"D"}, "E": {"D"}, "F": {"F"}, "G": {"G"}}[token[0]]
            kinds.add(kind)
    assert kinds == {kind for kind, (_, to) in KINDS.items() if to}


@pytest.mark.parametrize("decoder", ["luong", "input-feeding", "bahdanau"])
def test_one_step_after_the_other_is_all_at_once(decoder):
    torch.manual_seed(0)
    network, batch = Translator("additive", decoder), draw(8, 3)
    with torch.no_grad():
        scores = network(batch)[0]
        torch.testing.assert_close(network.free(batch, 1.0), scores, atol=1e-5, rtol=1e-4)
        expected = torch.nn.functional.cross_entropy(scores, real_targets(batch))
    torch.testing.assert_close(network.loss(batch).detach(), expected)


def test_a_sentence_is_right_if_all_of_its_tokens_are(monkeypatch):
    network, batch = Translator("none", "luong"), draw(4, 3)
    right = torch.nn.functional.one_hot(real_targets(batch), network.output.out_features).float()
    monkeypatch.setattr(network, "free", lambda batch, share: right)
    assert network.accuracy(batch) == 1
    last = int(batch.lengths.sum()) - 1
    right[last] = 0  # the last token of the last sentence
    assert network.accuracy(batch) == 0.75
