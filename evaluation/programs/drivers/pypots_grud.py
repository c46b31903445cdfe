import numpy as np
from pypots.classification import GRUD

PACKAGE = "pypots"
ABOUT = "GRU-D (`GRUCell`), one epoch of 64 series"


def prepare():
    x, y = np.random.randn(64, 48, 10).astype(np.float32), np.random.randint(0, 2, 64)
    x[np.random.rand(*x.shape) < 0.2] = np.nan
    model = GRUD(
        n_steps=48, n_features=10, n_classes=2, rnn_hidden_size=64, batch_size=16, epochs=1, device="cpu", verbose=False
    )

    def step():
        model.fit({"X": x, "y": y})
        return model.predict({"X": x})["classification_proba"]

    return step
