"""The laws, each as a check of one case: it raises `LawBroken`, or returns how a text parts from another, or None."""

from collections.abc import Callable, Sequence

import torch

from specdec_cli.decoding.block import Block
from specdec_cli.reading import caption_of, description_end
from specdec_cli.types import Finished
from tests.laws.cases import MEMORIES, Case, generate
from tests.laws.makers import MOST_GUESSED
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


def sampled_edge_law(case: Case) -> str | None:
    """Every draw is the reference's, and the text is that of `generate()` with the same seed."""
    rounds, finished = case.remember().run()
    how = assert_rounds(case, rounds, finished)
    with torch.random.fork_rng():
        torch.manual_seed(case.config.decoding.seed)
        expected = generate(case.edge, case.edge_prompt, case.pair.vocab_size, case.config.decoding, case.sound)
    return how or parts(case, finished, expected)


def guess_law(case: Case) -> str | None:
    """The rounds are the reference's, and those of the same clip without guesses; a right memory saves forwards."""
    _, without = case.but(guess_tokens=0).run()
    rounds, finished = case.remember().run()
    how = assert_rounds(case, rounds, finished)
    if how is None and finished.token_ids != without.token_ids:
        raise LawBroken(f"case {case.number}: {finished.token_ids} with guesses, {without.token_ids} without")
    right = MEMORIES[case.number % len(MEMORIES)] == "right"
    if right and case.given["mode"] in ("edge", "cloud") and not case.given["temperature"]:
        most = len(finished.token_ids) - kept(finished)
        if case.given["guess_tokens"] == MOST_GUESSED:
            most = min(most, 1 + most // 2)
        if forwards(finished) > most:
            raise LawBroken(f"case {case.number}: {forwards(finished)} forwards with {kept(finished)} kept")
    return how


def forwards(finished: Finished) -> int:
    """Of both models."""
    return sum(work.forwards for work in (finished.edge, finished.cloud) if work is not None)


def guessed(finished: Finished) -> int:
    """Tokens, by both models."""
    return sum(work.guessed for work in (finished.edge, finished.cloud) if work is not None)


def kept(finished: Finished) -> int:
    """Those of them that stood."""
    return sum(work.guesses_kept for work in (finished.edge, finished.cloud) if work is not None)


def closing_law(case: Case) -> str | None:
    """The edge alone or the cloud alone; the caption is that of all that the model writes without the rule."""
    how = edge_law(case) if case.given["mode"] == "edge" else cloud_law(case)
    if case.given["mode"] != "hybrid":
        ids = case.ran[-1][1].token_ids
        model, clip = (case.edge, case.edge_prompt) if case.given["mode"] == "edge" else (case.cloud, case.cloud_prompt)
        text, whole = case.pair.processor.text, generate(model, clip, case.pair.vocab_size, case.config.decoding)
        if tuple(whole[: len(ids)]) == ids and caption_of(text(ids)) != caption_of(text(whole)):
            raise LawBroken(f"case {case.number}: {caption_of(text(ids))!r} is not the caption of {text(whole)!r}")
    return how


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
