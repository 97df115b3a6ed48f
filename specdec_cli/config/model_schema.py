"""The settings of one model: its name, how it is loaded, and the server of a remote one."""

from __future__ import annotations

import os
from typing import Any, Literal

from pydantic import Field

from specdec_cli.config import fields
from specdec_cli.config.fields import ModelName, PlainText, Section, setting
from specdec_cli.config.locate import follows_shipped_prompts, model_source


class ModelConfig(Section):
    """One audio language model and how to load it."""

    model: ModelName = Field(description="folder (relative to this file), hub id (or ID@REVISION), package:mini/edge")
    device: fields.Device = setting(
        "auto",
        "auto, cpu, mps, cuda or cuda:N; auto: cuda, then mps, then cpu; balanced, sequential: spread over all GPUs",
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = setting("auto", "number format; auto: as stored")
    quantization: Literal["int4"] | dict[str, Any] | None = setting(
        None, "int4: decoder in four bits, on a CPU; or transformers' own quantization_config; null: as stored"
    )
    instruction: fields.OwnInstruction | None = setting(None, 'for this model alone; "": none; null: that of `prompt`')

    @property
    def spreads(self) -> bool:
        """Whether it is spread over all GPUs."""
        return self.device in ("balanced", "sequential")

    @property
    def source(self) -> str:
        """What to load from: an absolute folder, or the hub id."""
        return model_source(self._name_and_revision[0])

    @property
    def revision(self) -> str | None:
        """The branch, tag or commit of a model on the hub; None: its main branch, or no model of the hub."""
        return self._name_and_revision[1]

    @property
    def _name_and_revision(self) -> tuple[str, str | None]:
        if os.path.isabs(self.model):  # a folder: its name may hold an @
            return self.model, None
        name, _, revision = self.model.partition("@")
        return name, revision or None

    @property
    def label(self) -> str:
        """Its name in messages and transcripts."""
        return self.model

    @property
    def is_mini(self) -> bool:
        """Whether the checkpoint declares that it takes only the shipped instructions, as the mini pair."""
        return follows_shipped_prompts(self.model)

    @property
    def own_instruction(self) -> str | None:
        """The instruction for this model alone, "" for none; a model published as a captioner takes none."""
        captioner = (self.model or "").rstrip("/").casefold().endswith("captioner")
        return "" if self.instruction is None and captioner else self.instruction


class RoleConfig(ModelConfig):
    """The model of one role, edge or cloud: loaded here, or remote, at a server."""

    model: ModelName = Field(
        description="folder (relative to this file), hub id (or ID@REVISION), package:mini/edge or ...cloud, or the "
        "address of a server, https://host:port"
    )
    served_model: PlainText | None = setting(
        None, "name of the model at a vLLM server; null: the address is that of specdec serve"
    )
    processor: ModelName | None = setting(
        None, "checkpoint with the tokenizer of the model at an address; null: `served_model`, or the edge's"
    )
    token_env: fields.VariableName | None = setting(
        None, "variable with the server's access token; null: it requires none"
    )

    @property
    def label(self) -> str:
        """Its name in messages and transcripts: the model's name, or the address."""
        return self.model

    @property
    def url(self) -> str | None:
        """The address of the model's server; None: it is loaded here."""
        return self.model if "://" in self.model else None

    @property
    def is_vllm(self) -> bool:
        """Whether the server is vLLM's."""
        return self.served_model is not None

    @property
    def names_processor(self) -> bool:
        """Whether there is a checkpoint to load tokenizer, features and chat template from."""
        return bool(self.processor or self.served_model or self.url is None)

    @property
    def of_processor(self) -> ModelConfig:
        """Where to load tokenizer, features and chat template from, if there is such a checkpoint."""
        return ModelConfig(model=self.processor or self.served_model or self.model)


class EdgeConfig(RoleConfig):
    """The edge; a remote one is at a vLLM server."""


class CloudConfig(RoleConfig):
    """The cloud; a remote one is at a server of specdec's or vLLM's."""


class RemoteConfig(Section):
    """How models at addresses are called, and what may be sent to them."""

    timeout_s: float | None = setting(
        None, "time limit of a call, with retries, s; null: 5 for a cloud, 120 for an edge", gt=0, le=3600
    )
    retry_s: float = setting(10.0, "time after a failed call until a cloud is called again, s", ge=0, le=3600)
    ca_file: PlainText | None = setting(None, "PEM file of certificates to trust; null: the public ones")
    allow_plain_http: bool = setting(False, "true: features or recordings may go unencrypted to another machine")
    allow_audio_upload: bool = setting(False, "true: recordings may leave this machine, as vLLM requires")


class Server(RemoteConfig):
    """The server of a model at an address."""

    url: str
    served_model: PlainText | None = None
    token_env: fields.VariableName | None = None
    timeout_s: float = 5.0
