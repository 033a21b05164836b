"""What authors can ask of a session: one spec a kind of evaluator, a tagged union on `type`."""

from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from farm.model.base import (
    Count,
    Flag,
    JsonValue,
    Model,
    NonEmptyText,
    NonNegativeNumber,
    Number,
    PositiveCount,
    PositiveNumber,
    Score,
)
from farm.model.patterns import PatternError, compile_regex
from farm.model.tool_names import nearly_known_tool


def _wrong(message: str) -> PydanticCustomError:
    # PydanticCustomError formats its template: braces in an author's text must survive it.
    return PydanticCustomError("wrong", "{message}", {"message": message})


def _check_tool_name(name: str) -> str:
    if name.startswith("=") and len(name) > 1:
        return name[1:]  # exactly this name, however near to a known one
    if meant := nearly_known_tool(name):
        raise _wrong(f'unknown tool "{name}"; did you mean "{meant}"?')
    return name


def _check_regex(pattern: str) -> str:
    try:
        compile_regex(pattern)
    except PatternError as error:
        raise _wrong(str(error)) from None
    return pattern


def _check_required(value: Any) -> Any:
    if isinstance(value, bool) or (isinstance(value, int | float) and 0 <= value <= 1):
        return value
    raise _wrong("must be true, false, or the lowest score (0 to 1) that passes")


def _check_workspace_path(path: str) -> str:
    """Give an author's path or glob in its plain form, or refuse one that leads elsewhere."""
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts or "\0" in path or not parts:
        raise _wrong(f'path "{path}" must lie in the workspace, and be relative to it')
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
Params = dict[str, JsonValue]
WorkspacePath = Annotated[NonEmptyText, AfterValidator(_check_workspace_path)]
WorkspacePaths = Annotated[
    tuple[WorkspacePath, ...], Field(min_length=1), BeforeValidator(_one_or_many), _ONE_OR_MORE
]
RequiredScore = Annotated[
    bool | float,
    BeforeValidator(_check_required),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"type": "number", "minimum": 0, "maximum": 1}]}),
]


class EvaluatorBase(Model):
    """What every evaluator understands."""

    # The score at which a verdict passes when the author sets none. Facts must all hold; judges grade.
    passing_score: ClassVar[float] = 1.0

    type: str
    name: NonEmptyText | None = None
    weight: NonNegativeNumber = 1.0  # share in the case's score
    # False: advisory, can't fail the case. A number: the passing score. None and true differ only in a
    # composite, which a member that says `required: true` fails alone.
    required: RequiredScore | None = None
    negate: Flag = False  # pass where it would fail


def _call_index(value: Any) -> Any:
    # YAML keys arrive as text, see farm.documents.
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10 and int(value) >= 1:
        return int(value)
    if isinstance(value, int) and value >= 1:
        return value
    raise _wrong(f'call index "{value}" must be a whole number from 1')


PositiveIndex = Annotated[int, BeforeValidator(_call_index)]


class ToolCallSpec(EvaluatorBase):
    """Which calls of a tool must, or must not, be made."""

    type: Literal["tool_call"] = "tool_call"
    tool: ToolName
    called: Flag | None = None
    params: Params = Field(default_factory=dict)
    call_count: Count | None = None
    min_calls: Count | None = None
    max_calls: Count | None = None
    called_after: ToolName | None = None
    called_before: ToolName | None = None
    nth_call_params: dict[PositiveIndex, Params] = Field(default_factory=dict)
    first_call_params: Params | None = None
    last_call_params: Params | None = None

    @model_validator(mode="after")
    def _bounds_agree(self) -> Self:
        if self.called is False:
            for bound in ("call_count", "min_calls"):
                if getattr(self, bound) is not None:
                    raise _wrong(f'"called: false" can\'t go with "{bound}": no call is expected')
            if self.max_calls:
                raise _wrong('"called: false" can\'t go with "max_calls" other than 0')
            if (
                self.nth_call_params
                or self.first_call_params is not None
                or self.last_call_params is not None
            ):
                raise _wrong('"called: false" can\'t go with expectations of a certain call')
        if self.min_calls is not None and self.max_calls is not None and self.min_calls > self.max_calls:
            raise _wrong(f'"min_calls" ({self.min_calls}) is more than "max_calls" ({self.max_calls})')
        if 0 in (self.call_count, self.max_calls) and (
            self.called or self.called_after or self.called_before
        ):
            raise _wrong("no call is allowed, so none can be expected or come in any order")
        return self


