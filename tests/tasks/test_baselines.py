"""The baselines of each task against numbers worked out by hand, scikit-learn itself, and definitions written out."""

import itertools
import math
import random
from collections import Counter, defaultdict
from datetime import date, timedelta

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import carousel
from carousel.metrics import pearson
from carousel.tasks import find
from carousel.tasks.shared import baselines as shared
from carousel.tasks.shared.ngrams import KneserNey, Text, order_for


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))


def by_name(found):
    return {one.name: one.value for one in found.results}


# ---------------------------------------------------------------- labelled texts, trees and pairs


def test_majority_and_linear_model_of_texts():
    train = [("red rose", "flower"), ("oak", "tree"), ("red oak", "tree"), ("tall oak", "tree"), ("a rose", "flower")]
    dev = [("a red rose", "flower"), ("the rose", "flower"), ("an oak", "tree")]
    found = by_name(carousel.baseline("classify", train, dev=dev))
    assert found == {"majority class": 1 / 3, shared.LINEAR: 1.0}


def test_columns_are_those_of_the_settings(tmp_path):
    for name, rows in {
        "train": ["1,RED,a", "2,red,a", "3,BLUE,b", "4,blue,b"],
        "dev": ["5,red,a", "6,blue red blue,b"],
    }.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,hue,kind", *rows]) + "\n")
    found = carousel.baseline(
        "classify", tmp_path / "train.csv", dev=tmp_path / "dev.csv", text_column="hue", label_column="kind"
    )
    assert by_name(found) == {"majority class": 0.5, shared.LINEAR: 1.0}


def test_what_is_held_out_of_train_is_measured_on(tmp_path):
    """Without dev the split is the task's: here 10 of 50 texts, which `prepare` holds out too."""
    rows = [(f"text {k} {'red' if k % 3 else 'blue'}", "yes" if k % 3 else "no") for k in range(50)]
    task = find("classify")
    path = tmp_path / "all.tsv"
    path.write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    found = by_name(carousel.baseline("classify", path, dev_split=0.2))
    assets, data = task.prepare(task.Settings.read({"train": path, "dev_split": 0.2}))
    gold = data.dev.store["labels"].values
    assert len(gold) == 10 and found["majority class"] == np.mean(gold == assets.labels.index("yes"))
    assert found[shared.LINEAR] == 1.0


def test_a_sample_of_too_much_text_is_named(monkeypatch):
    monkeypatch.setattr(shared, "CHARACTERS", 40)
    rows = [("good film", "pos"), ("dull film", "neg")] * 10
    names = [one.name for one in carousel.baseline("classify", rows, dev=rows[:2]).results]
    assert names == ["majority class", f"{shared.LINEAR} (on 4 of 20 texts)"]


def test_trees_by_length_and_by_the_sentence(tmp_path):
    """Sentences of two words are mostly 1, of three 0; the majority class is 1; `joined` leaves out a label."""
    two, three = "({} (2 {}) (2 b))", "({} (2 (2 {}) (2 b)) (2 c))"
    train = [two.format(1, "x"), two.format(1, "y"), two.format(1, "z"), two.format(0, "w")]
    train += [three.format(0, "x"), three.format(0, "z"), three.format(1, "z"), three.format(2, "v")]
    dev = [two.format(1, "q"), three.format(0, "q"), three.format(1, "q"), two.format(2, "q")]
    (tmp_path / "train.txt").write_text("\n".join(train) + "\n")
    (tmp_path / "dev.txt").write_text("\n".join(dev) + "\n")
    found = carousel.baseline("tree", tmp_path / "train.txt", dev=tmp_path / "dev.txt", classes="no=0;yes=1")
    values = by_name(found)
    assert values["majority class"] == 2 / 3  # 1, 0, 1 by always 1; the root 2 does not count
    assert values["most frequent class by length"] == 2 / 3  # 1 right, 0 right, 1 wrong
    assert shared.LINEAR in values


