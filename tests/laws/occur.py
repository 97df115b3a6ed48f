"""What must occur among the cases of a law, so that the law is about something; asked from `ENOUGH` cases on."""

from collections import Counter
from collections.abc import Sequence

from specdec_cli.decoding.block import Block
from tests.laws.cases import MEMORIES, Case
from tests.laws.checks import guessed, kept
from tests.laws.makers import COSTS, cloud_way


def rounds_of(ran: Sequence[Case]) -> list[Block]:
    """All rounds of the cases."""
    return [round_ for case in ran for rounds, _ in case.ran for round_ in rounds]


def lengths_by_cost(ran: Sequence[Case]) -> None:
    """The dearer a draft, the shorter: from blocks of many lengths to no draft at all."""
    lengths = {cost: set[int]() for cost in COSTS}
    for case in ran:
        if (cost := cloud_way(case.number).get("cost_ratio")) in lengths:
            lengths[cost] |= {len(round_.draft_ids) for round_ in case.ran[0][0]}
    assert all(len(found) > 2 if cost < 0.5 else 0 in found for cost, found in lengths.items()), lengths


def verdicts_of_every_kind(ran: Sequence[Case]) -> None:
    """Blocks that are kept, verified, extended and corrected, and drafts that a gate cuts short."""
    blocks = rounds_of([case for case in ran if case.given["gate"] not in ("always", "never")])
    escalated = [round_ for round_ in blocks if round_.escalated]
    assert len(escalated) > 50
    assert len(blocks) - len(escalated) > 50
    assert sum("bonus" in round_.source for round_ in escalated) > 20
    assert sum(0 < round_.accepted < len(round_.draft_ids) for round_ in escalated) > 5
    cut = {case.given["gate"]: cut_short(case) for case in ran if cut_short(case)}
    assert set(cut) == {"entropy", "margin", "logprob", "class-entropy"}
    assert all(round_.escalated for rounds in cut.values() for round_ in rounds)


def lengths_that_pay(ran: Sequence[Case]) -> None:
    assert len({len(round_.draft_ids) for round_ in rounds_of(ran)}) > 4


def clips_asleep_and_awake(ran: Sequence[Case]) -> None:
    """Clips that never call the cloud, first calls and later ones."""
    clips = [rounds for case in ran for rounds, _ in case.ran]
    asleep = [rounds for rounds in clips if not any(round_.escalated for round_ in rounds)]
    assert len(asleep) > 3
    assert any(len(round_.draft_ids) > 8 for rounds in asleep for round_ in rounds)
    assert sum(round_.draft.gate_state.waking for rounds in clips for round_ in rounds if round_.escalated) > 3
    assert sum(not round_.draft.gate_state.waking for rounds in clips for round_ in rounds) > 3


def everything(ran: Sequence[Case]) -> None:
    """Every mode, end of a text and reason of a verification."""
    assert {case.given["mode"] for case in ran} == {"hybrid", "lossless", "edge", "cloud"}
    ends = Counter(finished.finish_reason for case in ran for _, finished in case.ran)
    assert set(ends) == {"eos", "max_tokens", "stop_string", "sentences", "loop"}
    reasons = Counter(str(round_.reason) for round_ in rounds_of(ran))
    assert set(reasons) >= {"entropy", "margin", "logprob", "class-entropy", "random", "loop", "always", "None"}
    assert any(map(cut_short, ran))


def guesses_that_stand_and_fall(ran: Sequence[Case]) -> None:
    """A right memory's guesses mostly stand, and others' mostly fall."""
    for number, memory in enumerate(MEMORIES):
        found = [case.ran[-1][1] for case in ran if case.number % len(MEMORIES) == number]
        tried, stood = sum(map(guessed, found)), sum(map(kept, found))
        assert tried > (0 if memory == "empty" else 20), memory
        assert (2 * stood > tried) == (memory == "right"), memory


def suggestions_that_count(ran: Sequence[Case]) -> None:
    """Texts that are others where every setting is given."""
    given = {"repetition_penalty": 1.0, "no_repeat_ngram": 0, "min_new_tokens": 0}
    texts = [(case.ran[-1][1].token_ids, case.but(**given).decode()[1].token_ids) for case in ran]
    assert sum(one != other for one, other in texts) > len(texts) / 4


def captions_that_close(ran: Sequence[Case]) -> None:
    assert Counter(finished.finish_reason for case in ran for _, finished in case.ran)["closing"] > 5


def faults_of_texts(ran: Sequence[Case]) -> None:
    captions_that_close(ran)
    reasons = Counter(round_.reason for round_ in rounds_of(ran))
    assert min(reasons["refusal"], reasons["language"]) > 0, reasons


def bans(ran: Sequence[Case]) -> None:
    """Beside a sound."""
    tokens = [token for round_ in rounds_of(ran) for token in round_.tokens]
    assert sum(token.instead is not None for token in tokens) > len(tokens) / 50


def cut_short(case: Case) -> list[Block]:
    """Blocks that ended early with a token at which a draft may only end if the gate says so."""
    given, drawn, cut = case.given, 0, list[Block]()
    if given["k"] == "auto" or given["mode"] != "hybrid" or not given["stop_drafting"]:
        return cut  # where k is auto, blocks end early for another reason, too
    for round_ in case.ran[0][0]:
        whole = min(given["k"], given["max_new_tokens"] - drawn)
        if len(round_.draft_ids) < whole and round_.draft_ids[-1] not in case.pair.processor.eos_ids:
            cut.append(round_)
        drawn += len(round_.committed_ids)
    return cut
