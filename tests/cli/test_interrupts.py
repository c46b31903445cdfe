"""Ctrl-C is one line and exit code 130, whatever an interrupted import makes of it."""

import os
import signal
import subprocess
import sys

import pytest

from carousel.cli import interrupts, main


def pressed():
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):
        pass  # the handler runs between two steps of the interpreter


def run(monkeypatch, capsys, action):
    """Run the command line with a command that is `action`: exit code and standard error."""
    monkeypatch.delenv("CAROUSEL_TRACEBACK", raising=False)
    monkeypatch.setattr(main, "application", lambda args: lambda *args, **options: action())
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit) as end:
        main.main(["check", "a.txt"])
    assert signal.getsignal(signal.SIGINT) is before
    return end.value.code, capsys.readouterr().err


def recursing():
    """As numpy's `__getattr__` does if one of its imports is interrupted."""
    try:
        pressed()
    except KeyboardInterrupt:
        raise RecursionError("maximum recursion depth exceeded") from None


def swallowed():
    class Finalized:
        def __del__(self):
            pressed()

    Finalized()  # Python prints what a finalizer raises, and continues
    interrupts.check()


def as_typer_does():
    try:
        pressed()
    except KeyboardInterrupt:
        sys.exit(130)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("action", [pressed, recursing, swallowed, as_typer_does])
def test_an_interruption_is_one_line(monkeypatch, capsys, action):
    code, err = run(monkeypatch, capsys, action)
    assert (code, err.splitlines()[-1]) == (130, "error: interrupted")
    assert "bug in Carousel" not in err


def test_without_ctrl_c_an_error_is_what_it_is(monkeypatch, capsys):
    with monkeypatch.context() as before:
        run(before, capsys, recursing)  # what was pressed in another call does not count

    def bug():
        interrupts.check()
        raise RecursionError("maximum recursion depth exceeded")

    code, err = run(monkeypatch, capsys, bug)
    assert code == 70 and "this is a bug in Carousel (RecursionError" in err


def test_a_handler_of_the_host_stays(monkeypatch, capsys):
    seen = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        run(monkeypatch, capsys, pressed)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT] and not interrupts.seen()


def test_during_imports_the_process_ends_at_once():
    code = (
        "import os, signal\nfrom carousel.cli import interrupts\nwith interrupts.remembered():\n"
        "    with interrupts.ending_at_once():\n        try:\n            os.kill(os.getpid(), signal.SIGINT)\n"
        "            for _ in range(1000): pass\n        finally:\n            print('cleaned up')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "error: interrupted\n")


def test_after_imports_it_is_an_exception_again(monkeypatch, capsys):
    def action():
        with interrupts.ending_at_once():
            pass
        pressed()

    assert run(monkeypatch, capsys, action) == (130, "error: interrupted\n")
    with interrupts.ending_at_once():  # outside of a command the host's own handler stays
        assert signal.getsignal(signal.SIGINT) is not interrupts._end


def test_the_package_itself_imports_next_to_nothing():
    """Before `main` runs, Ctrl-C is a traceback: that time is short."""
    code = "import sys; before = set(sys.modules); import carousel.__main__; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"],
                          capture_output=True, text=True)  # fmt: skip
    assert "carousel.__main__" in done.stdout.split(), done.stderr
    assert not {"typing", "re", "collections", "enum"} & set(done.stdout.split())
