"""What every evaluator spec has, and the types of the values that authors write in them."""

from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from farm.model.base import Flag, JsonValue, Model, NonEmptyText, NonNegativeNumber, wrong
from farm.model.patterns import PatternError, compile_regex
from farm.model.tool_names import nearly_known_tool

_PATTERN_SIGNS = frozenset("|*()")


def _check_tool_name(name: str) -> str:
    if not name.startswith("=") and not _PATTERN_SIGNS.isdisjoint(name):
        raise wrong(f'tool "{name}" is no name: patterns go under "params", several tools in several entries')
    if meant := nearly_known_tool(name):
        raise wrong(f'unknown tool "{name}"; did you mean "{meant}"?')
    return name


def _check_regex(pattern: str) -> str:
    try:
        compile_regex(pattern)
    except PatternError as error:
        raise wrong(str(error)) from None
    return pattern


def _check_patterns(params: dict[str, Any]) -> dict[str, Any]:
    for name, pattern in params.items():
        if pattern is None:  # it would match next to nothing, and `called: false` pass whatever happens
            raise wrong(f'"{name}" is empty; give it a pattern ("null", in quotes, matches a null)')
    return params


def _check_required(value: Any) -> Any:
    if isinstance(value, bool) or (isinstance(value, int | float) and 0 < value <= 1):
        return value
    raise wrong("must be true, false, or the lowest score that passes: above 0, at most 1")


def _check_workspace_path(path: str) -> str:
    """Give an author's path or glob in its plain form, or refuse one that leads elsewhere."""
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts or "\0" in path or not parts:
        raise wrong(f'path "{path}" must lie in the workspace, and be relative to it')
    return "/".join(parts)


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


ToolName = Annotated[NonEmptyText, AfterValidator(_check_tool_name)]
Regex = Annotated[NonEmptyText, AfterValidator(_check_regex)]
Texts = Annotated[tuple[NonEmptyText, ...], Field(min_length=1)]
_ONE_OR_MORE = WithJsonSchema(
    {
        "anyOf": [
            {"type": "string", "minLength": 1},
            {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}},
        ]
    }
)
OneOrMoreTexts = Annotated[Texts, BeforeValidator(_one_or_many), _ONE_OR_MORE]
Params = Annotated[
    dict[str, JsonValue],
    AfterValidator(_check_patterns),
    WithJsonSchema({"type": "object", "additionalProperties": {"not": {"type": "null"}}}),
]
WorkspacePath = Annotated[NonEmptyText, AfterValidator(_check_workspace_path)]
WorkspacePaths = Annotated[
    tuple[WorkspacePath, ...], Field(min_length=1), BeforeValidator(_one_or_many), _ONE_OR_MORE
]
RequiredScore = Annotated[
    bool | float,
    BeforeValidator(_check_required),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"type": "number", "exclusiveMinimum": 0, "maximum": 1}]}),
]


class EvaluatorBase(Model):
    """What every evaluator understands."""

    # The score at which a verdict passes when the author sets none. Facts must all hold; judges grade.
    passing_score: ClassVar[float] = 1.0

    type: str
    name: NonEmptyText | None = None  # what people read in reports; made from the rest if absent
    weight: NonNegativeNumber = 1.0  # share in the case's score
    # False: advisory, can't fail the case. A number: the passing score. Absent and true differ only in a
    # composite, which a member that says `required: true` fails alone.
    required: RequiredScore | None = None
    negate: Flag = False  # pass where it would fail
