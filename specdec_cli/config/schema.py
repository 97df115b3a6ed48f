"""The settings: their types, bounds, defaults and meaning, as frozen pydantic models.

The defaults are those of published pairs; the mini pair's are in configs/mini.yaml. Units are in the descriptions.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final, Literal, cast, get_args

from specdec_cli.config.decoding_schema import DecodingConfig, GateConfig
from specdec_cli.config.fields import (
    AT_PAUSES,
    Flight,
    Instruction,
    Moment,
    Number,
    PlainText,
    Section,
    SegmentAt,
    Temperatures,
    Texts,
    Toggle,
    setting,
)
from specdec_cli.config.model_schema import CloudConfig, EdgeConfig, RemoteConfig, RoleConfig, Server
from specdec_cli.prompts import Language, Style, prompt_for
from specdec_cli.types import AcceptanceName, Decider, GateName


class RuntimeConfig(Section):
    """How the process works: threads, downloads, batches."""

    threads: int | None = setting(None, "CPU threads of a forward; null: one per core", ge=1)
    offline: bool = setting(False, "true: never download; models must be local or already cached")
    attention: Literal["sdpa", "eager", "flash_attention_2"] = setting("sdpa", "attention kernel")
    graphs: Toggle = setting("auto", "CUDA graphs over fixed memory; auto: on a GPU; on: on a CPU, too")
    compile: Toggle = setting("auto", "compile steps for a GPU (minutes, once); auto: in commands that run long")
    self_test: bool = setting(True, "test a model when it is loaded for the first time; false: trust it")
    workers: int | None = setting(
        None, "threads of a batch that read ahead; null: one per core, at most 4", ge=1, le=256
    )
    in_flight: Literal["auto"] | Flight = setting(
        "auto", "clips of a batch under way at a time, if both models are remote; auto: as many as pay"
    )
    fail_fast: bool = setting(False, "true: a batch stops at the first failure")

    @property
    def readers(self) -> int:
        """Threads of a batch that read ahead."""
        return self.workers or min(os.cpu_count() or 1, 4)


class PromptConfig(Section):
    """The instruction to the models."""

    language: Language = setting("en", "language of the caption; left out: the locale's, or else en")
    instruction: Instruction | Style = setting("default", "a shipped instruction, or one of your own")
    force: bool = setting(False, "true: give your own instruction also to the mini pair, which was not trained on it")
    system: Instruction | None = setting(None, "system prompt; null: the chat template's own")

    @property
    def style(self) -> Style | None:
        """The name of the shipped instruction; None: the user has one of their own."""
        return cast(Style, self.instruction) if self.instruction in get_args(Style) else None


class AudioConfig(Section):
    """How a recording is read and cut."""

    segment: SegmentAt | None = setting(
        None,
        "pauses: utterances; seconds: pieces of this length; a file or folder: its cuts; "
        "null: only recordings too long for the model, at pauses",
    )
    start_s: Moment | None = setting(None, "caption from here on, seconds or HH:MM:SS; null: 0")
    end_s: Moment | None = setting(None, "caption up to here, seconds or HH:MM:SS; null: to the end")
    strict: bool = setting(False, "true: refuse rows of cuts and tables, and labels, that would be left out")
    channel: Literal["mix", "each"] | Number = setting(
        "mix", "mix: the mean of those with sound; each: every channel is a speaker; a number: that channel, from 1"
    )
    track: Number | None = setting(None, "sound track of a video, from 1; null: the one that it marks as the default")
    no_speech: Literal["mark", "refuse", "keep"] = setting(
        "mark", "of a clip without speech, mark: no classes, no subtitles; refuse: an error; keep: as of any other"
    )

    @property
    def length_s(self) -> float | None:
        """Length of equal pieces, seconds; None if recordings are cut in another way."""
        return float(self.segment) if isinstance(self.segment, int | float) else None

    @property
    def at_pauses(self) -> bool:
        """Whether every recording is cut at its pauses."""
        return self.segment == AT_PAUSES

    @property
    def cuts_path(self) -> Path | None:
        """The file or folder of cuts."""
        return Path(self.segment) if isinstance(self.segment, str) and not self.at_pauses else None

    def recorded(self) -> dict[str, object]:
        """What transcripts record of these settings: those not at their defaults; of a file of cuts a hash, too."""
        segment = self.segment if self.at_pauses else None
        if (path := self.cuts_path) is not None:
            segment = path.name
            if path.is_file():
                segment += f" {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
        recorded = {"segment": segment, "start_s": self.start_s, "end_s": self.end_s, "track": self.track}
        recorded["channel"] = None if self.channel == "mix" else self.channel
        recorded["keep_no_speech"] = self.no_speech == "keep" or None
        return {name: value for name, value in recorded.items() if value is not None}


class JudgingConfig(Section):
    """How captions are judged: by `compare`, `tune` and `review`; and the temperatures of probabilities."""

    seed: int = setting(0, "seed of random draws, such as those of intervals", ge=0)
    label_codes: PlainText | None = setting(
        None, "corpus of the labels' codes: CREMA-D, MSP-Podcast, EMO-DB, RAVDESS or SAVEE; null: found by the codes"
    )
    temperatures: Temperatures = setting(
        (), "temperatures of the probabilities of classes, such as [emotion=1.5], which compare finds; others: shipped"
    )

    @property
    def temperature_of(self) -> dict[str, float]:
        """Attribute -> temperature."""
        pairs = (text.partition("=") for text in self.temperatures)
        return {name.strip(): float(value) for name, _, value in pairs}


class ServeConfig(Section):
    """The limits and the certificate of `specdec serve`."""

    tls_cert: PlainText | None = setting(None, "certificate (PEM), for HTTPS; null: HTTP")
    tls_key: PlainText | None = setting(None, "private key of the certificate (PEM)")
    sessions: int = setting(64, "clips of remote edges held at a time", ge=1)
    memory_mb: int = setting(4096, "memory of the caches of these clips, MiB", ge=1)
    clip_s: float | None = setting(
        None, "longest clip of an edge, or recording, s; null: what the model takes, or an hour", ge=0.1
    )
    idle_s: float = setting(120.0, "time until an unused clip is forgotten, s", ge=0.1)
    origins: Texts = setting((), "other sites whose pages may use the server: https://app.example.org; []: none")


class Config(Section):
    """All settings. `load_config` builds one from its layers and checks the values against each other."""

    edge: EdgeConfig | None = None
    cloud: CloudConfig | None = None
    remote: RemoteConfig = RemoteConfig()
    decoding: DecodingConfig = DecodingConfig()
    gate: GateConfig = GateConfig()
    prompt: PromptConfig = PromptConfig()
    audio: AudioConfig = AudioConfig()
    runtime: RuntimeConfig = RuntimeConfig()
    judging: JudgingConfig = JudgingConfig()
    serve: ServeConfig = ServeConfig()

    @property
    def _by_mini(self) -> bool:
        """Whether the captions are the mini pair's, or written with its tokenizer."""
        cloud = self.cloud if self.decoding.mode == "cloud" else None
        writer = self.edge if cloud is None or not cloud.names_processor else cloud
        return writer is not None and writer.names_processor and writer.of_processor.is_mini

    def instruction(self, language: Language | None = None) -> str:
        """The user turn that goes with the audio; `language`: of the caption, None: the configured one."""
        prompt = self.prompt
        if prompt.style is None:
            return prompt.instruction
        return prompt_for(language or prompt.language, prompt.style, mini=self._by_mini)

    def instruction_of(self, role: Decider, instruction: str) -> str:
        """The instruction of a model: its own, if it has one, in place of `instruction`."""
        model = self.edge if role == "edge" else self.cloud
        own = None if model is None else model.own_instruction
        return instruction if own is None else own

    @property
    def closes(self) -> bool:
        """Whether a caption ends where it stops describing."""
        return self.decoding.closing == "on" or (self.decoding.closing == "auto" and not self._by_mini)

    @property
    def models(self) -> dict[Decider, RoleConfig]:
        """The models that the mode uses."""
        unused = {"edge": "cloud", "cloud": "edge"}.get(self.decoding.mode)
        models: dict[Decider, RoleConfig | None] = {"edge": self.edge, "cloud": self.cloud}
        return {role: model for role, model in models.items() if model is not None and role != unused}

    def server(self, role: Decider) -> Server:
        """Where a model is that has an address, and how it is called."""
        model = self.models[role]
        assert model.url is not None
        given = self.remote.model_dump()
        given["timeout_s"] = self.remote.timeout_s or (5.0 if role == "cloud" else 120.0)
        return Server(url=model.url, served_model=model.served_model, token_env=model.token_env, **given)

    def running_long(self) -> Config:
        """The settings for a command that runs so long that compiling pays."""
        if self.runtime.compile != "auto":
            return self
        return self.model_copy(update={"runtime": self.runtime.model_copy(update={"compile": "on"})})

    @property
    def gate_in_force(self) -> GateName:
        """The configured gate in hybrid mode, else the one that the mode implies."""
        if self.decoding.mode == "hybrid":
            return self.gate.name
        return "always" if self.decoding.mode == "lossless" else "never"

    @property
    def acceptance_rule(self) -> AcceptanceName:
        """The rule in force: the configured one, or the lossless one for the temperature."""
        return self.decoding.rules.in_force(sampling=self.decoding.sampling)


SECTIONS: Final[dict[str, type[Section]]] = {
    name: next(kind for kind in (info.annotation, *get_args(info.annotation)) if isinstance(kind, type))
    for name, info in Config.model_fields.items()
}
"""Section -> its model, in the order in which settings are listed."""
