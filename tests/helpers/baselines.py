"""What `carousel.baseline` gives."""


def by_name(found):
    return {one.name: one.value for one in found.results}