class StdoutReview(Model):
    """Criteria in words, graded 1 to 10 by an LLM."""

    review: NonEmptyText
    threshold: Annotated[Number, Field(ge=1, le=10)] = 7
    model: NonEmptyText | None = None
    agent: NonEmptyText | None = None


class StdoutReviewSpec(EvaluatorBase):
    """An LLM grades the agent's final text against criteria in words."""

    type: Literal["stdout_review"] = "stdout_review"
    stdout: StdoutReview


class ExpectedToolCall(Model):
    """One step of an expected trajectory."""

    tool: ToolName
    args: JsonValue = "any"  # "any", or what the call's input must have
    args_match: Literal["exact", "superset", "subset", "ignore"] | None = None
    max_duration_ms: PositiveNumber | None = None

    @model_validator(mode="after")
    def _args_are_a_mapping(self) -> Self:
        if self.args != "any" and not isinstance(self.args, dict):
            raise _wrong('"args" must be "any" or a mapping')
        return self


class ToolTrajectorySpec(EvaluatorBase):
    """The way a session took through its tools."""

    type: Literal["tool_trajectory"] = "tool_trajectory"
    mode: Literal["any_order", "in_order", "exact", "superset", "subset"]
    minimums: dict[ToolName, Count] = {}
    expected: tuple[ExpectedToolCall, ...] | None = None
    args_match: Literal["exact", "superset", "subset", "ignore"] | None = None

    @model_validator(mode="after")
    def _mode_has_what_it_needs(self) -> Self:
        if self.mode == "any_order":
            if not self.minimums and not self.expected:
                raise _wrong('mode "any_order" needs "minimums" or "expected"')
            return self
        if self.minimums:
            raise _wrong(f'"minimums" goes with mode "any_order", not "{self.mode}"')
        if self.expected is None:
            raise _wrong(f'mode "{self.mode}" needs "expected"')
        if not self.expected and self.mode in ("in_order", "superset"):
            raise _wrong(f'mode "{self.mode}" with nothing expected always passes')
        return self


class ScoreRange(Model):
    """What a band of scores means to the judge."""

    score_range: tuple[Annotated[Number, Field(ge=0, le=10)], Annotated[Number, Field(ge=0, le=10)]]
    outcome: NonEmptyText

    @model_validator(mode="after")
    def _low_before_high(self) -> Self:
        if self.score_range[0] > self.score_range[1]:
            raise _wrong("score_range must be [lowest, highest]")
        return self


class Rubric(Model):
    """One criterion of an LLM judge."""

    id: NonEmptyText | None = None
    outcome: NonEmptyText | None = None
    weight: NonNegativeNumber = 1.0
    required: Flag = False
    required_min_score: Annotated[Number, Field(ge=0, le=10)] | None = None
    score_ranges: tuple[ScoreRange, ...] = ()

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.outcome is None and not self.score_ranges:
            raise _wrong('a rubric needs "outcome" or "score_ranges"')
        return self


def _rubric_shorthand(value: Any) -> Any:
    return {"outcome": value} if isinstance(value, str) else value


RubricEntry = Annotated[Rubric, BeforeValidator(_rubric_shorthand, json_schema_input_type=str | Rubric)]


class LlmJudgeSpec(EvaluatorBase):
    """An LLM grades the answer by a prompt and rubrics."""

    passing_score: ClassVar[float] = 0.8

    type: Literal["llm_judge"] = "llm_judge"
    prompt: NonEmptyText | None = None  # a template, in the file or beside it; without: the case's outcome
    rubrics: tuple[RubricEntry, ...] = ()
    model: NonEmptyText | None = None
    agent: NonEmptyText | None = None
    samples: PositiveCount = 1


