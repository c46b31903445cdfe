import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PACKAGE = "lightning"
ABOUT = "`Trainer.fit` of a 2-layer LSTM, 20 batches"


class Regressor(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.rnn, self.head, self.losses = nn.LSTM(8, 64, 2, batch_first=True), nn.Linear(64, 1), []

    def training_step(self, batch, _):
        x, y = batch
        loss = nn.functional.mse_loss(self.head(self.rnn(x)[0][:, -1]), y)
        self.losses.append(float(loss.detach()))
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)


def prepare():
    loader = DataLoader(TensorDataset(torch.randn(320, 40, 8), torch.randn(320, 1)), 16)
    model = Regressor()

    def step():
        trainer = lightning.Trainer(
            max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu",
            enable_model_summary=False,
        )  # fmt: skip
        trainer.fit(model, loader)
        return model.losses[-20:]

    return step
