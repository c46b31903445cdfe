"""What a page shows, as a browser would read it."""

import base64
import gzip
import json
import re


def figures(html):
    """Each figure of a page: its data and layout."""
    return [json.loads(part) for part in re.findall(r'<script type="application/json">(.*?)</script>', html, re.S)]


def plotly(html):
    """The JavaScript that draws them."""
    [packed] = re.findall(r'<script id="plotly" type="application/gzip">(.*?)</script>', html)
    return gzip.decompress(base64.b64decode(packed)).decode()


def rows(html, *columns):
    """The rows of the table whose header begins with `columns`, as the HTML in their cells."""
    head = "".join(f'<th scope="col"[^>]*>{re.escape(column)}</th>' for column in columns)
    found = re.search(f"<thead><tr>{head}.*?<tbody>(.*?)</tbody>", html)
    assert found, f"no table {columns}"
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall("<tr>(.*?)</tr>", found[1])]