class CodeJudgeSpec(EvaluatorBase):
    """The author's own program grades the session."""

    passing_score: ClassVar[float] = 0.8

    type: Literal["code_judge"] = "code_judge"
    command: NonEmptyText | Annotated[tuple[str, ...], Field(min_length=1)]  # for the shell, or argv
    cwd: str | None = None  # as written: relative to the test file; once loaded: to the suite root
    files: tuple[NonEmptyText, ...] = ()  # what the judge needs, beside what its command names
    timeout_seconds: PositiveNumber = 60.0
    config: dict[str, JsonValue] = {}


class WeightedAverage(Model):
    """The members' weighted mean."""

    type: Literal["weighted_average"] = "weighted_average"
    weights: dict[str, NonNegativeNumber] = {}  # by member name; wins over the members' own


class Threshold(Model):
    """The share of members that pass must reach a threshold."""

    type: Literal["threshold"] = "threshold"
    threshold: Score


Aggregator = Annotated[
    WeightedAverage | Threshold | CodeJudgeSpec | LlmJudgeSpec, Field(discriminator="type")
]


class CompositeSpec(EvaluatorBase):
    """Several evaluators that count as one."""

    passing_score: ClassVar[float] = 0.8

    type: Literal["composite"] = "composite"
    evaluators: Annotated[tuple["EvaluatorSpec", ...], Field(min_length=1)]
    aggregator: Aggregator = Field(default_factory=WeightedAverage)

    @model_validator(mode="after")
    def _weights_name_members(self) -> Self:
        if isinstance(self.aggregator, WeightedAverage):
            names = {member.name or member.type for member in self.evaluators}
            if unknown := sorted(self.aggregator.weights.keys() - names):
                raise _wrong(f'aggregator weights name "{unknown[0]}", which is no member')
        return self


class AccurateField(Model):
    """One field of a structured answer."""

    path: NonEmptyText  # invoice.lines[0].amount
    match: Literal["exact", "numeric_tolerance", "date"] = "exact"
    required: Flag = False
    weight: NonNegativeNumber = 1.0
    tolerance: NonNegativeNumber = 0.0
    relative: Flag = False
    formats: tuple[NonEmptyText, ...] = ()


class FieldAccuracySpec(EvaluatorBase):
    """How many fields of a structured answer agree with the expected ones."""

    passing_score: ClassVar[float] = 0.8

    type: Literal["field_accuracy"] = "field_accuracy"
    fields: Annotated[tuple[AccurateField, ...], Field(min_length=1)]
    aggregation: Literal["weighted_average", "all_or_nothing"] = "weighted_average"


class ContainsSpec(EvaluatorBase):
    """The final text contains a text."""

    type: Literal["contains", "icontains"]
    value: NonEmptyText


class ContainsSeveralSpec(EvaluatorBase):
    """The final text contains any, or all, of several texts."""

    type: Literal["contains_any", "icontains_any", "contains_all", "icontains_all"]
    value: OneOrMoreTexts


class EqualsSpec(EvaluatorBase):
    """The final text is this text, but for white space around it."""

    type: Literal["equals"] = "equals"
    value: str


class RegexSpec(EvaluatorBase):
    """A regular expression (RE2) is found in the final text."""

    type: Literal["regex"] = "regex"
    value: Regex


class AffixSpec(EvaluatorBase):
    """The final text starts, or ends, with a text."""

    type: Literal["starts_with", "ends_with"]
    value: NonEmptyText


class IsJsonSpec(EvaluatorBase):
    """The final text is JSON, and valid against a JSON Schema if one is given."""

    type: Literal["is_json"] = "is_json"
    model_config = ConfigDict(populate_by_name=True)

    json_schema: dict[str, JsonValue] | bool | None = Field(default=None, alias="schema")


class FileExistsSpec(EvaluatorBase):
    """A file (or a match of a glob) is in the workspace after the session."""

    type: Literal["file_exists"] = "file_exists"
    path: WorkspacePath


class FileContainsSpec(EvaluatorBase):
    """A file in the workspace contains a text, or a match of a regular expression."""

    type: Literal["file_contains"] = "file_contains"
    path: WorkspacePath
    value: NonEmptyText | None = None
    pattern: Regex | None = None

    @model_validator(mode="after")
    def _one_of_value_and_pattern(self) -> Self:
        if (self.value is None) == (self.pattern is None):
            raise _wrong('needs either "value" (a text) or "pattern" (a regular expression)')
        return self


