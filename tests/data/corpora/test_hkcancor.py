"""CHAT transcripts become columns of words and tags."""

from itertools import chain
from pathlib import Path

from carousel.data import corpora
from carousel.data.corpora.hkcancor import utterances


def test_hkcancor_becomes_columns_and_a_conversation_stays_together(registry):
    registry.offer("hkcancor")
    source = corpora.get(corpora.find("hkcancor")).source
    blocks = {part: Path(f"data/hkcancor/{part}.conll").read_text("utf-8") for part in ("train", "dev", "test")}
    sentences = {part: text.removesuffix("\n").split("\n\n") for part, text in blocks.items()}
    assert sorted(chain(*sentences.values())) == sorted(f"去\tv\n旅行{n}\tvn\n?\tw" for n in range(40) for _ in "ab")
    assert not set(sentences["train"]) & set(sentences["dev"])
    assert list(source["left_out"].values()) == [80, 80]  # no tags; nothing but marks
    assert list(source["changed"].values()) == [80]


def test_utterances_without_a_tier_of_tags_come_without_tags():
    chat = "@Begin\n*XXA:\t去\n*XXB:\t吓 ?\n%mor:\ty|haa2 ?\n%mor:\tx|again\n*XXA:\t係\n@End"
    assert list(utterances(chat)) == [(["去"], []), (["吓", "?"], ["y|haa2", "?"]), (["係"], [])]
    assert list(utterances("")) == []
    assert list(utterances("*XXA:\ta\r\n\tb\r\n%mor:\tv|a\r\n\tn|b")) == [(["a", "b"], ["v|a", "n|b"])]
