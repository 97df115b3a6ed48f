"""Tokens that say the same: token ids in groups, of which the decoding loop knows nothing but the numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from specdec_cli.lexicon.lexicon import Lexicon
from specdec_cli.lexicon.units import units
from specdec_cli.prompts import Language


def synonyms(lexicon: Lexicon, pieces: Iterable[tuple[int, str]], language: Language) -> dict[int, int]:
    """Which tokens may stand for one another without another class of any attribute being said.

    A token says what the phrase of its text says, or all phrases that begin with it: " cheerful" and " joy" are
    synonyms. It has none where those phrases differ, where one of them is something else that the lexicon knows (a noun
    that classes are said of, a negation), or where it is too short to tell.

    Args:
        lexicon: says which phrases mean which classes.
        pieces: (token id, its text) of a vocabulary.
        language: of the captions.

    Returns:
        Token id -> number of its group; tokens without a synonym are left out.
    """
    meanings = lexicon.beginnings(language)
    groups: defaultdict[frozenset[tuple[str, str]], list[int]] = defaultdict(list)
    for id_, text in pieces:
        if said := meanings.get("".join(units(text))):
            groups[said].append(id_)
    return {id_: number for number, ids in enumerate(groups.values()) if len(ids) > 1 for id_ in ids}
