"""Networks for text and speech."""

from __future__ import annotations

from functools import partial

import torch

from scripts.zoo.entry import Entry, Input, hf
from scripts.zoo.networks.mamba import mamba

MEL = Input("input_features", ("batch", 80, 3000), torch.float32)
TOKENS = Input("input_ids", ("batch", "sequence"))
MASK = Input("attention_mask", ("batch", "sequence"))
SEGMENTS = Input("token_type_ids", ("batch", "sequence"))
DECODER_TOKENS = Input("decoder_input_ids", ("batch", "decoder_sequence"))

BERT_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
TINY_LLAMA = {"hidden_size": 2048, "num_hidden_layers": 22, "num_key_value_heads": 4}

ALBERT_BASE = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
BART_BASE = {
    "d_model": 768,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_attention_heads": 12,
    "decoder_attention_heads": 12,
    "encoder_ffn_dim": 3072,
    "decoder_ffn_dim": 3072,
}
T5_BASE = {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12}
WHISPER_BASE = {
    "d_model": 512,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_attention_heads": 8,
    "decoder_attention_heads": 8,
    "encoder_ffn_dim": 2048,
    "decoder_ffn_dim": 2048,
}
# The recurrence is unrolled, so the number of tokens is fixed.
MAMBA = {"vocab_size": 50280, "hidden_size": 768, "num_hidden_layers": 24, "tie_word_embeddings": True}
PATCH_TST = {
    "num_input_channels": 7,
    "context_length": 512,
    "prediction_length": 96,
    "patch_length": 16,
    "patch_stride": 8,
    "d_model": 128,
    "num_attention_heads": 16,
    "ffn_dim": 256,
    "num_hidden_layers": 3,
}

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
    "DistilBERT": Entry(
        hf("DistilBertForSequenceClassification"),
        (TOKENS, MASK),
    ),
    "ALBERT": Entry(
        hf("AlbertForSequenceClassification", **ALBERT_BASE),
        (TOKENS, MASK, SEGMENTS),
    ),
    "ELECTRA-small": Entry(
        hf("ElectraForSequenceClassification"),
        (TOKENS, MASK, SEGMENTS),
    ),
    "RoBERTa": Entry(
        hf("RobertaForSequenceClassification", vocab_size=50265, max_position_embeddings=514, type_vocab_size=1),
        (TOKENS, MASK),
        positions="position_ids",
    ),
    "BART": Entry(
        hf("BartForConditionalGeneration", **BART_BASE, use_cache=False),
        (TOKENS, DECODER_TOKENS),
    ),
    "GPT2": Entry(
        hf("GPT2LMHeadModel", use_cache=False),
        (TOKENS,),
    ),
    "GPT2-medium": Entry(
        hf("GPT2LMHeadModel", n_embd=1024, n_layer=24, n_head=16, use_cache=False),
        (TOKENS,),
    ),
    "T5-small": Entry(
        hf("T5ForConditionalGeneration", use_cache=False),
        (TOKENS, DECODER_TOKENS),
    ),
    "T5-base": Entry(
        hf("T5ForConditionalGeneration", **T5_BASE, use_cache=False),
        (TOKENS, DECODER_TOKENS),
    ),
    "Whisper-tiny": Entry(
        hf("WhisperForConditionalGeneration", use_cache=False),
        (MEL, DECODER_TOKENS),
        positions="decoder_position_ids",
    ),
    "Whisper-base": Entry(
        hf("WhisperForConditionalGeneration", **WHISPER_BASE, use_cache=False),
        (MEL, DECODER_TOKENS),
        positions="decoder_position_ids",
    ),
    "Llama-1B": Entry(
        hf("LlamaForCausalLM", **TINY_LLAMA, intermediate_size=5632, use_cache=False),
        (TOKENS,),
    ),
    "Mamba-130M": Entry(
        partial(mamba, **MAMBA),
        (Input("input_ids", ("batch", 64)),),
    ),
    "PatchTST": Entry(
        hf("PatchTSTForPrediction", **PATCH_TST),
        tuple(Input(name, ("batch", 512, 7), torch.float32) for name in ("past_values", "past_observed_mask")),
        ("prediction_outputs",),
    ),
}
