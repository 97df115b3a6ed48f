"""Both models behind vLLM: the texts are those of the servers alone, and of the local loop on the same figures.

The fast tier asks stand-ins that compute with the models; the full one real servers on the same checkpoints.
"""

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from specdec_cli.captioner import Captioner
from specdec_cli.captioning.local import Pace
from specdec_cli.cloud.remote import Call
from specdec_cli.cloud.vllm import Vllm, VllmDrafter
from specdec_cli.cloud.vllm_protocol import GENERATE, Likely
from specdec_cli.config import ModelConfig, Server
from specdec_cli.decoding.block import Block
from specdec_cli.decoding.draft import LocalDrafter
from specdec_cli.decoding.pair import Pair
from specdec_cli.errors import CheckpointError, EdgeError
from specdec_cli.models.remote_processor import RemoteProcessor
from specdec_cli.types import Finished, ModelWork
from tests.cli.harness import environment
from tests.cloud.stand_in import ModelServer
from tests.cloud.vllm_cases import CLOUD, VllmCase, clip, cloud, configured, edge, outcome, vllm_case
from tests.cloud.vllm_server import serving, write_recordings
from tests.laws.cases import INSTRUCTIONS, Case, drawn_settings
from tests.laws.reference import cloud_oracle, edge_oracle
from tests.laws.tolerance import LawBroken, assert_law, most_parting
from tests.support.models import audio_module, save_checkpoint
from tests.support.servers import answering
from tests.tiers import few, slow
from tests.tiny import collect

KIND = "near"
ROOT = Path(__file__).parents[2]
Listed = dict[tuple[int, ...], Likely]


@dataclass
class Servers:
    """An edge and a cloud at addresses, and the folders of their checkpoints."""

    folders: dict[str, Path]
    urls: dict[str, str]
    doubles: dict[str, ModelServer]

    def edge_server(self, **given: Any) -> Server:
        named = {"url": self.urls["edge"], "served_model": "tiny"}
        return Server(allow_audio_upload=True, **{"timeout_s": 300.0, **named, **given})

    def pair(self) -> Pair:
        """Connected to both."""
        processors = [RemoteProcessor(ModelConfig(model=str(f)), offline=True) for f in self.folders.values()]
        drafting = Vllm(self.edge_server(), processors[0], own=True, role="edge")
        return Pair.of(drafting, Vllm(configured(self.urls["cloud"]), processors[1], own=True))

    def config(self, folder: Path, **given: Any) -> Path:
        """A configuration file; `given`: more settings of the edge."""
        found: dict[str, Any] = {
            "decoding": {"max_new_tokens": 8, "loop_period": 0},
            "gate": {"name": "margin"},
            "remote": {"allow_audio_upload": True, "timeout_s": 300.0},
        }
        for side, url in self.urls.items():
            found[side] = {"model": url, "served_model": "tiny", "processor": str(self.folders[side])}
        found["edge"] |= given
        path = folder / "pair.yaml"
        path.write_text(json.dumps(found))
        return path


@pytest.fixture(scope="module", params=["computed", pytest.param("real", marks=[pytest.mark.slow, pytest.mark.vllm])])
def servers(request, tmp_path_factory) -> Iterator[Servers]:
    folder, modules = tmp_path_factory.mktemp("pair"), {"edge": edge(KIND).module, "cloud": audio_module(**CLOUD)}
    folders = {side: save_checkpoint(module, folder / f"tiny-{side}") for side, module in modules.items()}
    with ExitStack() as stack:
        if request.param == "real":
            urls = {side: stack.enter_context(serving(at, folder / f"{side}.txt")) for side, at in folders.items()}
            yield Servers(folders, urls, {})
        else:
            doubles = {"edge": ModelServer(edge(KIND)), "cloud": ModelServer(cloud())}
            urls = {side: stack.enter_context(answering(double.respond)) for side, double in doubles.items()}
            yield Servers(folders, urls, doubles)


@pytest.fixture(scope="module")
def pair(servers) -> Iterator[Pair]:
    connected = servers.pair()
    yield connected
    for link in connected.remotes:
        link.close()


