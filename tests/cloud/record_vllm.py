"""Writes down what a real vLLM server answers: SPECDEC_VLLM_PYTHON=... python -m tests.cloud.record_vllm"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from specdec_cli.cloud.vllm import VllmCloud
from specdec_cli.cloud.vllm_protocol import GENERATE
from tests.cloud.tiny_qwen2_audio import audio_module, write_audio_checkpoint
from tests.cloud.vllm_cases import CLOUD, cloud, configured
from tests.cloud.vllm_double import Recorder, answering, recorded_cases
from tests.cloud.vllm_server import NAME, serving


def main() -> None:
    """Records the answers that `vllm_double.Replay` gives."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        checkpoint = write_audio_checkpoint(folder / "tiny", audio_module(**CLOUD))
        with serving(checkpoint, folder / "log.txt") as url:
            recorder = Recorder(url)
            with answering(recorder.respond) as proxy:
                link = VllmCloud(configured(proxy), cloud().processor, own=False)
                for case in recorded_cases():
                    print(case.run(link)[1].token_ids)
                print(link.probe())
                link.close()
            part = {"type": "audio_url", "url": None, "uuid": "nobody sent this"}
            question = {"model": NAME, "token_ids": [259], "content_parts": [part], "sampling_params": {}}
            status, answer = recorder.respond("POST", GENERATE, json.dumps(question).encode(), {})
            recorder.answers["cache miss"] = (status, answer.decode())
            status, answer = recorder.respond("POST", "/nowhere", b"{}", {})
            recorder.answers["no such path"] = (status, answer.decode())
            recorder.save()


if __name__ == "__main__":
    main()
