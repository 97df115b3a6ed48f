"""Gate files: a gate with its threshold and block size, and its weights if it is a learned one.

`specdec tune` writes them; `gate.name` in any layer of the configuration takes the path of one, and `gate.file` names
the weights of the gate `learned`. They are JSON, so that nothing in one can be executed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from specdec_cli.config.fields import setting
from specdec_cli.errors import ConfigError
from specdec_cli.regular_files import read_json

if TYPE_CHECKING:
    from specdec_cli.config.schema import Config


class FilePart(BaseModel):
    """A frozen part of a file."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


Combination = Literal["any", "largest"]
Weight = Annotated[float, Field(ge=-1e6, le=1e6)]
"""No fitted weight comes near these bounds, within which no probability is NaN."""


class LearnedWeights(FilePart):
    """A logistic regression on the edge's evidence for a drafted token; `decoding.learned` has the features."""

    features: tuple[str, ...] = Field(min_length=1, description="names of the features, in the order of the weights")
    weights: tuple[Weight, ...] = Field(description="one a feature, for its raw value")
    bias: Weight
    slope: Weight = setting(1.0, "calibration: the logit is multiplied by this")
    offset: Weight = setting(0.0, "calibration: and this is added")
    most_entropy: float | None = setting(None, "largest entropy of the fit, nats; a token above it escalates")
    combination: Combination = Field(description="block's probability from its tokens': 1 - prod(1 - p), or max p")

    @property
    def fingerprint(self) -> str:
        """Identifies the weights in transcripts."""
        return hashlib.sha256(self.model_dump_json(exclude_none=True).encode()).hexdigest()[:16]

    @model_validator(mode="after")
    def _as_many_weights_as_features(self) -> LearnedWeights:
        if len(self.weights) != len(self.features):
            raise ValueError(f"{len(self.features)} features, but {len(self.weights)} weights")
        return self


class GateFile(FilePart):
    """The content of a gate file."""

    format: Literal["specdec gate"] = "specdec gate"
    version: Literal[1] = 1
    gate: Literal["entropy", "class-entropy", "margin", "logprob", "learned", "random"]
    threshold: float = Field(description="in the unit of the gate")
    k: int = Field(ge=1, le=64, description="tokens drafted per block")
    stop_drafting: bool = Field(description="whether a block ends with its first unsure token")
    defer: bool = setting(False, "whether all of a caption is drafted before the gate decides")
    wake: float | None = setting(None, "threshold for a clip's first call; null: `threshold`")
    tokenizer: str = Field(description="fingerprint of the tokenizer whose ids it was fitted with")
    fitted_on: dict[str, Any] = Field(description="models, clips, blocks and measured figures, for people")
    learned: LearnedWeights | None = setting(None, "weights of the gate `learned`")
    waking: LearnedWeights | None = setting(None, "weights that go with `wake`; null: those of `learned`")

    mark: str | None = setting(None, "by which `specdec tune` knows the file as its own; gone or wrong: it was edited")

    @model_validator(mode="after")
    def _weights_where_learned(self) -> GateFile:
        if (self.gate == "learned") != (self.learned is not None):
            raise ValueError("the gate `learned`, and no other, has weights")
        return self

    def not_fitted_to(self, weights: Mapping[str, str | None]) -> tuple[str, ...]:
        """Roles of models whose `weights` are others than those in `fitted_on`, as far as both are known."""
        fitted = self.fitted_on.get("weights")
        known = fitted if isinstance(fitted, dict) else {}
        return tuple(role for role, found in weights.items() if found and known.get(role, found) != found)

    def to_json(self) -> str:
        """The file's text."""
        return self.model_dump_json(indent=1, exclude_none=True) + "\n"


def tokenizer_fingerprint(vocabulary: Mapping[str, int]) -> str:
    """Hash of a tokenizer's pieces and their ids: if it is equal, an id means the same in both tokenizers."""
    digest = hashlib.sha256()
    for piece, id_ in sorted(vocabulary.items(), key=lambda item: item[1]):
        digest.update(f"{id_}\t{piece}\n".encode("utf-8", "surrogatepass"))
    return f"sha256:{digest.hexdigest()[:32]}"


def read_gate_file(path: Path, label: str | None = None) -> GateFile:
    """The gate file at `path`; ConfigError if it is not there, or not a gate file of this version."""
    return read_json(path, GateFile, "gate file", "specdec tune --output FILE writes one.", label=label)


def learned_gate_file(config: Config) -> GateFile | None:
    """The file of the learned gate, None if another one is in force; ConfigError if it cannot be used."""
    path = config.gate.weights_path
    if config.gate_in_force != "learned" or path is None:
        return None
    file, label = read_gate_file(path, config.gate.file), config.gate.file
    if file.learned is None:
        message = f"gate.name is learned, but {label} holds the gate {file.gate}, which has no weights"
        raise ConfigError(message, hint=f"Use it as it is: set gate.name to {label}.")
    return file
