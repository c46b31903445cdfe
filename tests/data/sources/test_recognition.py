"""What a file holds, by its first rows."""

import pytest

from carousel.data.sources.recognition import recognise

PREMISES = "".join(f"a man runs {k}\ta dog {k} sleeps\t{k % 3}\n" for k in range(60))


@pytest.mark.parametrize(
    ("name", "text", "content"),
    [
        ("t.csv", "Month,Passengers\n1949-01,112\n1949-02,118\n", "a time series"),
        ("t.csv", "year,x\n1950,1\n1951,2\n1952,\n", "a time series"),
        ("t.csv", "1949-01,112\n1949-02,118\n", "a time series"),
        ("t.tsv", "x\ty\n1\t2.5\n3\tNA\n", "a time series"),
        ("t.csv", "date;city;temp\n2020-01-01;Rome;12\n2020-01-02;Rome;14\n", "a time series"),
        ("t.csv", "date,text,label\n2020-01-01,fine,1\n2020-01-02,dull,0\n", None),
        ("t.csv", "text,label\nfine,1\ndull,0\n", None),
        ("t.tsv", "a fine film\tgood\na dull one\tbad\n" * 30, None),
        ("t.csv", "t0,t1,t2,t3,label\n1,2,3,4,a\n5,6,7,,b\n", "sequences of numbers"),
        ("t.csv", "t0,t1,t2,t3,label\n1,2,3,4,0\n5,6,7,8,1\n", "sequences of numbers"),
        ("t.tsv", "wave\t1\t2\t3\t4\npoint\t5\t6\t7\t8\n", "sequences of numbers"),
        ("t.csv", "t,a,b,c,d\n2020-01,1,2,3,4\n2020-02,5,6,7,8\n", "a time series"),
        ("t.csv", "text,a,b,c,d\na fine film,1,2,3,4\na dull one,5,6,7,8\n", None),
        ("t.tsv", "1\ta fine film\n2\ta dull one\n", None),  # labels are numbers, not times
        ("t.tsv", "id\tsentence_A\tsentence_B\tscore\n1\ta\tb\t2.5\n", "labelled pairs"),
        ("t.tsv", PREMISES, "labelled pairs"),
        ("t.jsonl", '{"premise": "a", "hypothesis": "b", "label": 1}\n', "labelled pairs"),
        ("t.jsonl", '{"text": "a", "label": 1}\n', None),
        ("t.jsonl", "[" * 99999, None),
        ("t.tsv", "".join(f"word {k}\tWort {k}\n" for k in range(60)), "translations"),
        ("t.txt", "(3 (2 fine) (2 film))\n(1 (2 dull) (1 one))\n", "trees"),
        ("t.txt", "(a note in brackets)\n(another)\n", None),
        ("t.txt", "Ada\tB-PER\nsat\tO\n\nHi\tO\n", "tagged words"),
        ("t.txt", "-DOCSTART- -X- O\n\nAda NNP B-PER\nsat VBD O\n\nHi UH O\n", "tagged words"),
        ("t.txt", "two words\n\nin verse\n", None),
        ("t.csv", "a,b\n1\n", None),
        ("t.csv", 'a,"b\n', None),
        ("t.csv", "\n", None),
        ("t.dat", "1949-01,112\n", None),
    ],
)
def test_by_the_first_rows(text_file, name, text, content):
    assert recognise(text_file(text, name)) == content
