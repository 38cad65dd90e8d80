"""Models of an agent framework, over each API."""

from __future__ import annotations

from typing import Literal

from api_requests import Api
from hang import HANG_S
from pydantic import BaseModel
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

APIS: tuple[Api, ...] = ("chat", "responses", "messages")
SETTINGS = ModelSettings(max_tokens=64, timeout=HANG_S)


class Verdict(BaseModel):
    """What an agent may be made to answer."""

    passed: bool
    grade: Literal["good", "bad"]


def model_of(api: Api, url: str, name: str) -> Model:
    """The model of this name, asked over one of APIS."""
    if api == "messages":
        anthropic = AnthropicProvider(base_url=url, api_key="unused")
        return AnthropicModel(name, provider=anthropic)
    openai = OpenAIProvider(base_url=f"{url}/v1", api_key="unused")
    return (OpenAIChatModel if api == "chat" else OpenAIResponsesModel)(name, provider=openai)
