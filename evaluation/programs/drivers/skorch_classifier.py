import numpy as np
import torch
from skorch import NeuralNetClassifier
from torch import nn

PACKAGE = "skorch"
ABOUT = "`NeuralNetClassifier` over a GRU, one epoch"


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.GRU(16, 64, batch_first=True), nn.Linear(64, 3)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1]).softmax(-1)


def prepare():
    x, y = np.random.randn(128, 40, 16).astype(np.float32), np.random.randint(0, 3, 128)
    net = NeuralNetClassifier(
        Classifier, max_epochs=1, lr=0.01, batch_size=16, optimizer=torch.optim.Adam, train_split=None, verbose=0,
        iterator_train__shuffle=False,
    )  # fmt: skip

    def step():
        net.partial_fit(x, y)
        return net.history[-1, "train_loss"]

    return step
