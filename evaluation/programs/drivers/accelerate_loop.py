import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PACKAGE = "accelerate"
ABOUT = "`Accelerator.prepare`, bidirectional GRU, 10 batches"


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn = nn.Embedding(500, 64), nn.GRU(64, 64, batch_first=True, bidirectional=True)
        self.head = nn.Linear(128, 12)

    def forward(self, x):
        return self.head(self.rnn(self.embed(x))[0])


def prepare():
    accelerator, model = Accelerator(cpu=True), Tagger()
    data = TensorDataset(torch.randint(500, (160, 30)), torch.randint(12, (160, 30)))
    model, optimizer, loader = accelerator.prepare(
        model, torch.optim.Adam(model.parameters(), 1e-3), DataLoader(data, 16)
    )

    def step():
        losses = []
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
            accelerator.backward(loss)
            optimizer.step()
            losses.append(float(loss.detach()))
        return losses

    return step
