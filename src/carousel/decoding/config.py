"""GenerationConfig: every option of text generation, declared once for Python, YAML and the command line.

Names are Hugging Face's where the meaning is the same. This module imports neither torch nor the searches, because the
command line builds its options from it.
"""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..errors import ArgumentError, did_you_mean
from ..wording import setting, spelling
from .pattern import Pattern

if TYPE_CHECKING:
    from .constraint import Constraint
    from .length_norm import LengthNorm
    from .strategy import Strategy

SAMPLING, BEAM, RULES, RESULT = "Sampling", "Beam search", "Constraints", "Result"
SAMPLERS = ("temperature", "top_k", "top_p", "random_k")  # each implies do_sample
BEAM_ONLY = ("length_normalization", "length_penalty", "early_stopping")

# Defaults for options that are None, by what is generated; a translation's max_length depends on its source.
DEFAULTS: dict[str, dict[str, Any]] = {
    "text": {"do_sample": True, "num_beams": 1, "max_length": 300},
    "translation": {"do_sample": False, "num_beams": 5, "max_length": None},
}
LENGTH_PENALTY = {"mean": 1.0, "gnmt": 0.6}  # defaults by length_normalization

# Names that are used elsewhere; for "did you mean" only.
SYNONYMS = {
    "n": "num_return_sequences",
    "num_samples": "num_return_sequences",
    "beam": "num_beams",
    "beam_size": "num_beams",
    "beam_width": "num_beams",
    "greedy": "num_beams",
    "length": "max_length",
    "max_new_tokens": "max_length",
    "min_new_tokens": "min_length",
    "alpha": "length_penalty",
    "completed": "early_stopping",
    "no_repeat": "no_repeat_ngram_size",
    "output_attentions": "attention",
    "batch": "batch_size",
    "constraint": "constraints",
    "random_seed": "seed",
}


class OptionError(ArgumentError):
    """A generation option that does not exist, is out of range, or contradicts another.

    In the message an option's name is in braces.

    >>> str(OptionError("{top_k}: must be at least 1, got 0"))
    'top_k: must be at least 1, got 0'
    """

    def __init__(self, template: str) -> None:
        super().__init__(spelled(template, setting))


def spelled(template: str, spell: Callable[[str], str]) -> str:
    """A message or help text with the options' names, which are in braces, as `spell` gives them."""
    return re.sub(r"\{(\w+)\}", lambda match: spell(match[1]) if match[1] in NAMES else match[0], template)


