"""Presets of endpoints: how language model providers differ from OpenAI's API."""

from collections.abc import Mapping
from typing import Any, Literal

PresetName = Literal["openai", "openai-reasoning", "azure", "vllm", "ollama", "anthropic", "bedrock-openai"]
_TOKENS = {"max_tokens": "max_completion_tokens"}
_OPEN_MODELS_ONLY = ("chat_template_kwargs", "context_management", "thinking", "top_k")
"""Fields that OpenAI's models refuse: of open models, and of Anthropic's API."""
_SAMPLING = ("frequency_penalty", "logit_bias", "logprobs", "presence_penalty", "temperature", "top_logprobs", "top_p")
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "openai": {"url": "https://api.openai.com/v1", "renames": _TOKENS, "drops": _OPEN_MODELS_ONLY},
    "openai-reasoning": {
        "url": "https://api.openai.com/v1",
        "renames": _TOKENS,
        "drops": (*_OPEN_MODELS_ONLY, *_SAMPLING),
        "logprobs": False,
    },
    "azure": {"secret_header": "api-key", "renames": _TOKENS, "drops": _OPEN_MODELS_ONLY},
    "vllm": {},
    "ollama": {"url": "http://127.0.0.1:11434/v1", "logprobs": False},
    "anthropic": {
        "url": "https://api.anthropic.com/v1",
        "drops": (
            "context_management",
            "frequency_penalty",
            "logit_bias",
            "logprobs",
            "presence_penalty",
            "reasoning_effort",
            "seed",
            "top_logprobs",
        ),
        "logprobs": False,
    },
    "bedrock-openai": {
        "renames": _TOKENS,
        "drops": (*_OPEN_MODELS_ONLY, "logit_bias", "logprobs", "top_logprobs"),
        "logprobs": False,
    },
}
"""Fields of an endpoint that has a preset, unless it has them itself."""
