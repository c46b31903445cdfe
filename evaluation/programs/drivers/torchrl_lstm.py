import torch
from tensordict import TensorDict
from torchrl.modules import LSTMModule

PACKAGE = "torchrl"
ABOUT = "`LSTMModule` of a policy, 200 environment steps without gradients"


def prepare():
    module = LSTMModule(input_size=32, hidden_size=128, in_key="observation", out_key="features")
    state = TensorDict(
        {"observation": torch.randn(1, 32), "is_init": torch.zeros(1, 1, dtype=torch.bool)}, batch_size=[1]
    )

    def step():
        data = state.clone()
        data["recurrent_state_h"], data["recurrent_state_c"] = torch.zeros(1, 1, 128), torch.zeros(1, 1, 128)
        with torch.no_grad():
            for _ in range(200):
                data = module(data)
                data["recurrent_state_h"] = data["next", "recurrent_state_h"]
                data["recurrent_state_c"] = data["next", "recurrent_state_c"]
        return data["features"]

    return step
