import torch
from opacus import PrivacyEngine
from opacus.layers import DPLSTM
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PACKAGE = "opacus"
ABOUT = "`DPLSTM` under a `PrivacyEngine`, 4 batches (its own cells: nothing to accelerate)"


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = DPLSTM(16, 32, batch_first=True), nn.Linear(32, 3)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


def prepare():
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = DataLoader(TensorDataset(torch.randn(64, 10, 16), torch.randint(3, (64,))), 16)
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0,
        poisson_sampling=False,
    )  # fmt: skip

    def step():
        losses = []
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        return losses

    return step
