"""Commands around the weights run on a folder of a few clips, and shipped tables are theirs."""

import json
import shutil
import struct

import numpy as np
import pytest

from specdec_cli.labels import Lexicon
from specdec_cli.labels.calibration import CalibrationFile
from tests.mini_pair import captioner
from training import (
    EDGE_WEIGHTS,
    WEIGHTS,
    calibration,
    card,
    evaluate,
    fit_speech_check,
    heads,
    make_samples,
    train,
)
from training.feature_cache import EXAMPLES
from training.labels import DEV_SPEAKERS, REPORT_SPEAKERS, TRAINING_CORPORA, dev_rows, read_rows
from training.references import Split
from training.references import main as write_references
from training.sources import SYNTHETIC_CLIPS, synthetic_sources
from training.tower import build_tower
from training.whisper import port, read_encoder_state

needs_espeak = pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="needs espeak-ng")


def test_the_card_has_the_shapes_recipes_and_speakers_of_the_code():
    text = (WEIGHTS / "MODEL_CARD.md").read_text("utf-8")
    assert card.current(text) == text, "run: python -m training.card"
    assert all(name in text for name in DEV_SPEAKERS | REPORT_SPEAKERS)
    assert f"espeak-ng, {SYNTHETIC_CLIPS} clips" in text
    assert f"{EXAMPLES} are encoded once" in text


@pytest.mark.slow
def test_figures_are_measured_and_stand_in_the_card(corpora, tmp_path, monkeypatch):
    monkeypatch.setattr(evaluate, "DURATIONS_S", (1.0,))
    evaluate.main(corpora, report=True, output=tmp_path / "figures.json")
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["dev speakers"]["edge zh"]["captions"] == 2 * len(DEV_SPEAKERS)
    assert figures["report speakers"]["cloud en"]["well-formed"] == 100.0
    shutil.copy(WEIGHTS / "MODEL_CARD.md", tmp_path / "card.md")
    card.main(tmp_path / "figures.json", tmp_path / "card.md")
    written = (tmp_path / "card.md").read_text("utf-8")
    assert f"| captions |{f' {2 * len(DEV_SPEAKERS)} |' * 4}" in written
    assert written.count("\n## ") == (WEIGHTS / "MODEL_CARD.md").read_text("utf-8").count("\n## ")


@pytest.mark.slow
def test_heads_are_judged_on_every_layer(corpora, capsys):
    heads.main(corpora, [f"mine={EDGE_WEIGHTS}"], final=True)
    rows = [line.split(" |")[0] for line in capsys.readouterr().out.splitlines()[2:]]
    assert rows == ["| mine, layer 0", "| mine, layer 1"]


@pytest.mark.slow
def test_a_calibration_is_fitted_to_captions(corpora, tmp_path, capsys):
    table, captions, output = (tmp_path / name for name in ("dev.tsv", "captions.jsonl", "calibration.json"))
    write_references(corpora, table, Split.DEV)
    labelled = captioner(decoding__mode="edge").labelled(Lexicon.read())
    lines = [labelled.caption(corpora / row.file).to_json() for row in dev_rows(read_rows(corpora))]
    captions.write_text("\n".join([*lines, ""]), encoding="utf-8")
    calibration.main([captions], table, output)
    assert "voice    edge        20 captions: " in capsys.readouterr().out
    assert set(CalibrationFile.model_validate_json(output.read_text()).models) == {"edge"}


@pytest.mark.slow
def test_the_speech_check_is_fitted_and_counted(corpora, capsys):
    fit_speech_check.main(corpora, clips=8, each=3)
    printed = capsys.readouterr().out
    assert printed.startswith("_BIAS: Final = ")
    assert "emodb: " in printed
    assert "degraded clips of other speakers: " in printed


@pytest.mark.slow
@needs_espeak
def test_the_samples_can_be_made_again(tmp_path, samples, monkeypatch):
    monkeypatch.setattr(make_samples, "FOLDER", tmp_path)
    make_samples.main()
    shipped, made = (json.loads((folder / "manifest.json").read_text("utf-8")) for folder in (samples, tmp_path))
    assert [clip["file"] for clip in made] == [clip["file"] for clip in shipped]
    assert all((tmp_path / clip["file"]).stat().st_size > 1000 for clip in made)


@needs_espeak
def test_synthetic_clips_are_the_same_again(tmp_path, monkeypatch):
    monkeypatch.setattr("training.sources.SYNTHETIC_CLIPS", 2)
    first, again = (synthetic_sources(tmp_path, 7) for _ in range(2))
    assert first == again
    assert [len(source.read()) > 1000 for source in first] == [True, True]


@pytest.mark.parametrize("left_out", [None, "nemo"])
def test_a_whole_course_can_leave_a_corpus_out(corpora, tmp_path, monkeypatch, left_out):
    monkeypatch.setattr("training.sources.SYNTHETIC_CLIPS", 0)
    pool = train.prepare(corpora, tmp_path, 7, left_out)
    drawn = {pool.draw(np.random.default_rng(seed)).corpus for seed in range(40)}
    assert drawn == set(TRAINING_CORPORA) - {left_out}
    with pytest.raises(ValueError, match="casia is not a training corpus; these are: ravdess, cremad, nemo, emodb"):
        train.prepare(corpora, tmp_path, 7, "casia")


def test_whisper_is_read_from_ctranslate2s_format(tmp_path):
    """q, k and v are stacked; a header stands before the tensors, and each has its name, shape, type and bytes."""
    tower = build_tower(1)
    state = {name.replace("ln_post", "layer_norm"): value for name, value in tower.state_dict().items()}
    kinds = {"self_attn.out_proj": "self_attention/linear_1", "fc1": "ffn/linear_0", "fc2": "ffn/linear_1"}
    norms = {"self_attn_layer_norm": "self_attention/layer_norm", "final_layer_norm": "ffn/layer_norm"}
    tensors = {
        f"encoder/{name}/{part}": state[f"{name}.{part}"] for name in ("conv1", "conv2") for part in ("weight", "bias")
    }
    for part, stored in (("weight", "gamma"), ("bias", "beta")):
        for ours, theirs in kinds.items():
            tensors[f"encoder/layer_0/{theirs}/{part}"] = state[f"layers.0.{ours}.{part}"]
        for ours, theirs in norms.items():
            tensors[f"encoder/layer_0/{theirs}/{stored}"] = state[f"layers.0.{ours}.{part}"]
        tensors[f"encoder/layer_norm/{stored}"] = state[f"layer_norm.{part}"]
        stacked = [state.get(f"layers.0.self_attn.{name}_proj.{part}") for name in "qkv"]
        stacked = [np.zeros(512, np.float32) if each is None else each.numpy() for each in stacked]
        tensors[f"encoder/layer_0/self_attention/linear_0/{part}"] = np.concatenate(stacked)

    def text(value: str) -> bytes:
        return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"

    data = struct.pack("<I", 6) + text("WhisperSpec") + struct.pack("<II", 3, len(tensors))
    for name, tensor in tensors.items():
        values = np.asarray(tensor, np.float32)
        data += text(name) + struct.pack(f"<B{values.ndim}IBI", values.ndim, *values.shape, 0, values.nbytes)
        data += values.tobytes()
    (tmp_path / "model.bin").write_bytes(data)
    other = build_tower(1)
    port(read_encoder_state(str(tmp_path / "model.bin")), other)
    for name, value in other.state_dict().items():
        if not name.startswith(("proj", "audio_bos")) and not name.endswith("k_proj.bias"):
            assert value.equal(tower.state_dict()[name]), name