def option(
    default: Any,
    kind: type,
    help: str,
    group: str,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    choices: Sequence[str] = (),
    metavar: str | None = None,
) -> Any:
    """A field of GenerationConfig: its default, type, line of help, group in the help, and range."""
    known = locals().copy()
    return field(default=known.pop("default"), metadata=known)


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """How text is generated, by language models and translators alike.

    An option that is None has a default (`DEFAULTS`): a language model samples, a translator searches with 5 beams.
    Any of `temperature`, `top_k`, `top_p` and `random_k` means sampling; `num_beams` means search. Options that
    contradict each other raise `OptionError`, here or where the task is known.

    >>> GenerationConfig(top_k=10, temperature=0.8)
    GenerationConfig(temperature=0.8, top_k=10)
    >>> GenerationConfig(num_beams=4, temperature=0.8)
    Traceback (most recent call last):
    carousel.decoding.config.OptionError: num_beams and temperature: beam search does not sample; give one of them
    """

    do_sample: bool | None = option(
        None, bool, "Sample each token; otherwise search. Default: a language model samples, a translator searches.",
        SAMPLING,
    )  # fmt: skip
    temperature: float | None = option(
        None, float, "Softmax temperature; lower is more deterministic. Default: 1.", SAMPLING, above=0
    )
    top_k: int | None = option(None, int, "Sample from the k most probable tokens.", SAMPLING, at_least=1)
    top_p: float | None = option(
        None, float, "Sample from the fewest most probable tokens whose probabilities sum to p (nucleus).", SAMPLING,
        above=0, at_most=1,
    )  # fmt: skip
    random_k: int | None = option(None, int, "Sample uniformly from the k most probable tokens.", SAMPLING, at_least=1)
    seed: int | None = option(
        None, int, "Seed of the samples. Default: a fresh one, which the result contains.", SAMPLING,
        at_least=0, at_most=2**64 - 1,
    )  # fmt: skip
    num_beams: int | None = option(
        None, int, "Beam size; 1 is greedy search. Default: 5 for a translator.", BEAM, at_least=1
    )
    length_normalization: Literal["mean", "gnmt", "none"] = option(
        "mean", str, "Score: log-probability / length^penalty (mean), / ((5 + length) / 6)^penalty (gnmt), or as it is "
        "(none); the end token counts.", BEAM, choices=("mean", "gnmt", "none"),
    )  # fmt: skip
    length_penalty: float | None = option(
        None, float, "The penalty in {length_normalization}; higher favours longer texts. Default: 1 for mean, "
        "0.6 for gnmt.", BEAM, at_least=0,
    )  # fmt: skip
    early_stopping: bool | int = option(
        True, int, "Stop when {num_beams} hypotheses are complete (true), when N are, or only when no unfinished one "
        "can score higher (false).", BEAM, metavar="true|false|N",
    )  # fmt: skip
    num_return_sequences: int = option(
        1, int, "Texts for each input.", RESULT, at_least=1, at_most=1_000_000, metavar="N"
    )
    max_length: int | None = option(
        None, int, "Maximum number of tokens, prompt and end token included. Default: 300 for a language model; twice "
        "the source plus 21 for a translator.", RESULT, at_least=1,
    )  # fmt: skip
    min_length: int = option(
        0, int, "Minimum number of tokens before the end token, prompt included.", RESULT, at_least=0
    )
    unknown: Literal["ban", "allow", "replace"] = option(
        "ban", str, "[UNK]: never generated; allowed, in prompts too; or replaced by the source token with the most "
        "attention (translators).", RULES, choices=("ban", "allow", "replace"),
    )  # fmt: skip
    prefix: str | Sequence[str] = option(
        "", str, "Forced beginning of every text; scored, unlike a prompt.", RULES, metavar="TEXT"
    )
    no_repeat_ngram_size: int | None = option(
        None, int, "No n-gram of this size occurs twice; n-grams with punctuation may.", RULES, at_least=1
    )
    form: str | None = option(None, str, "Verse form: 五言絕句, 七言絕句, 五言律詩 or 七言律詩.", RULES, metavar="NAME")
    acrostic: str | None = option(None, str, "The first character of each line.", RULES, metavar="TEXT")
    rhyme: Mapping[str, str] | str | Path | None = option(  # noqa: RUF009
        None, str, "Even lines rhyme, by a table: a file with lines of class TAB characters. Needs {form}.", RULES,
        metavar="FILE",
    )  # fmt: skip
    rhyme_class: str | None = option(None, str, "The rhyme class to use.", RULES, metavar="CLASS")
    constraints: Sequence[Constraint] = option(
        (), list, "A constraint of your own, a class in a Python file; may be repeated.", RULES, metavar="FILE.py:CLASS"
    )
    attention: bool = option(False, bool, "Return the attention weights (translators).", RESULT)
    tokenized: bool = option(
        False, bool, "The input is tokenized already, as the training text is; then the result is too.", RESULT
    )
    tree: bool = option(False, bool, "Return the search tree.", RESULT)
    batch_size: int = option(64, int, "Inputs processed together; changes no result.", RESULT, at_least=1)

    def __post_init__(self) -> None:
        for each in fields(self):
            _check_value(each, getattr(self, each.name))
        _check_strategy(self)
        _check_rules(self)

    @classmethod
    def of(cls, config: GenerationConfig | None, options: Mapping[str, Any]) -> GenerationConfig:
        """`config` (None: the defaults) with `options` in place of its fields.

        >>> GenerationConfig.of(GenerationConfig(top_k=5), {"topp": 0.9})
        Traceback (most recent call last):
        carousel.decoding.config.OptionError: topp: there is no such option; did you mean top_p?
        """
        if not (config is None or isinstance(config, cls)):
            raise TypeError(f"config must be a GenerationConfig, got {type(config).__name__}; give options by keyword")
        for name in options:
            if name not in NAMES:
                raise OptionError(f"{name}: there is no such option{_near(name)}")
        return replace(config or cls(), **options)

    @classmethod
    def load(cls, path: str | Path) -> GenerationConfig:
        """The options in a YAML file, with the names of the fields."""
        from ..parsing import ParseError, parse_yaml

        try:
            options = parse_yaml(Path(path).read_text("utf-8-sig")) or {}
        except (ParseError, UnicodeDecodeError) as error:
            raise ArgumentError(f"{path}: not YAML ({error})") from error
        if not isinstance(options, dict):
            raise ArgumentError(f"{path}: a file of options has lines of the form name: value")
        try:
            with spelling(str):
                return cls.of(None, {str(name): value for name, value in options.items()})
        except OptionError as error:
            raise ArgumentError(f"{path}: {error}") from error

    def resolve(self, kind: Literal["text", "translation"]) -> GenerationConfig:
        """This config for what is generated: the defaults of that in place of None, and a seed if it samples.

        >>> GenerationConfig().resolve("translation").num_beams, GenerationConfig(num_beams=2).resolve("text").do_sample
        (5, False)
        """
        defaults = DEFAULTS[kind]
        sample = self.do_sample
        if sample is None:
            sample = bool(self._given(SAMPLERS)) or (self.num_beams is None and defaults["do_sample"])
        beams = self.num_beams or (1 if sample else defaults["num_beams"])
        if beams == 1 and (given := self._given(BEAM_ONLY)):
            raise OptionError(f"{{{given[0]}}}: it is for beam search; give {{num_beams}} above 1 too")
        if not sample and self.num_return_sequences > beams:
            raise OptionError(_too_many(self.num_return_sequences, beams))
        seed = secrets.randbits(32) if sample and self.seed is None else self.seed
        length = self.max_length or defaults["max_length"]
        return replace(self, do_sample=sample, num_beams=beams, seed=seed, max_length=length)

    def strategy(self, vocab_size: int, copies: int | None = None) -> Strategy:
        """The search strategy of a resolved config; `copies` are sampled, by default num_return_sequences."""
        from .beam import Beam
        from .samplers import RandomK, Temperature, TopK, TopP
        from .sampling import Greedy, Sample

        for name in ("top_k", "random_k", "num_beams"):
            if (getattr(self, name) or 0) > vocab_size:
                given = getattr(self, name)
                raise OptionError(f"{{{name}}}: must be at most {vocab_size}, the size of the vocabulary, got {given}")
        if self.do_sample:
            makers: dict[str, Any] = {"temperature": Temperature, "random_k": RandomK, "top_k": TopK, "top_p": TopP}
            samplers = [make(getattr(self, name)) for name, make in makers.items() if getattr(self, name) is not None]
            return Sample(*samplers, copies=copies or self.num_return_sequences)
        if not self.num_beams:
            raise ArgumentError("the config is not resolved; call resolve(task) first")
        if self.num_beams == 1:
            return Greedy()
        completed: float = self.early_stopping
        if isinstance(self.early_stopping, bool):
            completed = self.num_beams if self.early_stopping else math.inf
        return Beam(self.num_beams, n_best=self.num_return_sequences, length=self.length_norm(), completed=completed)

    def length_norm(self) -> LengthNorm:
        """How a beam's log-probability becomes its score."""
        from .length_norm import GNMT, Mean, Unnormalised

        kind = self.length_normalization
        penalty = LENGTH_PENALTY.get(kind, 0.0) if self.length_penalty is None else self.length_penalty
        if kind == "none" or penalty == 0:
            return Unnormalised()
        return Mean(penalty) if kind == "mean" else GNMT(penalty)

    def _given(self, names: Sequence[str]) -> list[str]:
        """Those of `names` that differ from the default."""
        pairs = ((name, getattr(self, name), NAMES[name].default) for name in names)
        return [name for name, value, default in pairs if value != default or type(value) is not type(default)]

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._given(list(NAMES)))
        return f"GenerationConfig({given})"


