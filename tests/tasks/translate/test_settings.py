"""Settings of the translator: which go together, and their choices."""

from typing import get_args

import pytest
from helpers.translators import untrained

from carousel.errors import SettingsError
from carousel.networks.attention import Attention
from carousel.networks.decoder import InitName
from carousel.tasks.translate.settings import TranslateSettings


def test_every_kind_of_attention_and_initial_state_can_be_chosen():
    fields = TranslateSettings.model_fields
    assert get_args(fields["attention"].annotation) == (*Attention.names, "none")
    assert get_args(fields["init"].annotation) == get_args(InitName)


def test_the_share_of_true_tokens_changes_in_a_straight_line():
    settings = untrained(teacher_forcing=0.9, teacher_forcing_end=0.5).settings
    assert [round(settings.teacher_share(p), 6) for p in (0, 0.5, 1)] == [0.9, 0.7, 0.5]
    assert untrained(teacher_forcing=0.9).settings.teacher_share(1) == 0.9


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tied": "all"}, "tied='all' needs one vocabulary for both languages"),
        ({"attention": "none", "input_feeding": True}, "input_feeding: it feeds what attention found"),
        ({"attention": "none", "decoder": "bahdanau"}, "decoder='bahdanau': its step reads the context"),
        ({"decoder": "bahdanau", "input_feeding": True}, "input_feeding: the step of decoder='bahdanau'"),
        ({"attention": "none", "init": "zeros"}, "leaves the decoder blind"),
        ({"attention": "dot", "decoder_hidden": 7}, "attention='dot' needs decoder_hidden to be 12"),
        ({"init": "last", "decoder_hidden": 7}, "init='last' needs decoder_hidden to be 12"),
        ({"init": "last", "decoder_layers": 2}, "init='last' needs a decoder with no more layers"),
        ({"attention": "cosine"}, "attention: .*'none'"),
        ({"train": ["a", "b", "c"]}, "train: .*two line-aligned files, or one TSV, got "),
        ({"source_column": 2}, "target_column: 2 is source_column too"),
    ],
)
def test_settings_that_cannot_be(settings, given, said):
    with pytest.raises(SettingsError, match=said):
        settings(**given)
