"""From a file to a caption: configuration, models, audio, engine and transcript, put together.

captioner = Captioner.load("mini", {"prompt.language": "en"})
print(captioner.caption("clip.wav").caption)
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from specdec_cli.audio import Recording, Segment, check_content, load_audio, segments
from specdec_cli.cloud.link import CloudLink
from specdec_cli.config import CloudConfig, Config, ModelConfig, load_config
from specdec_cli.config.gate_file import read_gate_file, tokenizer_fingerprint
from specdec_cli.decoding.build import Pair, build_engine, gate_of
from specdec_cli.decoding.imitation import Imitation
from specdec_cli.decoding.learned import Classifier
from specdec_cli.decoding.options import DecodingOptions
from specdec_cli.errors import AudioContentError, ConfigError
from specdec_cli.lexicon import Lexicon
from specdec_cli.models.family import AudioFeatures, AudioLanguageModel, LoadOptions, PromptInputs, family_class
from specdec_cli.run import Clip, Run, Setup
from specdec_cli.transcript.schema import ModelInfo, Models, Transcript
from specdec_cli.types import TOKEN_GATES, Mode, Update

Loading = Callable[[str], AbstractContextManager[None]]
"""Told what is being loaded; the context lasts until it is."""

_EDGE_MODES: frozenset[Mode] = frozenset({"hybrid", "lossless", "edge"})
_CLOUD_MODES: frozenset[Mode] = frozenset({"hybrid", "lossless", "cloud"})


class Captioner:
    """A loaded pair of models and the settings to use them with.

    Args:
        config: the settings.
        pair: the models that the mode needs.
        load_s: how long they took to load, seconds; None if they came from elsewhere.
        lexicon: reads the classes that captions say into the transcripts; None: transcripts have no labels.
    """

    def __init__(self, config: Config, pair: Pair, load_s: float | None = None, lexicon: Lexicon | None = None) -> None:
        self.config = config
        self.pair = pair
        self.options = decoding_options(config)
        if self.options.classifier is not None:
            _require_tokenizer(self.options.classifier, config, pair)
        self.setup = _setup(config, self.options, pair, load_s, lexicon)
        rates = {model.sampling_rate for model in pair.loaded}
        if len(rates) > 1:
            raise ConfigError(f"edge and cloud want audio at different rates: {sorted(rates)} Hz")
        self.sampling_rate = rates.pop()
        self.window_s = min([model.window_s for model in pair.loaded] + ([pair.link.window_s] if pair.link else []))
        segment_s = config.audio.segment_s
        if segment_s is not None and segment_s > self.window_s:
            raise ConfigError(
                f"audio.segment_s is {segment_s:g} s, but the models read {self.window_s:g} s at once",
                hint=f"Give --segment a length of {self.window_s:g} seconds or less.",
            )

    @classmethod
    def load(
        cls,
        config: str | Path | Config | None = None,
        settings: Mapping[str, object] | None = None,
        *,
        loading: Loading | None = None,
    ) -> Captioner:
        """Loads the models that the configured mode needs.

        Args:
            config: a shipped name ("mini"), a path, or a finished configuration; None: SPECDEC_CONFIG or "mini".
            settings: dotted name -> value, over everything else, e.g. {"decoding.k": 3}.
            loading: told what is being loaded, for a display.

        Raises:
            ConfigError: a setting is unknown, malformed or contradicts another.
            CheckpointError: a model cannot be loaded, or the two do not share one tokenizer.
        """
        if isinstance(config, Config):
            if settings:
                raise ConfigError("settings go with a configuration's name or path, not with a finished one")
            resolved = config
        else:
            resolved = load_config(config, flags=settings or {}).config
        if resolved.runtime.threads is not None:
            torch.set_num_threads(resolved.runtime.threads)
        loading = loading or (lambda _: nullcontext())
        started = time.perf_counter()
        mode = resolved.decoding.mode
        offline = resolved.runtime.offline
        edge: AudioLanguageModel | None = None
        cloud: AudioLanguageModel | CloudLink | None = None
        elsewhere = resolved.cloud is not None and resolved.cloud.url is not None
        if mode in _EDGE_MODES or elsewhere:  # a cloud elsewhere is sent the edge's features and prompt
            with loading(f"edge: {resolved.edge.model}"):
                edge = load_model(resolved.edge, offline)
        if mode in _CLOUD_MODES:
            if resolved.cloud is None:
                raise ConfigError(f"mode {mode!r} needs a cloud model, and the configuration has none")
            with loading(f"cloud: {resolved.cloud.label}"):
                cloud = _connect(resolved.cloud, edge) if edge and elsewhere else load_model(resolved.cloud, offline)
        return cls(resolved, Pair.of(edge, cloud), time.perf_counter() - started)

    def variant(self, config: Config) -> Captioner:
        """The same loaded models with other settings, for comparing modes, gates and the like.

        Args:
            config: the settings; its models must be those that are loaded.

        Raises:
            ConfigError: the mode needs a model that is not loaded, or other models are configured.
        """
        for role, ours, theirs in (("edge", self.config.edge, config.edge), ("cloud", self.config.cloud, config.cloud)):
            if ours != theirs:
                raise ConfigError(f"a variant keeps the loaded models, but {role} is configured differently")
        mode = config.decoding.mode
        edge = self.pair.edge if mode in _EDGE_MODES or self.pair.link is not None else None
        cloud = self.pair.cloud if mode in _CLOUD_MODES else None
        if (mode in _EDGE_MODES and edge is None) or (mode in _CLOUD_MODES and cloud is None):
            raise ConfigError(f"mode {mode!r} needs a model that is not loaded; load the captioner in mode 'hybrid'")
        # the shared vocabulary stays, so that a model alone says what it says in company
        return Captioner(
            config, Pair(edge, cloud, self.pair.vocab_size, self.pair.costs), self.setup.load_s, self.setup.lexicon
        )

    def labelled(self, lexicon: Lexicon) -> Captioner:
        """The same captioner, whose transcripts say in `labels` which classes their captions name."""
        return Captioner(self.config, self.pair, self.setup.load_s, lexicon)

    def caption(self, path: str | PathLike[str]) -> Transcript:
        """Captions one recording as a whole.

        Raises:
            AudioError: the recording cannot be captioned.
            ConfigError: the settings cut it into several segments; use `captions`.
        """
        runs = self.runs(path)
        run = next(runs)
        if next(runs, None) is not None:
            raise ConfigError(
                f"{path} was cut into several segments, and `caption` returns one transcript",
                hint="Use captions(), or leave audio.segment_s out.",
            )
        return run.finish()

    def captions(self, path: str | PathLike[str]) -> Iterator[Transcript]:
        """Captions a recording, one transcript per segment; errors as in `caption`."""
        for run in self.runs(path):
            yield run.finish()

    def stream(self, path: str | PathLike[str]) -> Iterator[Update]:
        """Captions a recording, yielding what happens as it happens: Started, Prefill, Round ..., Finished.

        Of several segments a silent one raises its AudioContentError and ends the stream; use `runs` to go on.
        """
        for run in self.runs(path):
            yield from run

    def runs(self, path: str | PathLike[str]) -> Iterator[Run]:
        """One run per segment of a recording; iterate a run for its updates, then ask it for its transcript.

        Raises:
            AudioError: the recording cannot be captioned as a whole; a single silent segment fails its run only.
        """
        for clip, cut, decode_s in self.clips(path):
            yield self._run(clip, cut, decode_s)

    def clips(self, path: str | PathLike[str]) -> Iterator[tuple[Clip, Segment, float]]:
        """What a recording is cut into: (what to call the piece, its samples, seconds spent on decoding it).

        Raises:
            AudioError: the recording cannot be captioned as a whole.
        """
        recording = load_audio(path, self.sampling_rate)
        cuts = segments(recording, self.window_s, self.config.audio.segment_s)
        whole = len(cuts) == 1
        for cut in cuts:
            clip = Clip(
                file=recording.path,
                sha256=recording.sha256,
                duration_s=round(recording.duration_s if whole else cut.duration_s, 4),
                start_s=None if whole else round(cut.start_s, 4),
                end_s=None if whole else round(cut.end_s, 4),
            )
            yield clip, cut, recording.decode_s / len(cuts)

    def run_samples(self, samples: npt.ArrayLike, name: str = "samples") -> Run:
        """A run over mono samples [n] at `sampling_rate`, full scale 1.0, for audio that is in memory already.

        Args:
            samples: anything that makes a one-dimensional array of floats.
            name: what to call it in messages and in the transcript.

        Raises:
            AudioContentError: not one-dimensional, too short, too long, silent, or not finite.
        """
        array = np.ascontiguousarray(samples, dtype=np.float32)
        if array.ndim != 1:
            raise AudioContentError(f"{name} has the shape {array.shape}; mono samples [n] are wanted")
        digest = hashlib.sha256(array.tobytes()).hexdigest()
        duration_s = round(len(array) / self.sampling_rate, 4)
        recording = Recording(name, array, self.sampling_rate, duration_s, digest, self.sampling_rate, 1, 0.0)
        check_content(recording)
        (cut,) = segments(recording, self.window_s, None)
        return self._run(Clip(name, digest, duration_s), cut, 0.0)

    def decode(self, ids: Sequence[int]) -> str:
        """Token ids as text, special tokens left out."""
        return self.pair.writer.text(ids).strip()

    def _run(self, clip: Clip, cut: Segment, decode_s: float) -> Run:
        if cut.silent:
            return Run(self.setup, clip, None, None, decode_s, silent_piece(clip))
        started = time.perf_counter()
        edge_inputs, cloud_inputs = self.inputs(cut.samples, self.setup.prompt)
        audio_s = decode_s + time.perf_counter() - started
        engine = build_engine(self.pair, self.options, edge_inputs, cloud_inputs)
        return Run(self.setup, clip, engine, self.pair.writer, audio_s, None)

    def inputs(
        self, samples: npt.NDArray[np.float32], instruction: str
    ) -> tuple[PromptInputs | None, PromptInputs | None]:
        """The prompt of a clip for each loaded model; features are computed once where both want the same."""
        shared: dict[str, AudioFeatures] = {}

        def build(model: AudioLanguageModel) -> PromptInputs:
            key = model.feature_key()
            if key not in shared:
                shared[key] = model.features(samples)
            return model.build_prompt(instruction, shared[key], self.config.prompt.system)

        edge, cloud, link = self.pair.edge, self.pair.loaded_cloud, self.pair.link
        for_edge = None if edge is None else build(edge)
        if link is not None and for_edge is not None:
            return for_edge, replace(for_edge, waveform=samples if link.accepts_waveform else None)
        return for_edge, build(cloud) if cloud is not None else None


def silent_piece(clip: Clip) -> AudioContentError:
    """Why a segment of a recording gets no caption."""
    return AudioContentError(
        f"{clip.file} is silent from {clip.start_s:.1f} s to {clip.end_s:.1f} s: a caption would be invented"
    )


def decoding_options(config: Config) -> DecodingOptions:
    """The engine's settings out of a configuration.

    Raises:
        ConfigError: the learned gate's weights cannot be read.
    """
    decoding = config.decoding.model_dump()
    acceptance = config.acceptance
    classifier = _classifier(config)
    threshold = config.gate.effective_threshold
    return DecodingOptions(
        **decoding,
        imitation=Imitation(**config.link.model_dump(), **config.simulate.model_dump()),
        gate=config.gate.name,
        threshold=classifier.threshold if threshold is None and classifier else threshold,
        stop_drafting=config.gate.stop_drafting,
        classifier=classifier,
        acceptance=acceptance.rule,
        rank=acceptance.rank,
        prob=acceptance.prob,
        typical_epsilon=acceptance.typical_epsilon,
        typical_delta=acceptance.typical_delta,
    )


def recorded_settings(config: Config) -> dict[str, object]:
    """Every setting in force that shapes a caption, as transcripts record them."""
    options = decoding_options(config)
    gate = gate_of(options)
    return {
        **config.decoding.model_dump(mode="json", exclude={"mode"}),
        "gate": gate,
        "threshold": options.threshold if gate == options.gate else None,
        "stop_drafting": options.stop_drafting if gate in TOKEN_GATES else None,
        "gate_weights": options.classifier.fingerprint if options.classifier else None,
        "acceptance": options.rule if options.mode in ("hybrid", "lossless") else None,
        **config.acceptance.model_dump(mode="json", exclude={"rule"}),
        "style": None if config.prompt.text is not None else config.prompt.style,
        "system": config.prompt.system,
        "segment_s": config.audio.segment_s,
        **_simulated(config),
    }


def _simulated(config: Config) -> dict[str, object]:
    """What is imitated, by the names of `SIMULATED`; nothing of what is not."""
    values = {**config.link.model_dump(), **config.simulate.model_dump()}
    return {f"simulated_{name}": value for name, value in values.items() if value is not None}


def _classifier(config: Config) -> Classifier | None:
    """The learned gate's, where the mode has a gate and it is that one."""
    path = config.gate.weights_path
    if config.gate.name != "learned" or config.decoding.mode != "hybrid" or path is None:
        return None
    file = read_gate_file(path, config.gate.file)
    if file.learned is None:
        raise ConfigError(
            f"gate.name is learned, but {config.gate.file} holds the gate {file.gate}, which has no weights",
            hint=f"Use it as it is: --gate {config.gate.file}",
        )
    return Classifier(file.learned, file.threshold, file.tokenizer)


