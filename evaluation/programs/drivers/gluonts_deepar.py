import torch
from gluonts.torch.model.deepar.module import DeepARModel

PACKAGE = "gluonts[torch]"
ABOUT = "DeepAR, one training step of 32 series"


def prepare():
    model = DeepARModel(
        freq="H", context_length=48, prediction_length=24, num_feat_dynamic_real=1, num_feat_static_real=1,
        num_feat_static_cat=1, cardinality=[1], hidden_size=64, num_layers=2, dropout_rate=0.0,
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    past = model._past_length
    batch = {
        "feat_static_cat": torch.zeros(32, 1, dtype=torch.long), "feat_static_real": torch.zeros(32, 1),
        "past_time_feat": torch.randn(32, past, 1), "past_target": torch.randn(32, past),
        "past_observed_values": torch.ones(32, past), "future_time_feat": torch.randn(32, 24, 1),
        "future_target": torch.randn(32, 24), "future_observed_values": torch.ones(32, 24),
    }  # fmt: skip

    def step():
        optimizer.zero_grad()
        loss = model.loss(**batch).mean()
        loss.backward()
        optimizer.step()
        return loss

    return step