class FilesChangedSpec(EvaluatorBase):
    """Which files the session added, modified or deleted."""

    type: Literal["files_changed"] = "files_changed"
    expect: WorkspacePaths | None = None  # each glob matches a changed file
    only: WorkspacePaths | None = None  # every changed file matches one of these globs
    forbid: WorkspacePaths | None = None  # no changed file matches any of these globs

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if self.expect is None and self.only is None and self.forbid is None:
            raise _wrong('needs at least one of "expect", "only" and "forbid"')
        return self


class LatencySpec(EvaluatorBase):
    """The session took no longer than this."""

    type: Literal["latency"] = "latency"
    threshold: PositiveNumber  # milliseconds


class CostSpec(EvaluatorBase):
    """The session cost no more than this."""

    type: Literal["cost"] = "cost"
    budget: NonNegativeNumber  # USD


class TokenUsageSpec(EvaluatorBase):
    """The session used no more tokens than this."""

    type: Literal["token_usage"] = "token_usage"
    max_total: Count | None = None
    max_input: Count | None = None
    max_output: Count | None = None

    @model_validator(mode="after")
    def _bounds_something(self) -> Self:
        if self.max_total is None and self.max_input is None and self.max_output is None:
            raise _wrong('needs at least one of "max_total", "max_input" and "max_output"')
        return self


class ExecutionMetricsSpec(EvaluatorBase):
    """The session kept within several budgets at once; the score is the share that it kept."""

    type: Literal["execution_metrics"] = "execution_metrics"
    max_tool_calls: Count | None = None
    max_llm_calls: Count | None = None
    max_tokens: Count | None = None
    max_cost_usd: NonNegativeNumber | None = None
    max_duration_ms: PositiveNumber | None = None
    target_exploration_ratio: Score | None = None  # share of read-only tool calls
    exploration_tolerance: Score = 0.2

    @model_validator(mode="after")
    def _bounds_something(self) -> Self:
        budgets = ExecutionMetricsSpec.model_fields.keys() - EvaluatorBase.model_fields.keys()
        if all(getattr(self, budget) is None for budget in budgets - {"exploration_tolerance"}):
            raise _wrong("needs at least one budget, such as max_tool_calls")
        return self


SPECS: tuple[type[EvaluatorBase], ...] = (
    ToolCallSpec,
    StdoutReviewSpec,
    ToolTrajectorySpec,
    LlmJudgeSpec,
    CodeJudgeSpec,
    CompositeSpec,
    FieldAccuracySpec,
    ContainsSpec,
    ContainsSeveralSpec,
    EqualsSpec,
    RegexSpec,
    AffixSpec,
    IsJsonSpec,
    FileExistsSpec,
    FileContainsSpec,
    FilesChangedSpec,
    LatencySpec,
    CostSpec,
    TokenUsageSpec,
    ExecutionMetricsSpec,
)

EvaluatorSpec: TypeAlias = Annotated[
    ToolCallSpec
    | StdoutReviewSpec
    | ToolTrajectorySpec
    | LlmJudgeSpec
    | CodeJudgeSpec
    | CompositeSpec
    | FieldAccuracySpec
    | ContainsSpec
    | ContainsSeveralSpec
    | EqualsSpec
    | RegexSpec
    | AffixSpec
    | IsJsonSpec
    | FileExistsSpec
    | FileContainsSpec
    | FilesChangedSpec
    | LatencySpec
    | CostSpec
    | TokenUsageSpec
    | ExecutionMetricsSpec,
    Field(discriminator="type"),
]

SPEC_BY_TYPE: dict[str, type[EvaluatorBase]] = {
    kind: spec
    for spec in SPECS
    for kind in spec.model_fields["type"].annotation.__args__  # type: ignore[union-attr]
}

# What the origins call the same evaluators.
TYPE_ALIASES = {
    "llm_grader": "llm_judge",
    "rubrics": "llm_judge",
    "code_grader": "code_judge",
    "script": "code_judge",
}
