"""Forecasters as they are before training, with the data of their settings."""

import torch

from carousel.tasks.forecast.data import prepare
from carousel.tasks.forecast.network import ForecasterNetwork
from carousel.tasks.forecast.predictor import Forecaster


def untrained(settings, std=None, seed=0):
    """A model in eval mode and its data; with `std`, all parameters are normal with that deviation."""
    torch.manual_seed(seed)
    assets, data = prepare(settings)
    network = ForecasterNetwork(settings, assets).eval()
    if std is not None:
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter, std=std)
    return Forecaster(network, assets), data
