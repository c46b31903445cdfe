import gymnasium
from sb3_contrib import RecurrentPPO
from stable_baselines3.common.utils import set_random_seed

PACKAGE = "sb3-contrib"
ABOUT = "RecurrentPPO on CartPole, 256 environment steps"


def prepare():
    set_random_seed(0)
    model = RecurrentPPO(
        "MlpLstmPolicy", gymnasium.make("CartPole-v1"), n_steps=128, batch_size=64, n_epochs=4, seed=0, device="cpu",
        policy_kwargs={"lstm_hidden_size": 128},
    )  # fmt: skip

    def step():
        model.learn(256, reset_num_timesteps=False)
        return [float(p.detach().sum()) for p in model.policy.parameters()]

    return step