def pair_case(number: int, **fixed: Any) -> VllmCase:
    """With blocks of 1 to 8 tokens, or the whole caption at once."""
    rng = random.Random(number)
    drawn: dict[str, Any] = {"loop_period": 0, "guess_tokens": 0, "defer": rng.random() < 0.5}
    drawn |= {"repetition_penalty": 1.0, "no_repeat_ngram": 0, "min_new_tokens": 0}
    drawn["gate"] = rng.choice(("entropy", "margin", "logprob", "always", "never"))
    given = drawn_settings(rng, **drawn | fixed)
    return vllm_case(number, KIND, rng.randrange(10), rng.choice(INSTRUCTIONS), given)


def run(pair: Pair, of: VllmCase, listed: Listed | None = None) -> tuple[list[Block], Finished]:
    """The rounds of a case; `listed` gets what the edge's server told, by the text before."""
    loop = of.behind(pair)
    if listed is not None and isinstance(loop.drafter, VllmDrafter):
        scored = loop.drafter.requests.scored

        def noted(ids: tuple[int, ...], *given: Any, **how: Any) -> Any:
            answer = scored(ids, *given, **how)
            listed.update({(*ids, *answer.generated[:at]): row for at, row in enumerate(answer.likely)})
            return answer

        loop.drafter.requests.scored = noted
    return collect(loop.events())


class Fed:
    """A session that scores by what a server told: the rest of a distribution is spread evenly."""

    def __init__(self, listed: Listed, vocab_size: int) -> None:
        self._listed, self._vocab_size, self.work = listed, vocab_size, ModelWork()
        self.model = edge(KIND)

    def logits(self, text: Sequence[int], positions: int = 1) -> torch.Tensor:
        ends = range(len(text) - positions + 1, len(text) + 1)
        return torch.stack([self._row(self._listed.get(tuple(text[:end]))) for end in ends])

    def _row(self, likely: Likely | None) -> torch.Tensor:
        if likely is None:  # a guess that came to nothing
            return torch.zeros(self._vocab_size)
        probabilities = likely.probabilities
        rest = max(1.0 - sum(probabilities.values()), 0.0)
        row = torch.full((self._vocab_size,), rest / likely.others, dtype=torch.float64)
        row[list(edge(KIND).processor.banned_ids)] = 0.0
        for id_, p in probabilities.items():
            row[id_] = p
        return row.log().float()


def fed(of: Case, listed: Listed) -> tuple[list[Block], Finished]:
    """The local loop on the same log-probabilities, verified by the cloud of this process."""
    loop = of.loop()
    assert isinstance(loop.drafter, LocalDrafter)
    loop.drafter.session = loop.drafter.next_scores.session = Fed(listed, of.pair.vocab_size)
    return collect(loop.events())


def replaced(rounds: Sequence[Block]) -> list[int | None]:
    """At each token of a text the likeliest one, if the sound banned it."""
    return [token.instead for round_ in rounds for token in round_.tokens]


def best_but_for_rounding(of: Case, finished: Finished) -> bool:
    """Whether every token is the model's best by the scores of this process, as far as rounding goes."""
    oracle = edge_oracle(of) if of.config.decoding.mode == "edge" else cloud_oracle(of)
    oracle.read(finished.token_ids)
    try:
        assert_law(finished.token_ids, oracle)
    except LawBroken:
        return False
    return True