def _require_tokenizer(classifier: Classifier, config: Config, pair: Pair) -> None:
    """Raises ConfigError if the gate was fitted with the ids of another tokenizer."""
    ours = tokenizer_fingerprint(pair.writer.tokenizer.get_vocab())
    if classifier.tokenizer != ours:
        raise ConfigError(
            f"{config.gate.file} was fitted with the tokenizer {classifier.tokenizer}, "
            f"but {pair.writer.name} has {ours}",
            hint="Its weights are about other words. Fit a gate for this pair: specdec tune",
        )


def _setup(
    config: Config, options: DecodingOptions, pair: Pair, load_s: float | None, lexicon: Lexicon | None
) -> Setup:
    return Setup(
        mode=options.mode,
        language=config.prompt.language,
        prompt=config.prompt.instruction,
        models=Models(
            edge=ModelInfo(**pair.edge.describe()) if pair.edge else None,
            cloud=ModelInfo(**pair.cloud.describe()) if pair.cloud else None,
        ),
        payload=pair.link.payload if pair.link else None,
        settings=recorded_settings(config),
        stop_strings=options.stop_strings,
        load_s=load_s,
        lexicon=lexicon,
    )


def load_model(config: ModelConfig, offline: bool) -> AudioLanguageModel:
    """Loads one configured model.

    Raises:
        CheckpointError: it cannot be loaded.
    """
    return family_class(config.family).load(
        LoadOptions(
            model=config.source,
            name=config.model,
            revision=config.revision,
            device=config.device,
            dtype=config.dtype,
            device_map=config.device_map,
            attention=config.attention,
            quantization=config.quantization,
            compile=config.compile,
            offline=offline,
        )
    )


def _connect(config: CloudConfig, edge: AudioLanguageModel) -> CloudLink:
    """A link to the configured cloud."""
    if config.engine == "vllm":
        from specdec_cli.cloud.vllm import VllmCloud

        return VllmCloud(config, edge)
    from specdec_cli.cloud.client import HttpCloud

    return HttpCloud(config, edge)
