import numpy as np
import pandas as pd
import torch
from pytorch_forecasting import RecurrentNetwork, TimeSeriesDataSet

PACKAGE = "pytorch-forecasting"
ABOUT = "`RecurrentNetwork`, one training step"


def prepare():
    names = np.repeat([f"s{k}" for k in range(8)], 120)
    frame = pd.DataFrame({"time": np.tile(np.arange(120), 8), "series": names, "y": np.random.randn(960)})
    data = TimeSeriesDataSet(
        frame, "time", "y", ["series"], max_encoder_length=48, max_prediction_length=12,
        time_varying_unknown_reals=["y"], target_normalizer=None,
    )  # fmt: skip
    model = RecurrentNetwork.from_dataset(data, cell_type="LSTM", hidden_size=64, rnn_layers=2, dropout=0.0)
    x, (y, _) = next(iter(data.to_dataloader(train=False, batch_size=32, num_workers=0)))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x)["prediction"].squeeze(-1), y)
        loss.backward()
        optimizer.step()
        return loss

    return step
