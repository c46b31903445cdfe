import numpy as np
from darts import TimeSeries
from darts.models import BlockRNNModel

PACKAGE = "darts"
QUIET = ("enable_progress_bar", "enable_model_summary")
ABOUT = "`BlockRNNModel` LSTM, one epoch"


def prepare():
    series = TimeSeries.from_values(np.sin(np.arange(400) / 5).astype(np.float32) + 0.1 * np.random.randn(400))
    series = series.astype(np.float32)
    model = BlockRNNModel(
        48, 12, model="LSTM", hidden_dim=64, n_rnn_layers=2, dropout=0.0, batch_size=32, n_epochs=1, random_state=0,
        pl_trainer_kwargs={"accelerator": "cpu", "logger": False} | dict.fromkeys(QUIET, False),
    )  # fmt: skip

    def step():
        model.fit(series, epochs=1, verbose=False)
        return model.predict(12, verbose=False).values().flatten()

    return step
