import torch
from stanza.models.common.hlstm import HighwayLSTM
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

PACKAGE = "stanza"
ABOUT = "the parser's highway BiLSTM on packed sentences, one training step"


def prepare():
    model = HighwayLSTM(100, 200, 2, batch_first=True, bidirectional=True, highway_func=torch.tanh)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    lengths = sorted(torch.randint(5, 40, (16,)).tolist(), reverse=True)
    x = torch.randn(16, lengths[0], 100)

    def step():
        optimizer.zero_grad()
        output, _ = model(pack_padded_sequence(x, lengths, batch_first=True), lengths)
        padded, _ = pad_packed_sequence(output, batch_first=True)
        loss = padded.square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step