def test_overlap_of_scored_pairs():
    train = [("a b c", "a b c", "5.0"), ("a b", "c d", "1.0"), ("a b c", "a b d", "3.5"), ("x y", "x z", "2.5")]
    dev = [("a b", "a b", "4.5"), ("a b", "a d", "2.0"), ("a b", "c d", "1.5")]
    found = carousel.baseline("encode", train, dev=dev)
    values = by_name(found)
    assert found.metric == "pearson" and values["mean score"] == 0
    assert values["overlap of words (Jaccard)"] == pytest.approx(pearson([4.5, 2.0, 1.5], [1, 1 / 3, 0]))
    assert values["overlap of words and characters + linear regression"] > 0.5


def test_pairs_with_classes():
    """What decides is whether the texts are equal: neither text alone says anything of it."""
    words = ["red", "blue", "green", "black", "white"]
    rows = [(a, b, "same" if a == b else "other") for a in words for b in words]
    rows += [(a, a, "same") for a in words] * 2
    found = by_name(carousel.baseline("encode", rows, dev=rows[:25]))
    assert found["majority class"] == 20 / 25
    assert found["TF-IDF of both texts and their overlap + linear SVC"] == 1.0


# ---------------------------------------------------------------- tags


def test_most_frequent_tag_and_crf(tmp_path):
    """`run` is a noun after `the`, else a verb, which only a neighbour tells; of each word alone, a verb."""
    lines = {
        "a": "the/DET run/NOUN ends/VERB",
        "b": "they/PRON run/VERB",
        "c": "we/PRON run/VERB",
        "d": "the/DET end/NOUN",
    }

    def write(name, keys):
        text = "\n\n".join("\n".join(pair.replace("/", "\t") for pair in lines[key].split()) for key in keys)
        (tmp_path / name).write_text(text + "\n")
        return tmp_path / name

    found = carousel.baseline("tag", write("train.conll", "aabbbccd"), dev=write("dev.conll", "ab"))
    frequent, perceptron, crf = found.results
    assert found.metric == "accuracy" and frequent.value == 4 / 5
    assert crf.name == "CRF on hand-made features" and (perceptron.value, crf.value) == (1.0, 1.0)


def test_spans_are_scored_by_f1(tmp_path):
    train = "Ada\tB-PER\nLee\tI-PER\nsat\tO\n\nin\tO\nRome\tB-LOC\n\nLee\tB-PER\nsat\tO\n\nLee\tB-PER\nran\tO\n"
    (tmp_path / "train.conll").write_text(train)
    (tmp_path / "dev.conll").write_text("Ada\tB-PER\nLee\tI-PER\nsat\tO\nin\tO\nRome\tB-LOC\n")
    found = carousel.baseline("tag", tmp_path / "train.conll", dev=tmp_path / "dev.conll", train_scheme="iob2")
    # Ada is B-PER, Lee mostly B-PER too: spans Ada, Lee, Rome for Ada Lee, Rome; one right of 3 found, 2 there
    assert found.metric == "span_f1" and found.results[0].value == pytest.approx(2 * 1 / (3 + 2))


# ---------------------------------------------------------------- n-grams


@pytest.fixture(scope="module")
def corpus():
    """Sentences over a vocabulary of 9, of which [UNK] and one more never occur, and the model of order 4."""
    draw = random.Random(0)
    sentences = [[draw.choice([4, 5, 5, 6, 6, 6, 7]) for _ in range(draw.randint(1, 9))] for _ in range(60)]
    return [[1, *one, 2] for one in sentences], KneserNey(as_text(sentences), 9, 4)


def as_text(lines):
    return Text.lines(np.concatenate(lines), np.array([len(line) for line in lines]))


