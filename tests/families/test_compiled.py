"""Compiled steps of every family whose cache is static: kernels, graphs and scores, counted on a CPU.

By the compiler's own counts: kernels that it generates, and products and attentions that it calls. A GPU spends some
3 us on each, however small.
"""

import pytest
import torch
from torch._dynamo.utils import counters
from torch._inductor import metrics

from specdec_cli.models.compiled_steps import let_layers_compile
from specdec_cli.models.selftest import self_test
from specdec_cli.models.session import Session
from specdec_cli.models.slots import Slots, _Shape
from tests.families.running import JOINING, prompt
from tests.support.checkpoints import load
from tests.support.kinds import KINDS, write
from tests.support.models import tiny_model

MOST = dict.fromkeys(JOINING, 14) | {"qwen3-omni": 36}
"""Kernels of a layer; a layer of experts also chooses and gathers them, as the library does."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
@pytest.mark.parametrize("family", JOINING)
def test_all_layers_of_a_compiled_step_are_one_graph_of_few_kernels(tmp_path, family):
    model = load(write(tmp_path / "model", KINDS[family], 0), graphs="on")
    shape, (plain, compiled) = _Shape(1, 1, 512), [Slots(model.module, 2, compiled=way) for way in (False, True)]
    with torch.inference_mode():
        for slots in (plain, compiled):
            slots._inputs = {(1, size): slots._padded([(0, 0, 7)], _Shape(1, size, 512)) for size in (1, 9)}
            slots._forward(_Shape(1, 9, 512))  # the layers take their memory
        expected = plain._forward(shape)
        let_layers_compile(model.module)
        torch._dynamo.reset()
        metrics.reset()
        counters.clear()
        torch.testing.assert_close(compiled._forward(shape), expected, atol=1e-4, rtol=1e-4)
    assert counters["stats"]["unique_graphs"] == 1
    assert not counters["graph_break"]
    assert metrics.generated_kernel_count + counters["inductor"]["extern_calls"] <= MOST[family]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_clip_scores_alike_with_compiled_steps_of_every_room(monkeypatch, caplog):
    """More forms than PyTorch compiles of a function by default."""
    monkeypatch.setattr(torch._dynamo.config, "recompile_limit", 1)
    scores, text = [], (65, 66, 200, 67, 68, 201)
    for compiled in (False, True):
        model = tiny_model(1, layers=2, graphs="on", compiled=compiled)
        assert model.describe()["graphs"] == ("compiled" if compiled else "eager")
        self_test(model)
        assert model.self_test == "passed"
        session = Session(model, prompt(model, 1), 20)
        scores.append(torch.cat([session.logits(text[:end]) for end in range(1, len(text))]))
    torch.testing.assert_close(*scores, atol=1e-4, rtol=1e-4)
    assert "runs without" not in caplog.text
