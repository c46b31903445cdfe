import numpy as np
import pandas as pd
from neuralforecast import NeuralForecast
from neuralforecast.models import LSTM

PACKAGE = "neuralforecast"
ABOUT = "LSTM forecaster, `fit` of 20 steps and `predict`"


def prepare():
    times = pd.date_range("2020", periods=200, freq="D")
    values = np.sin(np.arange(200) / 5) + 0.1 * np.random.randn(8, 200)
    frame = pd.concat([pd.DataFrame({"unique_id": k, "ds": times, "y": v}) for k, v in enumerate(values)])

    def step():
        model = LSTM(
            h=12, input_size=60, max_steps=20, encoder_hidden_size=64, encoder_n_layers=2, batch_size=8, random_seed=1,
            accelerator="cpu", enable_progress_bar=False, logger=False, enable_checkpointing=False,
            windows_batch_size=64, enable_model_summary=False, recurrent=False,
        )  # fmt: skip
        forecast = NeuralForecast(models=[model], freq="D")
        forecast.fit(frame)
        return forecast.predict()["LSTM"].to_numpy()

    return step