@pytest.mark.parametrize("in_flight", few([1, 16]))
@pytest.mark.parametrize("mode", few(["hybrid", "lossless", "edge"]))
def test_texts_are_those_of_the_servers(pair, request, mode, in_flight):
    """50 cases against real servers: k and deferral varied, every other one beside a sound; texts that part for a near
    tie are counted.
    """
    count = 50 if "real" in request.node.callspec.id else 6 * min(in_flight, 2)
    drawn = [pair_case(number, mode=mode, acceptance=None) for number in range(count)]
    cases = [each.heard() if number % 2 else each for number, each in enumerate(drawn)]
    listed = [Listed() for _ in cases]
    with ThreadPoolExecutor(in_flight) as pool:
        ran = list(pool.map(run, [pair] * count, cases, listed))
    parted, near, instead = [], 0, 0
    for of, told, (rounds, finished) in zip(cases, listed, ran, strict=True):
        assert finished.degraded is None
        here = fed(of, told) if mode == "hybrid" else of.run()
        if mode == "hybrid":
            same = outcome(rounds, finished) == outcome(*here)
        else:
            same = finished.token_ids == here[1].token_ids
        if same:
            assert replaced(rounds) == replaced(here[0]), of
        instead += sum(id_ is not None for id_ in replaced(rounds))
        if not same and mode != "hybrid" and best_but_for_rounding(of, finished):
            near += 1
        elif not same:
            parted.append(of)
    print(f"{mode}, {in_flight} in flight: {count} cases, {len(parted)} texts part, and {near} for a near tie")
    assert len(parted) <= most_parting(count), parted
    assert instead > count / 4
    if mode == "hybrid":
        sources = {source for rounds, _ in ran for round_ in rounds for source in round_.source}
        assert {"edge", "accepted", "corrected"} <= sources


def test_the_prompt_is_that_of_the_checkpoints_own_processor(pair):
    for link, model in zip(pair.remotes, (edge(KIND), cloud()), strict=True):
        placeholder = model.processor.placeholder_id
        assert isinstance(link, Vllm)
        call = Call(link)
        with call.within_deadline():
            ids = link.prompt_ids(link.processor.prompt(clip(1), "How?", "Listen."), call)
        theirs = model.processor.prompt(clip(1), "How?", "Listen.").ids
        assert ids == tuple(i for at, i in enumerate(theirs) if i != placeholder or theirs[at - 1] != i)


def test_a_processor_of_a_model_that_is_served_elsewhere_is_the_same(servers):
    ours, theirs = RemoteProcessor(ModelConfig(model=str(servers.folders["cloud"])), offline=True), cloud().processor
    text = "How does she speak? 她的声音低沉。<|im_end|>"
    for name in ("vocab_size", "eos_ids", "banned_ids", "placeholder_id", "sampling_rate", "window_s", "placeholders"):
        assert getattr(ours, name) == getattr(theirs, name), name
    ids = theirs.encode(text)
    assert (ours.encode(text), ours.text(ids)) == (ids, theirs.text(ids))
    for id_ in range(266):
        assert (ours.token_text(id_), ours.word(id_)) == (theirs.token_text(id_), theirs.word(id_))


def test_files_of_a_served_model_that_do_not_fit_are_refused(tmp_path):
    Tokenizer(WordLevel({"x": 0, "<|AUDIO|>": 1}, unk_token="x")).save(str(tmp_path / "tokenizer.json"))
    for config, message in (
        ("[1]", "cannot be loaded: TypeError"),
        ('{"audio_token_id": 1}', "has the eos_token_id None"),
    ):
        (tmp_path / "config.json").write_text(config)
        with pytest.raises(CheckpointError, match=message):
            RemoteProcessor(ModelConfig(model=str(tmp_path)), offline=True)


def test_bounds_of_an_entropy_hold_whatever_the_rest_is():
    generator = torch.Generator().manual_seed(0)
    for scale in (0.5, 2.0, 6.0):
        probabilities = (scale * torch.randn(200, 300, generator=generator, dtype=torch.float64)).softmax(dim=-1)
        exact = torch.special.entr(probabilities).sum(dim=-1)
        for row, nats in zip(probabilities, exact.tolist(), strict=True):
            best = row.topk(20)
            listed = dict(zip(best.indices.tolist(), best.values.log().tolist(), strict=True))
            found = Likely.of(listed, 300).evidence(int(best.indices[0]), {})
            assert found.least_entropy is not None
            assert found.least_entropy - 1e-9 <= nats <= found.entropy + 1e-9
            assert found.margin == pytest.approx(float(best.values[0] - best.values[1]))


# --- batches ---


def lines(output: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.read_text().splitlines()]


def batch(servers: Servers, folder: Path, *arguments: str, program: Sequence[str] = ("-m", "specdec_cli")) -> str:
    """What a batch over the recordings of a folder's `in` to its `out.jsonl` says; it must succeed."""
    command = [sys.executable, *program, "batch", str(folder / "in"), "-o", str(folder / "out.jsonl")]
    command += ["-c", str(servers.config(folder)), *arguments]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stderr


