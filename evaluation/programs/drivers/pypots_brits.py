import numpy as np
from pypots.imputation import BRITS

PACKAGE = "pypots"
ABOUT = "BRITS (`LSTMCell`), one epoch of 64 series"


def prepare():
    x = np.random.randn(64, 24, 10).astype(np.float32)
    x[np.random.rand(*x.shape) < 0.2] = np.nan
    model = BRITS(n_steps=24, n_features=10, rnn_hidden_size=64, batch_size=16, epochs=1, device="cpu", verbose=False)

    def step():
        model.fit({"X": x})
        return model.predict({"X": x})["imputation"].mean((0, 1))

    return step
