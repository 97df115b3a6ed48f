"""Which share of the claims in texts of models the sound could have changed, token by token.

    python -m tools.free_text texts.jsonl --tokenizer FOLDER

A line of the texts is {"model", "asked", "text"}, `asked` (zh or en) being the language asked for; the folder has the
vocab.json and merges.txt of a Qwen. Each text is read twice with figures that are made for it:

- with figures that agree with all its claims, the sound has to leave it alone. Where it stops a text at a class that
  the text takes back later ("low, no, rather high"), it is right, and this is counted apart;
- for each claim, with a figure that contradicts this one alone, as far from it as can be, the text has to be stopped
  at a token before which it does not make the claim yet. Whether another token was likely enough to take its place, a
  text cannot say.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from specdec_cli.labels import Lexicon
from specdec_cli.labels.class_words import ClassWords
from specdec_cli.labels.grounding import Grounding
from specdec_cli.prompts import Language
from specdec_cli.reading import caption_of
from specdec_cli.types import Claim, Measured

VALUES: Final[Mapping[str, tuple[float, ...]]] = {
    "rate_per_s": (1.0, 4.0, 9.0),
    "f0_median_hz": (60.0, 140.0, 220.0, 500.0),
    "f0_range_st": (2.0, 12.0),
    "level_dbfs": (-50.0, -26.0, -5.0),
    "pause_share": (0.0, 0.5),
}
"""Figure -> values of which each class has one that it allows and one that it contradicts."""
_WITHIN: Final = 8
"""Tokens within which a class that a token begins to name has been named."""


@dataclass
class Found:
    """What was found in the texts of a model in a language."""

    texts: int = 0  # with a claim
    claims: Counter[str] = field(default_factory=Counter)  # by attribute
    reached: Counter[str] = field(default_factory=Counter)
    other: int = 0  # texts that agreeing figures stop at another class that they name, too
    wrong: list[str] = field(default_factory=list)  # beginnings of texts that they stop at anything else
    missed: list[str] = field(default_factory=list)  # claims that were not reached, with their texts


class Reader:
    """Reads texts beside figures."""

    def __init__(self, tokenizer: Any) -> None:
        self.lexicon, self._tokenizer = Lexicon.shipped(), tokenizer
        self.words = ClassWords(self.lexicon, self.lexicon.measured, tokenizer.decode)

    def read(self, text: str, language: Language, into: Found) -> None:
        """Adds a text to what was found."""
        caption = caption_of(text)
        labels = self.lexicon.labels(caption, language)
        claims = [claim for claim in self.lexicon.claims(labels, Measured()) if claim.class_ is not None]
        if not claims:
            return
        ids, agreeing = tuple(self._tokenizer.encode(caption, add_special_tokens=False)), dict[str, float]()
        into.texts += 1
        for claim in claims:
            fits = {value: self._allows(claim, labels, value) for value in VALUES[claim.figure]}
            own, wrong = ([value for value, holds in fits.items() if holds is fit] for fit in (True, False))
            into.claims[claim.attribute] += 1
            if own:
                agreeing[claim.figure] = own[-1]
            if own and self._reaches(ids, language, claim, max(wrong, key=lambda value: abs(value - own[0]))):
                into.reached[claim.attribute] += 1
            else:
                into.missed.append(f"{claim.attribute} {claim.class_}: {caption}")
        at = self._stop(ids, self._sound(language, agreeing))
        if at is not None and self._names_another(ids, at, language):
            into.other += 1
        elif at is not None:
            into.wrong.append(self._tokenizer.decode(ids[: at + 1]))

    def _allows(self, claim: Claim, labels: Mapping[str, str | None], value: float) -> bool | None:
        """Whether the sound allows a claim if its figure has a value."""
        figures = Measured(**{claim.figure: value})
        return self.lexicon.allows(claim.attribute, str(claim.class_), labels, figures)

    def _sound(self, language: Language, figures: Mapping[str, float]) -> Grounding:
        return Grounding(self.lexicon, language, Measured(**figures), self.words)

    def _reaches(self, ids: tuple[int, ...], language: Language, claim: Claim, value: float) -> bool:
        """Whether a figure stops a text at a token before which the text does not make the claim."""
        at = self._stop(ids, self._sound(language, {claim.figure: value}))
        return at is not None and self.words.labels(ids[:at], language)[claim.attribute] != claim.class_

    def _stop(self, ids: tuple[int, ...], sound: Grounding) -> int | None:
        """The first token that figures contradict."""
        return next((at for at, token in enumerate(ids) if sound.contradicts(ids[:at], token)), None)

    def _names_another(self, ids: tuple[int, ...], at: int, language: Language) -> bool:
        """Whether the token at a place, with the next ones, changes what the text says of a measured attribute."""
        before, *after = (
            [self.words.labels(ids[:end], language)[name] for name in self.lexicon.measured]
            for end in range(at, min(at + _WITHIN, len(ids)) + 1)
        )
        return any(labels != before for labels in after)


def table(found: Mapping[tuple[str, Language], Found], attributes: Sequence[str]) -> str:
    """What was found, a row for each model and language."""
    head = ["model", "language", "texts with a claim", "claims", "reached", *attributes]
    head += ["stopped though it agrees", "wrongly"]
    rows = [head, ["---"] * len(head)]
    for (model, language), each in sorted(found.items()):
        own = [_share(each.reached[name], each.claims[name]) for name in attributes]
        counts = [str(each.texts), str(each.claims.total()), _share(each.reached.total(), each.claims.total())]
        rows.append([model, language, *counts, *own, str(each.other), str(len(each.wrong))])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f}% of {whole}" if whole else "-"


def main(
    texts: Annotated[Path, typer.Argument(help="Texts of models, JSON lines.")],
    tokenizer: Annotated[Path, typer.Option(help="Folder with vocab.json and merges.txt of a Qwen.")],
    details: Annotated[Path | None, typer.Option(help="File for the texts behind the counts, JSON.")] = None,
) -> None:
    """Print which share of the claims the sound reaches, by model and language."""
    from transformers import Qwen2Tokenizer

    reader = Reader(Qwen2Tokenizer(str(tokenizer / "vocab.json"), str(tokenizer / "merges.txt")))
    found = defaultdict[tuple[str, Language], Found](Found)
    for line in texts.read_text("utf-8").strip().split("\n"):
        read = json.loads(line)
        reader.read(read["text"], read["asked"], found[read["model"], read["asked"]])
    print(table(found, reader.lexicon.measured))
    if details is not None:
        kept = {f"{model} {language}": vars(each) for (model, language), each in found.items()}
        details.write_text(json.dumps(kept, ensure_ascii=False, indent=1), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
