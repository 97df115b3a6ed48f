"""Runs to show: real event objects with the text of their tokens, written out round by round."""

from dataclasses import dataclass

from specdec_cli.transcript.records import ModelInfo, Models, Started
from specdec_cli.transcript.round import Round
from specdec_cli.transcript.updates import EventText, Update
from specdec_cli.types import Finished, FinishReason, Mode, ModelWork, Prefill, Reason, Source

Event = Prefill | Round | Finished

EOS = "<|im_end|>"


@dataclass(frozen=True)
class Step:
    """One round: the draft, its entropies, and what the cloud said to it."""

    draft: tuple[str, ...]
    entropy: tuple[float, ...]
    reason: Reason | None = None
    accepted: int | None = None
    cloud: str | None = None
    verify_ms: float = 112.4
    network_ms: float | None = None


@dataclass(frozen=True)
class Clip:
    """A `Started` event and all that follows, ready to be played."""

    started: Started
    events: tuple[tuple[Event, EventText], ...]

    @property
    def caption(self) -> str:
        return self.events[-1][1].caption

    @property
    def updates(self) -> list[Update]:
        return [Update(self.started, EventText()), *(Update(event, text) for event, text in self.events)]


def step(draft: str, entropy: str, reason: Reason | None = None, cloud: str | None = None, **more: object) -> Step:
    """A round from `a/b/c` and `0.1 0.2 0.3`; `cloud` corrects the draft after `accepted` tokens, or is the bonus."""
    return Step(tuple(draft.split("/")), tuple(map(float, entropy.split())), reason, cloud=cloud, **more)


def build(started: Started, steps: list[Step], finish_reason: FinishReason = "eos") -> Clip:
    """The events of a clip that is decoded in `steps`."""
    events: list[tuple[Event, EventText]] = []
    mode, caption, ids = started.mode, "", 0
    heard_cloud = mode == "cloud"
    if mode != "cloud":
        events.append((Prefill("edge", 148, 54.2, 12.6), EventText()))
    if heard_cloud:
        events.append((Prefill("cloud", 148, 61.0, 48.3), EventText()))
    for index, item in enumerate(steps):
        escalated = item.reason is not None
        if escalated and not heard_cloud:
            heard_cloud = True
            events.append((Prefill("cloud", 148, 61.0, 48.3), EventText(caption=caption)))
        accepted = len(item.draft) if item.accepted is None else item.accepted
        kept: Source = "cloud" if mode == "cloud" else "accepted" if escalated else "edge"
        committed = item.draft[:accepted]
        source: tuple[Source, ...] = (kept,) * accepted
        if item.cloud is not None:
            committed += (item.cloud,)
            source += ("bonus" if accepted == len(item.draft) else "corrected",)
        caption += "".join(piece for piece in committed if piece != EOS)
        round_ = Round(
            index=index, draft_ids=tuple(range(len(item.draft))), entropy=item.entropy, gate_values=item.entropy,
            gate_value=max(item.entropy, default=None), escalated=escalated, reason=item.reason, accepted=accepted,
            committed_ids=tuple(range(len(committed))), source=source, draft_ms=4.6 * len(item.draft),
            verify_ms=item.verify_ms if escalated else None, network_ms=item.network_ms, draft_pieces=item.draft,
            committed_pieces=committed,
        )  # fmt: skip
        ids += len(committed)
        events.append((round_, EventText(caption.strip())))
    work = ModelWork(1, 40, 54.2, 12.6, 180.0, 148, 44)
    edge, cloud = (None if mode == "cloud" else work), (work if heard_cloud else None)
    finished = Finished(tuple(range(ids)), finish_reason, edge, cloud, 96.3, 1874.2)
    events.append((finished, EventText(caption=caption.strip())))
    return Clip(started, tuple(events))


