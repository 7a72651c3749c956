"""Networks for text and speech."""

from __future__ import annotations

import torch

from scripts.zoo.entry import Entry, Input, hf

MEL = Input("input_features", ("batch", 80, 3000), torch.float32)
TOKENS = Input("input_ids", ("batch", "sequence"))
MASK = Input("attention_mask", ("batch", "sequence"))
SEGMENTS = Input("token_type_ids", ("batch", "sequence"))
DECODER_TOKENS = Input("decoder_input_ids", ("batch", "decoder_sequence"))

BERT_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
TINY_LLAMA = {"hidden_size": 2048, "num_hidden_layers": 22, "num_key_value_heads": 4}

MODELS = {
    "BERT": Entry(
        hf("BertForQuestionAnswering"),
        (TOKENS, MASK, SEGMENTS),
        ("start_logits", "end_logits"),
        # Before opset 20 Gelu is five operators, as published node counts of BERT have it.
        opset=18,
    ),
    "BERT-Large": Entry(
        hf("BertForQuestionAnswering", **BERT_LARGE, intermediate_size=4096),
        (TOKENS, MASK, SEGMENTS),
        ("start_logits", "end_logits"),
    ),
    "GPT2": Entry(
        hf("GPT2LMHeadModel", use_cache=False),
        (TOKENS,),
    ),
    "T5-small": Entry(
        hf("T5ForConditionalGeneration", use_cache=False),
        (TOKENS, DECODER_TOKENS),
    ),
    "Whisper-tiny": Entry(
        hf("WhisperForConditionalGeneration", use_cache=False),
        (MEL, DECODER_TOKENS),
        positions="decoder_position_ids",
    ),
    "Llama-1B": Entry(
        hf("LlamaForCausalLM", **TINY_LLAMA, intermediate_size=5632, use_cache=False),
        (TOKENS,),
    ),
}
