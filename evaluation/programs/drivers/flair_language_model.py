import flair
import torch
from flair.data import Dictionary
from flair.models import LanguageModel

PACKAGE = "flair"
ABOUT = "character language model, one training step"


def prepare():
    flair.device = torch.device("cpu")
    dictionary = Dictionary()
    for character in "abcdefghijklmnopqrstuvwxyz .,":
        dictionary.add_item(character)
    model = LanguageModel(dictionary, is_forward_lm=True, hidden_size=256, nlayers=1, dropout=0.0)
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    data = torch.randint(len(dictionary), (61, 16))

    def step():
        optimizer.zero_grad()
        output, _, _ = model(data[:-1], model.init_hidden(16))
        loss = torch.nn.functional.cross_entropy(output.flatten(0, 1), data[1:].flatten())
        loss.backward()
        optimizer.step()
        return loss

    return step