def started(file: str, language: str, mode: Mode = "hybrid", **settings: object) -> Started:
    """A heading with plausible models and settings."""
    prompt = "请用中文描述说话人的声音特征和情绪。" if language == "zh" else "Describe the speaker's voice and emotion."
    used: dict[str, object] = {"k": 5, "gate": "entropy", "threshold": 1.2, "acceptance": "greedy"}
    used |= {"temperature": 0.0, "max_new_tokens": 128, "repetition_penalty": 1.05, "no_repeat_ngram": 0, "seed": 0}
    used |= {"stop_strings": [], "sentences": None, "style": "default", "system": None}
    edge, cloud = (ModelInfo(name=f"specdec-mini-{role}", dtype="fp16", device="cpu") for role in ("edge", "cloud"))
    return Started(
        file=file,
        sha256="",
        duration_s=3.72,
        language=language,
        prompt=prompt,
        mode=mode,
        models=Models(edge=None if mode == "cloud" else edge, cloud=None if mode == "edge" else cloud),
        settings=used | settings,
    )


ZH_STEPS = [
    step("说话/人/是/女/声", "0.02 0.00 0.11 0.42 0.03"),
    step("，/语速/较/慢/，", "0.08 0.31 0.95 1.83 0.10", "entropy", "快", accepted=3),
    step("，/音调/偏/高/，", "0.07 0.22 0.64 1.31 0.06", "entropy", "起"),
    step("伏/明显/，/音量/较", "0.01 0.70 0.04 0.03 0.52"),
    step("大/，/停顿/较/少", "0.88 0.05 0.02 0.61 0.40"),
    step("。/听起来/情绪/平静/。", "0.02 0.55 0.08 2.71 0.12", "entropy", "愤怒", accepted=3, network_ms=18.0),
    step(f"。/{EOS}", "0.04 0.01"),
]
EN_STEPS = [
    step("The/ speaker/ has/ a/ fe", "0.03 0.01 0.20 0.05 0.61"),
    step("male/ voice/,/ speaking/ at", "0.00 0.02 0.11 0.70 0.02"),
    step(" a/ slow/ pace/,/ with", "0.03 1.64 0.05 0.22 0.40", "entropy", " fast", accepted=1),
    step(" pace/,/ with/ a/ high", "0.02 0.18 0.31 0.02 1.22", "entropy", " pitch"),
    step(",/ live/ly/ into/nation", "0.12 0.93 0.01 0.40 0.00"),
    step(",/ a/ loud/ vol/ume", "0.30 0.06 1.02 0.00 0.00"),
    step(",/ a/ loud/ vol/ume", "0.02 0.00 0.01 0.00 0.00", "loop", " and", accepted=0),
    step(" few/ pauses/./ The/ emotion", "0.90 0.04 0.06 0.13 0.20"),
    step(" sounds/ cal/m/./" + EOS, "0.05 2.90 0.10 0.02 0.01", "entropy", " ang", accepted=1),
    step("ry/./" + EOS, "0.02 0.03 0.00"),
]

ZH = build(started("recordings/女声 愤怒 07.wav", "zh"), ZH_STEPS)
EN = build(started("samples/angry_en.wav", "en"), EN_STEPS)
LONG = build(started("samples/long_en.wav", "en"), EN_STEPS[:-1] * 8, "max_tokens")
LOSSLESS = build(
    started("samples/angry_en.wav", "en", "lossless", gate="always", threshold=None),
    [Step(item.draft, item.entropy, "always", item.accepted, item.cloud) for item in EN_STEPS[:3]],
)
ALONE_STEPS = [Step(item.draft, item.entropy) for item in ZH_STEPS[:2]]
EDGE = build(started("samples/edge.wav", "zh", "edge", gate="never", threshold=None), ALONE_STEPS)
CLOUD = build(started("samples/cloud.wav", "zh", "cloud", gate="never", threshold=None), ALONE_STEPS)
CUT = build(started("samples/cut.wav", "en"), [step(" one/./ Two/ three", "0 0 0 0", accepted=2)], "sentences")
PARTIAL = build(
    started("samples/partial.wav", "zh", k=4),
    [step("\ufffd/\ufffd/ /\n", "0.2 0.1 3.0 0.4", "entropy", "嗓", accepted=2)],
    "max_tokens",
)
MODES = (ZH, LOSSLESS, EDGE, CLOUD, CUT, PARTIAL)

HOSTILE = "[bold red]x[/] :smile: \x1b]0;owned\x07\x1b[2J\u202e.wav"
WARNINGS = (f"The instruction {HOSTILE} is not the models' own.", "No lexicon has labels for captions in English.")
