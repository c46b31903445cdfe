"""A finding that is its numbers."""

from carousel.lab.measured import Measured
from carousel.report import Page, figure


class Small(Measured):
    name, title, claims = "small", "A small one", ()
    captions = {"line": ("The line", "Two points.")}

    @staticmethod
    def lead(numbers):
        return f"There are {len(numbers['values'])} values."

    @staticmethod
    def table(numbers):
        return ["k", "value"], [[str(k), str(v)] for k, v in enumerate(numbers["values"])]

    def setup(self):
        return ["Nothing was run."]

    def figures(self):
        return {"line": figure(200).add_scatter(y=self.measured["values"])}


def test_figure_table_and_text_are_made_from_the_numbers():
    small = Small({"values": (3, 5)}, 1.5)
    assert small.measured == {"values": [3, 5], "seconds": 1.5}  # as JSON has them
    page = Page("")
    small.render(page)
    html = page.html()
    assert page.figures == 1 and "The line" in html and "Two points." in html
    assert html.count("<tr>") == 3 and str(small).splitlines()[2].split() == ["1", "5"]
