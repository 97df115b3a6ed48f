"""The settings of one model: which it is, how to load it, and the server that runs it if one does."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from specdec_cli.config.fields import (
    Device,
    FamilyName,
    ModelName,
    OwnInstruction,
    PlainText,
    Section,
    Url,
    VariableName,
)
from specdec_cli.config.locate import follows_shipped_prompts, model_source


class ModelConfig(Section):
    """One audio language model and how to load it."""

    model: ModelName = Field(
        description="folder (relative to this file), hub id (owner/name), or package:mini/edge, package:mini/cloud"
    )
    revision: PlainText | None = Field(default=None, description="branch, tag or commit of a hub model; null: main")
    family: FamilyName = Field(
        default="auto", description="model family; auto: by the checkpoint's model_type, other types the generic way"
    )
    device: Device = Field(default="auto", description="auto: cuda, then mps, then cpu")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto", description="number format of the weights; auto: the checkpoint's own"
    )
    device_map: Literal["auto", "balanced", "sequential"] | None = Field(
        default=None, description="spread one model over several devices; null: all of it on `device`"
    )
    attention: Literal["sdpa", "eager", "flash_attention_2"] = Field(
        default="sdpa", description="attention kernel; flash_attention_2 needs cuda and a 16-bit dtype"
    )
    quantization: Literal["int8", "int4"] | None = Field(
        default=None,
        description="weights of the decoder and the output layer in 8 or 4 bits; on a GPU it needs torchao or "
        "bitsandbytes; null: as stored",
    )
    encoder_dtype: Literal["int8"] | None = Field(
        default=None,
        description="number format in which the audio encoder multiplies; int8 needs a CPU with VNNI; null: as dtype",
    )
    graphs: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="cache of fixed size, over which a GPU runs CUDA graphs of 1, 9, 17 and 65 tokens, for models "
        "whose attention is sdpa and full in every layer; auto: on cuda; on: on a CPU, too, which gains nothing by it; "
        "off: a cache that grows",
    )
    instruction: OwnInstruction | None = Field(
        default=None, description='instruction for this model alone, "" for none; null: the one of `prompt`'
    )

    @property
    def source(self) -> str:
        """What to load from: an absolute folder, or the hub id."""
        return model_source(self.model)

    @property
    def label(self) -> str:
        """What messages and transcripts call it."""
        return self.model

    @property
    def is_mini(self) -> bool:
        """Whether it is of the mini pair or trained like it, on the shipped instructions alone, as it declares."""
        return follows_shipped_prompts(self.source)

    @property
    def own_instruction(self) -> str | None:
        """The instruction for this model alone, "" for none; a model published as a captioner takes none."""
        captioner = (self.model or "").rstrip("/").casefold().endswith("captioner")
        return "" if self.instruction is None and captioner else self.instruction


class LinkedConfig(ModelConfig):
    """A model that is loaded here, or a server that runs one."""

    processor: ModelName | None = Field(
        default=None,
        description="checkpoint whose tokenizer, features and chat template the model at `url` has; null: the edge's",
    )
    url: Url | None = Field(default=None, description="address of the model's server: https://host:port; null: none")
    token_env: VariableName | None = Field(
        default=None, description="environment variable with the server's token; null: it requires none"
    )
    timeout_s: float = Field(default=5.0, gt=0, le=3600, description="time limit of a call to the server, s")
    retry_s: float = Field(
        default=10.0, ge=0, le=3600, description="time after a failed call until the server is called again, s"
    )
    ca_file: PlainText | None = Field(
        default=None, description="PEM file of certificates to trust for `url`; null: the public ones"
    )
    allow_plain_http: bool = Field(
        default=False, description="true: features or recordings may go unencrypted to a host that is not this machine"
    )
    allow_audio_upload: bool = Field(
        default=False, description="true: recordings may leave this machine, as vLLM requires"
    )

    @property
    def label(self) -> str:
        """What messages and transcripts call it: the model's name, or the address."""
        return self.url or self.model or ""

    @property
    def of_processor(self) -> ModelConfig:
        """Where to load tokenizer, features and chat template from."""
        return ModelConfig(model=self.processor or self.model or "", revision=self.revision, family=self.family)


class EdgeConfig(LinkedConfig):
    """The edge: a model that is loaded here, or a vLLM server."""

    engine: Literal["transformers", "vllm"] = Field(
        default="transformers", description="what runs it: transformers here, or vllm serve at `url`"
    )
    model: ModelName = Field(
        description="folder (relative to this file), hub id (owner/name), package:mini/edge, package:mini/cloud, or "
        "the name that a vllm serves"
    )
    processor: ModelName | None = Field(
        default=None, description="checkpoint whose tokenizer the model at `url` has; null: `model`"
    )
    timeout_s: float = Field(
        default=120.0, gt=0, le=3600, description="time limit of a call to the server, s; until then it is tried again"
    )


class CloudConfig(LinkedConfig):
    """The cloud: a model that is loaded here, or a server that runs one."""

    engine: Literal["specdec", "vllm"] = Field(
        default="specdec",
        description="what answers at `url`: specdec serve, or vllm serve, which needs `model` as well",
    )
    model: ModelName | None = Field(  # type: ignore[assignment]  # a server needs none
        default=None, description="as for the edge, or the name that a vllm serves; null: the cloud is at `url`"
    )
