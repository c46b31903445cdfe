"""A cell's step as a program: traced, printed, differentiated, lowered for the kernels."""

from ..cells.spec import Cell
from .program import Backward, Program, program_of
from .tracing import NotAProgram

Cell.trace_step = staticmethod(program_of)

__all__ = ["Backward", "NotAProgram", "Program", "program_of"]
