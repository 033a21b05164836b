"""Specs of evaluators that look at tool calls."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from farm.model.base import Count, Flag, JsonValue, Model, PositiveNumber, wrong
from farm.model.evaluator.base import EvaluatorBase, Params, ToolName


def _call_index(value: Any) -> Any:
    # YAML keys arrive as text, see farm.documents.
    # Not `01`: beside `1` it would be the same call, and one of the two be lost.
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10 and value[0] != "0":
        return int(value)
    if isinstance(value, int) and value >= 1:
        return value
    raise wrong(f'call index "{value}" must be a whole number from 1')


PositiveIndex = Annotated[int, BeforeValidator(_call_index)]


# What a tool call assertion may have and still ask nothing, if no call is enough.
_ALWAYS_TRUE_KEYS = {*EvaluatorBase.model_fields, "tool", "params", "min_calls"}


class ToolCallSpec(EvaluatorBase):
    """Which calls of a tool must, or must not, be made."""

    type: Literal["tool_call"] = "tool_call"
    tool: ToolName  # the tool's name
    called: Flag | None = None  # true: at least one call; false: none
    params: Params = Field(default_factory=dict)  # what a call's input must match to be counted
    call_count: Count | None = None  # so many calls
    min_calls: Count | None = None  # at least so many
    max_calls: Count | None = None  # at most so many
    called_after: ToolName | None = None  # some call comes after one of this tool
    called_before: ToolName | None = None  # some call comes before one of this tool
    # By number, from 1: what that call's input must match.
    nth_call_params: dict[PositiveIndex, Params] = Field(default_factory=dict)
    first_call_params: Params | None = None  # what the first call's input must match
    last_call_params: Params | None = None  # what the last call's input must match

    @model_validator(mode="after")
    def _bounds_agree(self) -> Self:
        if self.called is False:
            for bound in ("call_count", "min_calls"):
                if getattr(self, bound) is not None:
                    raise wrong(f'"called: false" can\'t go with "{bound}": no call is expected')
            if self.max_calls:
                raise wrong('"called: false" can\'t go with "max_calls" other than 0')
            if (
                self.nth_call_params
                or self.first_call_params is not None
                or self.last_call_params is not None
            ):
                raise wrong('"called: false" can\'t go with expectations of a certain call')
        lowest = max(bound for bound in (self.min_calls, self.call_count, 0) if bound is not None)
        highest = [bound for bound in (self.max_calls, self.call_count) if bound is not None]
        if highest and lowest > min(highest):
            raise wrong(f"at least {lowest} calls and at most {min(highest)} can't both be")
        if 0 in (self.call_count, self.max_calls) and (
            self.called or self.called_after or self.called_before
        ):
            raise wrong("no call is allowed, so none can be expected or come in any order")
        if self.min_calls == 0 and self.model_fields_set <= _ALWAYS_TRUE_KEYS:
            raise wrong('"min_calls: 0" alone always passes')
        return self


class ExpectedToolCall(Model):
    """One step of an expected trajectory."""

    tool: ToolName  # its name
    args: JsonValue = "any"  # "any", or what the call's input must have
    # How the input is compared; the evaluator's own if absent.
    args_match: Literal["exact", "superset", "subset", "ignore"] | None = None
    max_duration_ms: PositiveNumber | None = None  # how long the call may take

    @model_validator(mode="after")
    def _args_are_a_mapping(self) -> Self:
        if self.args != "any" and not isinstance(self.args, dict):
            raise wrong('"args" must be "any" or a mapping')
        return self


class ToolTrajectorySpec(EvaluatorBase):
    """The way a session took through its tools."""

    type: Literal["tool_trajectory"] = "tool_trajectory"
    # How the calls are compared with what is expected.
    mode: Literal["any_order", "in_order", "exact", "superset", "subset"]
    minimums: dict[ToolName, Count] = {}  # for any_order: how often each tool is called at least
    expected: tuple[ExpectedToolCall, ...] | None = None  # the steps
    # For steps that set none; superset if absent.
    args_match: Literal["exact", "superset", "subset", "ignore"] | None = None

    @model_validator(mode="after")
    def _mode_has_what_it_needs(self) -> Self:
        if self.mode == "any_order":
            if not any(self.minimums.values()) and not self.expected:
                raise wrong('mode "any_order" needs "minimums" above 0, or "expected"')
            return self
        if self.minimums:
            raise wrong(f'"minimums" goes with mode "any_order", not "{self.mode}"')
        if self.expected is None:
            raise wrong(f'mode "{self.mode}" needs "expected"')
        if not self.expected and self.mode in ("in_order", "superset"):
            raise wrong(f'mode "{self.mode}" with nothing expected always passes')
        return self
