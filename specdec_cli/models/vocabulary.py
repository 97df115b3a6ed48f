"""Which token ids may be generated, and do two models mean the same by them?

Edge and cloud exchange token ids only, so their tokenizers must map the same ids to the same pieces. Their output
layers may still be padded to different sizes (151936 rows in Qwen2.5-Omni-3B, 152064 in 7B): both are cut to the
smaller, and to the ids that have a piece at all, so that neither can say what the other cannot, and a model alone
says what it would say in company.
"""

from __future__ import annotations

from specdec_cli.errors import TokenizerMismatchError
from specdec_cli.models.family import AudioLanguageModel


def shared_vocab_size(edge: AudioLanguageModel, cloud: AudioLanguageModel) -> int:
    """Number of leading token ids that both models may use.

    Raises:
        TokenizerMismatchError: the tokenizers differ; names both models and the first difference.
    """
    mine, theirs = edge.tokenizer.get_vocab(), cloud.tokenizer.get_vocab()
    if mine != theirs:
        differing = sorted(set(mine.items()) ^ set(theirs.items()), key=lambda item: (item[1], item[0]))
        token, at = differing[0]
        raise TokenizerMismatchError(
            f"edge {edge.name} and cloud {cloud.name} have different tokenizers "
            f"({len(mine)} and {len(theirs)} tokens; they first differ at id {at}, {token!r})",
            hint="Drafted ids would mean other words to the cloud. Use two models of one family and release.",
        )
    return min(usable_vocab_size(edge), usable_vocab_size(cloud))


def usable_vocab_size(model: AudioLanguageModel) -> int:
    """Number of leading token ids that `model` scores and its tokenizer can write."""
    pieces: dict[str, int] = model.tokenizer.get_vocab()
    return min(model.vocab_size, max(pieces.values()) + 1)
