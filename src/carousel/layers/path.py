"""Which code runs a call, and why."""

from __future__ import annotations


class Path(str):
    """`fused`, `cudnn` or `reference`; `.why` says what led there.

    >>> Path("reference", "the input is complex")
    reference: the input is complex
    """

    why: str

    def __new__(cls, name: str, why: str) -> Path:
        path = super().__new__(cls, name)
        path.why = why
        return path

    def __repr__(self) -> str:
        return f"{self}: {self.why}"

    def __reduce__(self) -> tuple[type[Path], tuple[str, str]]:
        return Path, (str(self), self.why)
