"""Models that have not been trained."""


def new_model(task, settings):
    """A new model of `task`, and the data that `settings` name."""
    assets, data = task.prepare(settings)
    return task.make_model(task.make_network(settings, assets), assets), data