def test_kneser_ney_is_its_definition(corpus):
    """Counts, discounts and interpolation by dictionaries, as in Chen and Goodman (1998)."""
    sentences, model = corpus
    order = 4
    occurrences = {
        n: Counter(tuple(s[i - n + 1 : i + 1]) for s in sentences for i in range(max(1, n - 1), len(s)))
        for n in range(1, order + 1)
    }
    counts = {order: occurrences[order]}
    for n in range(1, order):
        before = defaultdict(set)
        for gram in occurrences[n + 1]:
            before[gram[1:]].add(gram[0])
        counts[n] = {g: c if g[0] == 1 else len(before[g]) for g, c in occurrences[n].items()}

    def discount(n, count):
        times = Counter(counts[n].values())
        if not (times[1] and times[2] and times[3]):
            return (0, 0.5, 1, 1.5)[min(count, 3)]
        y = times[1] / (times[1] + 2 * times[2])
        k = min(count, 3)
        return min(max(k - (k + 1) * y * times[k + 1] / times[k], 0.05), k) if k else 0

    def probability(token, context):
        lower = probability(token, context[1:]) if context else 1 / 7
        n = len(context) + 1
        follow = {gram[-1]: count for gram, count in counts[n].items() if gram[:-1] == context}
        if not follow:
            return lower
        total, count = sum(follow.values()), follow.get(token, 0)
        left = sum(discount(n, c) for c in follow.values()) / total
        return max(count - discount(n, count), 0) / total + left * lower

    new = [[1, 6, 6, 8, 5, 5, 5, 2], [1, 3, 7, 2], *sentences[:6]]
    wanted = [math.log(probability(s[i], tuple(s[max(0, i - 3) : i]))) for s in new for i in range(1, len(s))]
    read = as_text([one[1:-1] for one in new])
    assert model.log_probs(read) == pytest.approx(wanted, abs=1e-12)
    assert model.perplexity(read) == pytest.approx(math.exp(-np.mean(wanted)))


def test_probabilities_sum_to_one_in_every_context(corpus):
    _, model = corpus
    for length in range(4):
        for context in itertools.product((3, 4, 5, 6, 7), repeat=length):
            for start in ((1,), (1, 4)):  # at the start of a sequence, and after something else
                rows = np.array([[*start, *context, token] for token in range(2, 9)])
                text = Text(rows.ravel(), np.tile(np.arange(rows.shape[1]), 7))
                last = model.log_probs(text).reshape(7, -1)[:, -1]
                assert np.exp(last).sum() == pytest.approx(1, abs=1e-12)


def test_discounts_by_hand():
    """Of a, b, a, b, a, c: bigrams ab 2, ba 2, ac 1, and [START] a. Too few for estimates: ½, 1, 1½."""
    text = Text.running(np.array([4, 5, 4, 5, 4, 6]))
    model = KneserNey(text, 7, 2)
    # tokens before a: [START], b; before b: a; before c: a → 2, 1, 1 of 4; backoff (1 + ½ + ½) / 4 to 1/5 each
    one = {4: (2 - 1) / 4 + 0.5 / 5, 5: (1 - 0.5) / 4 + 0.5 / 5, 6: (1 - 0.5) / 4 + 0.5 / 5}
    # after a: b twice, c once of 3; backoff (1 + ½) / 3
    after = {5: (2 - 1) / 3 + 0.5 * one[5], 6: (1 - 0.5) / 3 + 0.5 * one[6], 4: 0.5 * one[4]}
    found = [math.exp(model.log_probs(Text(np.array([1, 4, token]), np.array([0, 1, 2])))[1]) for token in (4, 5, 6)]
    assert found == pytest.approx([after[4], after[5], after[6]])


@pytest.mark.parametrize("layout", ["lines", "sentences", "running"])
def test_the_language_models_tokens_are_counted(layout, tmp_path):
    """What is counted is what the network's metric counts; of one line again and again n-grams are almost sure."""
    (tmp_path / "train.txt").write_text("abcd\n" * 50)
    (tmp_path / "dev.txt").write_text("abcd\nabzd\n")
    task = find("lm")
    settings = task.Settings.read(
        {"train": tmp_path / "train.txt", "dev": tmp_path / "dev.txt", "layout": layout, "hidden": 4, "embedding": 4}
    )
    assets, data = task.prepare(settings)
    model = task.make_network(settings, assets).eval()
    metric = model.metric()
    for batch in data.dev:
        metric.add(batch)
    seen = []
    real = KneserNey.log_probs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KneserNey, "log_probs", lambda self, text: seen.append(real(self, text)) or seen[-1])
        ((name, measure),) = task.baselines(settings, assets, data).items()
        value = measure()
    assert name == f"Kneser–Ney {order_for(len(assets.vocabulary))}-grams"
    assert len(seen[0]) == metric.count == {"lines": 10, "sentences": 10, "running": 10}[layout]
    assert value == pytest.approx(math.exp(-np.mean(seen[0])))
    assert np.exp(seen[0][1:4]).min() > 0.7 and np.exp(seen[0][7]) < 0.1  # bcd are likely, z is not


