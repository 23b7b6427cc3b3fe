"""Writes a random Llama of two layers with a tokenizer of its own: `python tiny_model.py FOLDER` (needs the engine)."""

from __future__ import annotations

import sys
from pathlib import Path

HEADS = 8  # tensor parallel sizes 1, 2, 4 and 8 divide it
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def main(folder: Path) -> None:
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder.mkdir(parents=True, exist_ok=True)
    letters = Tokenizer(models.BPE(unk_token=None))
    letters.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1000, special_tokens=list(SPECIAL), initial_alphabet=alphabet, show_progress=False
    )
    corpus = ["One head and seven workers load their part, meet, and answer a night's question. " * 3]
    letters.train_from_iterator([*corpus, Path(__file__).read_text(), Path(torch.__file__).read_text()], trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=letters, bos_token=SPECIAL[0], eos_token=SPECIAL[2], pad_token=SPECIAL[0]
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=-(-len(tokenizer) // 64) * 64,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=2048,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=False,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder, safe_serialization=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
