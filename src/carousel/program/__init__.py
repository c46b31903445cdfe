"""A cell's step as a program: traced, printed, differentiated, lowered for the kernels."""

from .program import Backward, Program, program_of
from .tracing import NotAProgram

__all__ = ["Backward", "NotAProgram", "Program", "program_of"]
