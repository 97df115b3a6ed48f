"""How good captions are: against reference texts, against another model's captions, and against labels.

Shares (accuracy, F1, exact) are between 0 and 1; text scores (BLEU, chrF, ROUGE-L, BERTScore) between 0 and 100, as
their field prints them.
"""

from specdec_cli.inputs.references import Reference, References
from specdec_cli.metrics.bootstrap import Interval, Resampler, Values
from specdec_cli.metrics.gap import GapClosed, measure_gap
from specdec_cli.metrics.labels import LabelQuality, attribute_table, label_hits, label_scores
from specdec_cli.metrics.text import TextQuality, chrf, clip_chrf, text_scores

__all__ = [
    "GapClosed",
    "Interval",
    "LabelQuality",
    "Reference",
    "References",
    "Resampler",
    "TextQuality",
    "Values",
    "attribute_table",
    "chrf",
    "clip_chrf",
    "label_hits",
    "label_scores",
    "measure_gap",
    "text_scores",
]