@pytest.mark.slow
def test_a_batch_goes_on_when_a_server_comes_back(servers, tmp_path):
    """Nothing is lost and nothing is there twice; captions without their cloud say so."""
    if not servers.doubles:
        pytest.skip("real servers are killed by tools.served")
    output = tmp_path / "out.jsonl"
    write_recordings(tmp_path / "in", 12)
    for side in ("edge", "cloud"):
        double = servers.doubles[side]

        def outage(double: ModelServer = double) -> None:
            until = time.monotonic() + 60
            while time.monotonic() < until and (not output.exists() or len(output.read_bytes().splitlines()) < 4):
                time.sleep(0.02)
            double.down = True
            time.sleep(0.5)
            double.down = False

        killer = threading.Thread(target=outage)
        killer.start()
        batch(servers, tmp_path, "--set", "runtime.in_flight=4")
        killer.join()
        found = lines(output)
        assert (len(found), len({line["file"] for line in found})) == (12, 12)
        assert side == "cloud" or not any(line.get("degraded") for line in found)
        output.unlink()


def test_a_tokenizer_that_may_not_be_downloaded_is_named():
    with pytest.raises(CheckpointError, match=r"acme/tiny cannot be loaded: runtime\.offline forbids") as caught:
        RemoteProcessor(ModelConfig(model="acme/tiny"), offline=True)
    assert "set `processor` to its folder" in str(caught.value.hint)


@pytest.mark.slow
@pytest.mark.parametrize("fallback", few(["on", "auto"]))
def test_an_edge_that_fails(servers, tmp_path, fallback):
    if not servers.doubles:
        pytest.skip("this is about the client")
    flags = {"decoding.fallback": fallback}
    captioner = Captioner.load(servers.config(tmp_path), flags)
    link = captioner.pair.edge
    link.config = link.config.model_copy(update={"timeout_s": 3.0})
    servers.doubles["edge"].down = True
    try:
        made = captioner.run_samples(clip(1), 16_000)
        if fallback == "auto":
            with pytest.raises(EdgeError, match="did not answer within 3 s"):
                made.finish()
        else:
            found = made.finish()
            assert "from there on the cloud wrote alone" in str(found.degraded)
            assert {source for round_ in found.rounds for source in round_.source} == {"cloud"}
    finally:
        servers.doubles["edge"].down = False


@pytest.mark.parametrize(
    ("given", "most"),
    [
        ({"mode": "hybrid", "gate": "never", "defer": True}, 0),
        slow(({"mode": "lossless", "defer": False, "max_new_tokens": 12, "k": 2}, 99)),
        # from its second call on, the cloud's answer holds the verdicts to come
        slow(({"mode": "hybrid", "gate": "always", "defer": True, "max_new_tokens": 24}, 2)),
    ],
)
def test_requests_are_counted(servers, pair, given, most):
    """One a draft, and one a verification up to `most`, once the prompt is known; a recording is sent once to each."""
    if not servers.doubles:
        pytest.skip("stand-ins count")
    of = pair_case(3, acceptance=None, **given)
    run(pair, of)
    before = [(double.asked.count(GENERATE), double.sent) for double in servers.doubles.values()]
    ran, _ = run(pair, of)
    after = [(double.asked.count(GENERATE), double.sent) for double in servers.doubles.values()]
    found = [(now[0] - then[0], now[1] - then[1]) for now, then in zip(after, before, strict=True)]
    verified = sum(round_.escalated for round_ in ran)
    assert verified > 2 or not most
    assert found == [(len(ran), 1), (min(verified, most), min(verified, 1))]


def test_more_clips_are_under_way_as_long_as_that_pays():
    """A server that answers 5 clips a second alone, and at most 40."""
    clock = [0.0]
    pace = Pace(None, lambda: clock[0])
    for _ in range(2000):
        clock[0] += 1 / min(5 * pace.room, 40)
        pace.done()
    assert pace.room == 8
    fixed = Pace(3)
    for _ in range(100):
        fixed.done()
    assert fixed.room == 3