NAMES: dict[str, Field[Any]] = {each.name: each for each in fields(GenerationConfig)}


def _near(name: str) -> str:
    """`; did you mean …?` if a known name is close."""
    braced = {n: f"{{{n}}}" for n in NAMES}
    hint = did_you_mean(name.replace("-", "_"), (), {word: braced[n] for word, n in SYNONYMS.items()} | braced)
    return f"; {hint or 'options are ' + ', '.join(braced.values())}"


def _check_value(declared: Field[Any], value: Any) -> None:
    """Refuse a value of the wrong type or out of range."""
    name, known = declared.name, declared.metadata
    if value is None and declared.default is None:
        return
    if name == "early_stopping" and isinstance(value, bool):
        return
    if not _fits(name, known["kind"], value):
        raise OptionError(f"{{{name}}}: must be {_expected(name, known)}, got {value!r}")
    low, above, high = known["at_least"], known["above"], known["at_most"]
    if name == "early_stopping":
        low = 1
    inside = (low is None or value >= low) and (above is None or value > above) and (high is None or value <= high)
    if not inside or (known["choices"] and value not in known["choices"]):
        raise OptionError(f"{{{name}}}: must be {_expected(name, known)}, got {value!r}{_near_choice(value, known)}")


def _fits(name: str, kind: type, value: Any) -> bool:
    """Whether a value has the type of its option."""
    if name == "prefix" and not isinstance(value, str):
        return isinstance(value, Sequence) and all(isinstance(one, str) for one in value)
    if name == "rhyme" and isinstance(value, Mapping | Path):
        return True
    if kind is list:
        return isinstance(value, Sequence) and not any(isinstance(one, str) for one in value)
    if isinstance(value, bool):
        return kind is bool
    if kind in (int, float):
        return isinstance(value, Integral if kind is int else Real) and math.isfinite(value)
    return isinstance(value, kind)