def test_both_directions(tmp_path):
    """Reversed text has the forward n-grams of the text as backward ones: the two together are symmetric."""
    draw = random.Random(1)
    lines = [[draw.choice("abc") for _ in range(draw.randint(2, 6))] for _ in range(40)]
    values = []
    for step in (1, -1):
        files = {name: tmp_path / f"{name}{step}.txt" for name in ("train", "dev")}
        for name, some in (("train", lines[:30]), ("dev", lines[30:])):
            files[name].write_text("".join(" ".join(line[::step]) + "\n" for line in some))
        found = carousel.baseline("bilm", files["train"], dev=files["dev"], min_frequency=1)
        values.append(found.best.value)
    assert values[0] == pytest.approx(values[1]) and 1 < values[0] < 6


# ---------------------------------------------------------------- series


def write_series(path, columns):
    start = date(2020, 1, 1)
    rows = [",".join(["date", *columns])]
    for k, values in enumerate(zip(*columns.values(), strict=True)):
        rows.append(
            ",".join([str(start + timedelta(days=k)), *("" if np.isnan(v) else repr(float(v)) for v in values)])
        )
    path.write_text("\n".join(rows) + "\n")
    return path


def test_naive_forecasts_by_hand(tmp_path):
    draw = np.random.default_rng(0)
    y = np.arange(140) % 7 + draw.normal(size=140).round(2)
    path = write_series(tmp_path / "days.csv", {"y": y})
    values = by_name(carousel.baseline("forecast", path, horizon=3, holdout=40))
    unit = np.abs(y[7:100] - y[:93]).mean()  # the seasonal-naive error of the training rows
    origins = range(100, 138)
    last = np.mean([np.abs(y[o : o + 3] - y[o - 1]).mean() for o in origins])
    season = np.mean([np.abs(y[o : o + 3] - y[o - 7 : o - 4]).mean() for o in origins])
    assert values["last value"] == pytest.approx(last / unit, rel=1e-5)
    assert values["seasonal naive (the last season again)"] == pytest.approx(season / unit, rel=1e-5)


def test_ridge_is_scikit_learns(tmp_path):
    """On values scaled by the training rows, per variable, from the 49 days before each origin, minus the last."""
    draw = np.random.default_rng(1)
    both = {"y": np.arange(260) % 7 + draw.normal(size=260).cumsum(), "z": draw.normal(size=260).cumsum()}
    path = write_series(tmp_path / "days.csv", both)
    values = by_name(carousel.baseline("forecast", path, horizon=2, holdout=60))
    errors = []
    for y in both.values():
        z = (y - y[:200].mean()) / y[:200].std()
        past, ahead = (np.lib.stride_tricks.sliding_window_view(z, n) for n in (49, 2))
        train, dev = np.arange(49, 199), np.arange(200, 259)
        x = past[:, :-1] - past[:, -1:]
        model = Ridge(0.1).fit(x[train - 49], ahead[train] - z[train - 1, None])
        off = model.predict(x[dev - 49]) + z[dev - 1, None] - ahead[dev]
        errors.append(np.abs(off).mean() * y[:200].std() / np.abs(y[7:200] - y[:193]).mean())
    assert values["ridge regression on 49 lags minus the last value"] == pytest.approx(np.mean(errors), rel=1e-4)


def test_missing_values_are_filled_with_what_was_known(tmp_path):
    """A gap just before an origin repeats the last reading, and missing steps ahead are not measured."""
    draw = np.random.default_rng(2)
    y = draw.normal(size=120)
    y[[99, 100, 105]] = np.nan
    path = write_series(tmp_path / "days.csv", {"y": y})
    values = by_name(carousel.baseline("forecast", path, horizon=1, holdout=20))
    known = [(np.flatnonzero(~np.isnan(y[:o]))[-1], o) for o in range(100, 120) if not np.isnan(y[o])]
    pairs = [abs(y[k] - y[k - 7]) for k in range(7, 100) if not np.isnan(y[k] + y[k - 7])]
    wanted = np.mean([abs(y[o] - y[k]) for k, o in known]) / np.mean(pairs)
    assert values["last value"] == pytest.approx(wanted, rel=1e-5)
    assert len(values) == 3 and all(map(math.isfinite, values.values()))
