"""Turn an assertion test (a prompt and assertions, one a document) into a Case."""

from __future__ import annotations

from farm.authoring.cases import CaseParts, CaseReader
from farm.authoring.evaluator_entries import EvaluatorEntries
from farm.authoring.fields import AssertionTest
from farm.authoring.sources import Source
from farm.documents.checking import check
from farm.documents.yaml import Document
from farm.model.messages import Message


def read_assertion_test(source: Source, document: Document, case_id: str) -> None:
    """Read one document; the case, or what is wrong with it, goes to the source."""
    evaluators = EvaluatorEntries(document, source)
    test = check(AssertionTest, document.data, document, (), source.problems, "an assertion test")
    # The assertions are read in any case: all problems of a file are told at once.
    specs = evaluators.read(document.data.get("assertions"), ("assertions",))
    if test is None:
        return
    source.cases.append(
        CaseReader(source, document).build(
            test,
            (),
            CaseParts(
                id=case_id,
                name=test.name,
                agent=test.agent,
                input_messages=(Message.model_construct(role="user", content=test.prompt),),
                evaluators=specs,
            ),
        )
    )