def _expected(name: str, known: Mapping[str, Any]) -> str:
    """What an option accepts, in words."""
    if known["choices"]:
        return f"one of {', '.join(known['choices'])}"
    special = {
        "early_stopping": "true, false or a whole number of at least 1",
        "prefix": "a text, or one for each input",
        "rhyme": "a table of rhymes: a file, or a mapping from characters to classes",
        "constraints": "a list of Constraint objects",
    }
    if name in special:
        return special[name]
    what = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[known["kind"]]
    words = {"at_least": "of at least", "above": "above", "at_most": "at most"}
    bounds = [f"{word} {known[key]}" for key, word in words.items() if known[key] is not None]
    return " ".join([what, " and ".join(bounds)]).strip()


def _near_choice(value: Any, known: Mapping[str, Any]) -> str:
    hint = did_you_mean(str(value), known["choices"] or ())
    return hint and f"; {hint}"


def _check_strategy(config: GenerationConfig) -> None:
    """Refuse options of sampling and of beam search together, and those that would do nothing."""
    samplers, beam_only = config._given(SAMPLERS), config._given(BEAM_ONLY)
    beams = config.num_beams
    if beams is not None and beams > 1 and (samplers or config.do_sample):
        other = samplers[0] if samplers else "do_sample"
        raise OptionError(f"{{num_beams}} and {{{other}}}: beam search does not sample; give one of them")
    if config.do_sample is False and samplers:
        raise OptionError(f"{{do_sample}} false and {{{samplers[0]}}}: the second is for sampling; give one of them")
    if config.random_k is not None and (others := [name for name in ("top_k", "top_p") if name in samplers]):
        raise OptionError(f"{{random_k}} and {{{others[0]}}}: {{random_k}} samples uniformly; give one of them")
    if beam_only and (samplers or config.do_sample):
        other = samplers[0] if samplers else "do_sample"
        raise OptionError(f"{{{beam_only[0]}}} and {{{other}}}: the first is for beam search; give one of them")
    if config.length_normalization == "none" and config.length_penalty is not None:
        raise OptionError("{length_penalty}: {length_normalization} none has no penalty; give one of them")
    if beams is not None and not samplers and not config.do_sample and config.num_return_sequences > beams:
        raise OptionError(_too_many(config.num_return_sequences, beams))
    if not isinstance(config.early_stopping, bool) and config.early_stopping < config.num_return_sequences:
        raise OptionError(
            f"{{early_stopping}}: must be at least {{num_return_sequences}}, {config.num_return_sequences}, "
            f"got {config.early_stopping}"
        )


def _too_many(asked: int, beams: int) -> str:
    if beams == 1:
        return "{num_return_sequences}: greedy search has one result; sample, or give more {num_beams}"
    return f"{{num_return_sequences}}: at most as many as {{num_beams}}, {beams}, got {asked}"


def _check_rules(config: GenerationConfig) -> None:
    """Refuse lengths and rules of verse that cannot be met together."""
    if config.max_length is not None and config.min_length >= config.max_length:
        raise OptionError(f"{{min_length}}: must be below {{max_length}}, {config.max_length}, got {config.min_length}")
    if config.form is not None:
        try:
            least = len(Pattern.named(config.form)) + 1
        except ValueError as error:
            raise OptionError(f"{{form}}: {error}") from error
        if config.max_length is not None and config.max_length < least:
            problem = f"{config.form} takes {least} tokens, the end token included"
            raise OptionError(f"{{max_length}}: {problem}; got {config.max_length}")
    if config.rhyme_class is not None and config.rhyme is None:
        raise OptionError("{rhyme_class}: it needs a table of rhymes; give {rhyme} too")
    if config.rhyme is not None and config.form is None:
        raise OptionError("{rhyme}: it needs a {form}, which determines where lines end, such as 五言律詩")
