from types import SimpleNamespace

import torch
from joeynmt.model import build_model
from joeynmt.vocabulary import Vocabulary

PACKAGE = "joeynmt"
ABOUT = "attentional GRU translator, one training step"


def prepare():
    special = SimpleNamespace(
        unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None,
        unk_id=0, pad_id=1, bos_id=2, eos_id=3, sep_id=None, lang_tags=[],
    )  # fmt: skip
    vocabulary = Vocabulary([f"w{k}" for k in range(500)], special)
    side = {"type": "recurrent", "rnn_type": "gru", "embeddings": {"embedding_dim": 64}, "hidden_size": 128}
    side |= {"dropout": 0.0}
    config = {
        "encoder": side | {"bidirectional": True, "num_layers": 1},
        "decoder": side | {"num_layers": 1, "attention": "luong", "init_hidden": "last", "input_feeding": True},
    }
    model = build_model(config, vocabulary, vocabulary)
    model.loss_function = ("crossentropy", 0.0)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    src, trg = torch.randint(4, 500, (16, 20)), torch.randint(4, 500, (16, 20))
    batch = {
        "src": src, "src_mask": torch.ones(16, 1, 20, dtype=torch.bool), "src_length": torch.full((16,), 20),
        "trg_input": trg[:, :-1], "trg": trg[:, 1:], "trg_mask": torch.ones(16, 1, 19, dtype=torch.bool),
        "trg_prompt_mask": None,
    }  # fmt: skip

    def step():
        optimizer.zero_grad()
        loss, _, _, _ = model(return_type="loss", **batch)
        loss.backward()
        optimizer.step()
        return loss

    return step
