"""Requests and replies of OpenAI's embeddings API."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from models.chat import OpenRequest

Text = Annotated[str, Field(min_length=1)]
Tokens = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
MAX_INPUTS = 2048


class EmbeddingsRequest(OpenRequest):
    """Texts to embed; additional fields are forwarded to the embedder."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"model": "embedder", "input": ["a text"]}]})
    required: ClassVar[tuple[str, ...]] = ("model", "input")

    model: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        description="name of a registered endpoint with the protocol openai-embeddings", examples=["embedder"]
    )
    input: Text | Tokens | Annotated[list[Text | Tokens], Field(min_length=1, max_length=MAX_INPUTS)] = Field(
        description="a text, texts, or their tokens as numbers"
    )
    encoding_format: Literal["float", "base64"] = Field(
        default="float", description="numbers, or base64 of 32-bit floats, little endian"
    )

    def list_inputs(self) -> list[str | tuple[int, ...]]:
        """Return the inputs: texts, or lists of tokens."""
        return self.input if isinstance(self.input, list) else [self.input]


class EmbeddingEntry(BaseModel):
    """An embedding in OpenAI's format."""

    object: Literal["embedding"] = Field(default="embedding", description="a constant")
    index: int = Field(description="number of the text")
    embedding: list[float] | str = Field(description="the numbers, or base64 of 32-bit floats")


class EmbeddingsUsage(BaseModel):
    """Token counts of the calls, as the embedder reports them."""

    prompt_tokens: int = Field(description="number of tokens")
    total_tokens: int = Field(description="number of tokens")


class EmbeddingsReply(BaseModel):
    """Embeddings in OpenAI's format."""

    object: Literal["list"] = Field(default="list", description="a constant")
    data: list[EmbeddingEntry] = Field(description="the embeddings, in the order of the texts")
    model: str = Field(description="the requested model")
    usage: EmbeddingsUsage = Field(description="tokens of the calls")
    parsimony: dict[str, Any] = Field(
        description="``cost`` of the calls, by the endpoint's prices; null: unknown; and ``seconds``"
    )
