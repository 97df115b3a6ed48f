"""Plain greedy captioning with `generate()`, by which training is evaluated without specdec's own engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast, Qwen2_5OmniThinkerForConditionalGeneration

from specdec_cli.prompts import Language, Style
from training.checkpoint import load_checkpoint
from training.corpus import Waveform
from training.dialogue import Dialogue
from training.features import log_mel, pooled_length

MAX_NEW_TOKENS = 80


class Captioner:
    """One side of the pair, float32, captioning one clip at a time at the clip's own length."""

    def __init__(self, model: Qwen2_5OmniThinkerForConditionalGeneration, tokenizer: PreTrainedTokenizerFast) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.dialogue = Dialogue(tokenizer)

    @classmethod
    def load(cls, folder: Path) -> Captioner:
        """The checkpoint in `folder`."""
        return cls(load_checkpoint(folder), PreTrainedTokenizerFast.from_pretrained(folder))

    @torch.inference_mode()
    def caption(self, waveform: Waveform, language: Language, style: Style = "default") -> str:
        """Caption of one clip (mono, 16 kHz, at most 30 s), from the waveform."""
        mel = log_mel(waveform)
        prompt = torch.tensor([self.dialogue.prompt(language, style, pooled_length(mel.shape[1]))])
        output = self.model.generate(
            input_ids=prompt,
            attention_mask=torch.ones_like(prompt),
            input_features=mel[None],
            feature_attention_mask=torch.ones(1, mel.shape[1], dtype=torch.long),
            max_new_tokens=MAX_NEW_TOKENS,
            do_sample=False,
        )
        return self._text(output[0, prompt.shape[1] :].tolist())

    @torch.inference_mode()
    def caption_states(
        self, states: Sequence[torch.Tensor], language: Language, style: Style = "default", batch: int = 32
    ) -> list[str]:
        """Captions of clips whose tower states before `ln_post` are known, each (audio tokens, 512); batched."""
        captions: dict[int, str] = {}
        order = sorted(range(len(states)), key=lambda index: len(states[index]))
        for start in range(0, len(order), batch):
            part = order[start : start + batch]
            for index, ids in zip(
                part, self._generate([states[index] for index in part], language, style), strict=True
            ):
                captions[index] = self._text(ids)
        return [captions[index] for index in range(len(states))]

    def _generate(self, states: Sequence[torch.Tensor], language: Language, style: Style) -> list[list[int]]:
        """Greedy token ids of a left-padded batch."""
        inner, tower = self.model.model, self.model.model.audio_tower
        embed = self.model.get_input_embeddings()
        before = embed(torch.tensor(self.dialogue.before))
        after = embed(torch.tensor(self.dialogue.after(language, style)))
        rows = [torch.cat([before, tower.proj(tower.ln_post(state.float())), after]) for state in states]
        longest = max(len(row) for row in rows)
        inputs = torch.stack([torch.nn.functional.pad(row, (0, 0, longest - len(row), 0)) for row in rows])
        mask = torch.stack([(torch.arange(longest) >= longest - len(row)).long() for row in rows])
        cache, done, ids = None, torch.zeros(len(rows), dtype=torch.bool), []
        for _ in range(MAX_NEW_TOKENS):
            positions = (mask.cumsum(dim=1) - 1).clamp_min(0)[:, -inputs.shape[1] :]
            output = inner.language_model(
                inputs_embeds=inputs,
                attention_mask=mask,
                position_ids=positions.expand(3, *positions.shape),
                past_key_values=cache,
                use_cache=True,
            )
            cache = output.past_key_values
            chosen = self.model.lm_head(output.last_hidden_state[:, -1]).argmax(dim=-1)
            ids.append(chosen)
            done |= chosen == self.dialogue.end
            if bool(done.all()):
                break
            inputs = embed(chosen)[:, None]
            mask = torch.nn.functional.pad(mask, (0, 1), value=1)
        return [list(row) for row in torch.stack(ids, dim=1).tolist()]

    def _text(self, ids: list[int]) -> str:
        """Text up to `<|im_end|>`; all of a text that never ends, which is malformed."""
        if self.dialogue.end in ids:
            ids = ids[: ids.index(self.dialogue.end)]
        return str(self.tokenizer.decode(ids, skip_special_tokens=False))
