"""What every model has in common: frozen, strict about keys, built when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

if TYPE_CHECKING:
    from pydantic import JsonValue as JsonValue
else:
    # What is typed so comes from our own YAML and JSON readers, which give nothing else. Walking through
    # it once more takes as long as reading it did, and only importing the type takes 20 ms.
    JsonValue = Any


class Model(BaseModel):
    """A frozen value. An unknown key is an error, never ignored."""

    # defer_build: `farm check` on one file uses a few of some forty models; building all takes longer
    # than reading the file.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def wrong(message: str) -> PydanticCustomError:
    """Make the error that tells an author, in these words, what is wrong."""
    # PydanticCustomError formats its template: braces in an author's text must survive it.
    return PydanticCustomError("wrong", "{message}", {"message": message})


# Strict scalars: `called: "yes"` or `min_calls: "3"` is a slip of the author, not a value to coerce.
Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=0)]
PositiveCount = Annotated[int, Field(strict=True, ge=1)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
PositiveNumber = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
NonNegativeNumber = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
Score = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
NonEmptyText = Annotated[str, Field(min_length=1)]


def _check_one_line(text: str) -> str:
    if "\n" in text:
        raise wrong("must be one line")
    return text


Line = Annotated[NonEmptyText, AfterValidator(_check_one_line)]
