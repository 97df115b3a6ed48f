"""The laws, each as a check of one case: it raises `LawBroken`, or returns how a text parts from another, or None."""

from collections.abc import Callable, Sequence

from specdec_cli.decoding.block import Block
from specdec_cli.reading import description_end
from specdec_cli.types import Finished
from tests.laws.cases import Case, generate
from tests.laws.reference import Oracle, assert_rounds, cloud_oracle, edge_oracle
from tests.laws.tolerance import LawBroken, assert_figures, assert_law

Check = Callable[[Case], str | None]


def edge_law(case: Case) -> str | None:
    """Nothing escalates: every token is the edge's best, and the text is its `generate()`'s."""
    rounds, finished = case.remember().run()
    if any(round_.escalated for round_ in rounds):
        raise LawBroken(f"case {case.number}: a block was escalated")
    oracle = edge_oracle(case)
    assert_best(case, finished, oracle, case.edge.processor.eos_ids)
    assert_recorded(case, rounds, oracle)
    decoding, vocab_size = case.config.decoding, case.pair.vocab_size
    return parts(case, finished, generate(case.edge, case.edge_prompt, vocab_size, decoding, case.sound))


def cloud_law(case: Case) -> str | None:
    """Everything escalates, or the cloud is alone: every token is its best, and the text is its `generate()`'s."""
    rounds, finished = case.remember().run()
    alone = case.config.decoding.mode == "cloud"
    if not alone and not all(round_.escalated for round_ in rounds):
        raise LawBroken(f"case {case.number}: a block was not escalated")
    oracle = cloud_oracle(case)
    assert_best(case, finished, oracle, case.cloud.processor.eos_ids)
    drafted = oracle if alone else edge_oracle(case)
    drafted.read(finished.token_ids)
    assert_recorded(case, rounds, drafted)
    decoding, vocab_size = case.config.decoding, case.pair.vocab_size
    return parts(case, finished, generate(case.cloud, case.cloud_prompt, vocab_size, decoding, case.sound))


def reference_law(case: Case) -> str | None:
    """Every round is the reference's."""
    return assert_rounds(case, *case.remember().run())


def assert_best(case: Case, finished: Finished, oracle: Oracle, eos: Sequence[int]) -> None:
    """Every token of the text is the best, but for rounding, and the text ends where its `finish_reason` says."""
    oracle.read(finished.token_ids)
    assert_law(finished.token_ids, oracle, f"case {case.number}")
    decoding, text = case.config.decoding, finished.token_ids
    early = set(text[:-1]) & set(eos)
    if early or (finished.finish_reason == "eos") != (text[-1] in eos):
        raise LawBroken(f"case {case.number}: {text} ends with {finished.finish_reason}")
    if len(text) > decoding.max_new_tokens or (
        finished.finish_reason == "max_tokens" and len(text) < decoding.max_new_tokens
    ):
        raise LawBroken(f"case {case.number}: {len(text)} tokens, and {finished.finish_reason}")


def assert_recorded(case: Case, rounds: Sequence[Block], oracle: Oracle) -> None:
    """The figures of every drafted token are those of its cache-free row."""
    text: list[int] = []
    for round_ in rounds:
        oracle.read([*text, *round_.draft_ids[:-1]])
        recorded = [(token.entropy, token.margin, token.logprob) for token in round_.draft.evidence]
        for at, (token, found) in enumerate(zip(round_.draft_ids, recorded, strict=True)):
            row = oracle([*text, *round_.draft_ids[:at]])
            assert_figures(row, token, found, f"case {case.number}, round {round_.index}")
        text += round_.committed_ids


def cut(case: Case, text: Sequence[int]) -> Sequence[int]:
    """The shortest prefix of a text that shows that it has stopped describing; all of it where it goes on."""
    prefixes = (text[:length] for length in range(1, len(text) + 1))
    return next((each for each in prefixes if description_end(case.pair.processor.text(each)) is not None), text)


def parts(case: Case, finished: Finished, expected: Sequence[int]) -> str | None:
    """How the text parts from `generate()`'s, which is allowed where every token is as good as the best."""
    if case.config.closes:
        expected = cut(case, expected)
    if list(finished.token_ids) == list(expected):
        return None
    return f"case {case.number}: {finished.token_ids} beside {tuple(expected)}"
