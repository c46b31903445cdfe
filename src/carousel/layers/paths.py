"""Which code runs a call, and why."""

from __future__ import annotations


class ExecutionPath(str):
    """`fused`, `torch` or `reference`; `.why` gives the reason.

    >>> ExecutionPath("reference", "the input is complex")
    reference: the input is complex
    """

    why: str

    def __new__(cls, name: str, why: str) -> ExecutionPath:
        path = super().__new__(cls, name)
        path.why = why
        return path

    def __repr__(self) -> str:
        return f"{self}: {self.why}"

    def __reduce__(self) -> tuple[type[ExecutionPath], tuple[str, str]]:
        return ExecutionPath, (str(self), self.why)
