"""What is wrong with an input is said in the words of everything else, not in pydantic's."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from waygraph.registry.model.validation import reason_of


class Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    text: Annotated[str, Field(min_length=1, max_length=5)] = "a"
    limit: Annotated[int, Field(ge=1, le=1000)] = 5
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    kind: Literal["agent", "tool"] = "agent"
    tags: Annotated[list[str], Field(min_length=1, max_length=2)] = ["a"]
    within: dict[str, str] = {}
    pinned: bool = False

    @model_validator(mode="after")
    def _not_both(self) -> "Asked":
        if self.pinned and self.kind == "tool":
            raise ValueError("a tool is not pinned: name its agent")
        return self


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"text": 5}, "expected a text"),
        ({"text": ""}, "expected a text of 1 or more characters"),
        ({"text": "abcdef"}, "expected a text of 5 or fewer characters"),
        ({"limit": "5"}, "expected a whole number"),
        ({"limit": 0}, "expected a number from 1"),
        ({"limit": 1001}, "expected a number up to 1000"),
        ({"weight": 0.0}, "expected a number above 0"),
        ({"weight": float("nan")}, "expected a finite number"),
        ({"kind": "robot"}, "expected 'agent' or 'tool'"),
        ({"tags": "a"}, "expected a list"),
        ({"tags": []}, "expected 1 or more entries"),
        ({"tags": ["a", "b", "c"]}, "expected 2 or fewer entries"),
        ({"within": []}, "expected an object"),
        ({"pinned": "yes"}, "expected true or false"),
        ({"limt": 5}, "is not known"),
        ({"pinned": True, "kind": "tool"}, "a tool is not pinned: name its agent"),
        ([], "expected an object"),
    ],
)
def test_a_fault_says_what_is_expected(said: Any, reason: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Asked.model_validate(said)
    assert [reason_of(fault) for fault in caught.value.errors()] == [reason]


def test_without_its_facts_a_fault_is_told_as_pydantic_tells_it() -> None:
    with pytest.raises(ValidationError) as caught:
        Asked.model_validate({"limit": 0})
    assert [reason_of(fault) for fault in caught.value.errors(include_context=False)] == [
        "Input should be greater than or equal to 1"
    ]
