import torch
from captum.attr import IntegratedGradients
from torch import nn

PACKAGE = "captum"
ABOUT = "integrated gradients of an LSTM, 50 points"


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(16, 64, batch_first=True), nn.Linear(64, 3)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


def prepare():
    attribution, x = IntegratedGradients(Classifier()), torch.randn(4, 30, 16)
    return lambda: attribution.attribute(x, target=1, n_steps=50)
