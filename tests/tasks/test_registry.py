"""Which tasks there are, and how they are found."""

import subprocess
import sys
from importlib.metadata import EntryPoint
from typing import Literal

import pytest

from carousel.errors import ArgumentError
from carousel.tasks import find, find_for, names, registry
from carousel.tasks.base import Task
from carousel.tasks.classify.settings import ClassifySettings
from carousel.tasks.classify.task import Classify
from carousel.training import Settings
from carousel.training.settings import EnsembleSettings, key


def test_our_tasks_have_the_names_they_are_listed_by():
    for name in registry.BUILT_IN:
        task = find(name)
        assert task.name == name
        assert task.Settings.model_fields["task"].default == name
        assert task.help.splitlines()[0].startswith("Train ")
    assert names()[:9] == list(registry.BUILT_IN)


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_seeds_are_a_setting_where_there_are_ensembles(name):
    task = find(name)
    assert ("seeds" in task.Settings.model_fields) == task.has_ensembles()


def test_seeds_without_ensembles_are_refused_where_the_task_is_declared():
    class Keys(EnsembleSettings):
        task: Literal["lonely"] = key("lonely", "the task", "data")

    with pytest.raises(ArgumentError, match="Lonely: its Settings have seeds, but it makes no ensembles"):
        type("Lonely", (Task,), {"name": "lonely", "Settings": Keys, "__module__": __name__})


def test_one_task_does_not_import_the_others():
    code = "import sys; from carousel.tasks import find; find('tree'); print('carousel.tasks.lm.task' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_the_registry_alone_does_not_import_torch():
    code = "import sys; import carousel.tasks; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_a_name_is_taken_once():
    with pytest.raises(ArgumentError, match="there is a task 'classify' already"):
        type("Other", (Classify,), {"name": "classify", "__module__": __name__})


def test_a_subclass_without_a_name_is_no_task_of_its_own():
    own = type("Own", (Classify,), {})
    with pytest.raises(ArgumentError, match="its name 'classify' is that of another class"):
        find(own)


def test_settings_must_name_the_task():
    with pytest.raises(ArgumentError, match="Nameless: its Settings do not name the task; add the line task: Literal"):
        type("Nameless", (Task,), {"name": "nameless", "Settings": Settings})
    with pytest.raises(ArgumentError, match="do not name the task"):
        type("Wrong", (Classify,), {"name": "wrong", "Settings": ClassifySettings})


def test_unknown():
    with pytest.raises(ArgumentError, match=r"there is no 'clasify'; did you mean classify\?"):
        find("clasify")
    with pytest.raises(ArgumentError, match="not a task; give a subclass"):
        find(int)
    with pytest.raises(FileNotFoundError):
        find("nothing.py:Sensor")


def test_an_installed_package_declares_one(tmp_path, monkeypatch):
    (tmp_path / "sensors_of_others.py").write_text(
        "from typing import Literal\nfrom carousel.tasks.tree.settings import TreeSettings\n"
        "from carousel.tasks.tree.task import TreeTask\n"
        "from carousel.training import key\n\n\n"
        "class TheirSettings(TreeSettings):\n    task: Literal['theirs'] = key('theirs', 'the task', 'data')\n\n\n"
        "class Theirs(TreeTask):\n    name = 'theirs'\n    Settings = TheirSettings\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("theirs", "sensors_of_others:Theirs", "carousel.tasks")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == "carousel.tasks" else [])
    registry._installed.cache_clear()
    try:
        assert "theirs" in names()
        assert "sensors_of_others" not in sys.modules
        assert find("theirs").__module__ == "sensors_of_others"
    finally:
        registry._registered.pop("theirs", None)
        registry._installed.cache_clear()
        monkeypatch.undo()
        registry._installed.cache_clear()


@pytest.mark.parametrize(
    "files, name, said",
    [
        (["a.conllu"], "tag", "its name ends in .conllu"),
        (["a.csv"], "classify", "its name ends in .csv"),
        (["a.en", "a.de"], "translate", "2 files"),
        (["a.txt"], "lm", "its name ends in .txt"),
        (["flights.csv"], "forecast", "its rows look like a time series"),
    ],
)
def test_by_the_files(files, name, said, tmp_path):
    for file in files:
        (tmp_path / file).write_text("month,x\n1949-01,1\n1949-02,2\n" if "flights" in file else "a,b\n")
    task, why = find_for([tmp_path / file for file in files])
    assert (task.name, why) == (name, said)


def test_files_that_tell_nothing(text_file):
    with pytest.raises(ArgumentError, match="3 files: a task reads one file, or two"):
        find_for([text_file("a", "a.en")] * 3)
    listed = r"the task cannot be inferred from its name; name it: lm, (?=.*\btranslate\b).* or \w+"
    with pytest.raises(ArgumentError, match=listed):
        find_for([text_file("a", "a.dat")])
