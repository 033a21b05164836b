"""The placeholders of a command: which are found, what is refused, how values are put in."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.model.command_template import PLACEHOLDERS, fill_template, template_problems

VALUES = {name: f"the {name}" for name in PLACEHOLDERS}
BARE = "stands in quotes, a comment or a here-document; the farm quotes it, so write it bare"


def printed(template: str, **values: str | list[str]) -> str:
    """Give what a real shell makes of a filled template."""
    command = fill_template(template, {**VALUES, **values})
    return subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", PLACEHOLDERS)
def test_every_placeholder_is_filled_with_one_word(name: str):
    template = f"run --with={{{name}}}"
    assert template_problems(template) == []
    assert shlex.split(fill_template(template, VALUES)) == ["run", f"--with=the {name}"]


def test_of_several_values_each_is_a_word_of_its_own():
    assert printed("printf '[%s]' x {FILES}", FILES=["a b", "c'd"]) == "[x][a b][c'd]"
    assert printed("printf '[%s]' x {FILES}", FILES=[]) == "[x]"


def test_a_value_that_looks_like_a_placeholder_is_put_in_as_it_is():
    assert printed("printf %s {PROMPT}{EVAL_ID}", PROMPT="{EVAL_ID} {FILES}", EVAL_ID="x") == (
        "{EVAL_ID} {FILES}x"
    )


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40))
def test_a_value_is_one_word_to_the_shell_whatever_is_in_it(value: str):
    assert shlex.split(fill_template("{PROMPT}", {"PROMPT": value})) == [value]


@pytest.mark.parametrize(
    "template",
    [
        "awk '{print $1}' {PROMPT_FILE}",
        "echo ${HOME} ${X:-y} {} {a,b} {1..3}",
        "find . -exec cat {} \\;",
        "{ cat {PROMPT_FILE}; }",
        "docker inspect -f '{{.Name}}'",
        """printf '{"prompt": 1}'""",
        "echo {lower} {Mixed} {kebab-CASE} {}",
        "python3 -c 'print(f\"{prompt} {{files}}\")'",
        "echo \\{NAME} \\{PROMPT}",
    ],
)
def test_other_braces_are_left_to_the_shell(template: str):
    assert template_problems(template) == []
    assert fill_template(template, {"PROMPT_FILE": "p"}) == template.replace("{PROMPT_FILE}", "p")


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("x {PROMT}", "unknown placeholder {PROMT}; did you mean {PROMPT}?"),
        ("x {OUTPUT}", "unknown placeholder {OUTPUT}; did you mean {OUTPUT_FILE}?"),
        ("x {FILE}", "unknown placeholder {FILE}; did you mean {FILES}?"),
        ("x '{PROMPTFILE}'", "unknown placeholder {PROMPTFILE}; did you mean {PROMPT_FILE}?"),
        (
            "x {WHAT2}",
            "unknown placeholder {WHAT2}; known are {PROMPT}, {PROMPT_FILE}, {OUTPUT_FILE}, {EVAL_ID}, "
            "{ATTEMPT}, {FILES}",
        ),
        ("x {prompt}", "{prompt} is no placeholder; did you mean {PROMPT}?"),
        ("x {Prompt_File}", "{Prompt_File} is no placeholder; did you mean {PROMPT_FILE}?"),
        ("x {{PROMPT}}", "{{PROMPT}} is no placeholder; did you mean {PROMPT}?"),
        ("x {{prompt}}", "{{prompt}} is no placeholder; did you mean {PROMPT}?"),
        ("x ${PROMPT}", "${PROMPT} is no placeholder; did you mean {PROMPT}?"),
        ("x {PROMPT} \0", "must not hold a NUL character"),
    ],
)
def test_a_slip_is_told(template: str, problem: str):
    assert template_problems(template) == [problem]


def test_all_slips_are_told_once_each():
    assert template_problems("x {PROMT} {FILE} {PROMT}") == [
        "unknown placeholder {PROMT}; did you mean {PROMPT}?",
        "unknown placeholder {FILE}; did you mean {FILES}?",
    ]


@pytest.mark.parametrize(
    "template",
    [
        'x "{PROMPT}"',
        'x --say="about {PROMPT}"',
        "x '{PROMPT}'",
        "sh -c 'x {PROMPT}'",
        "x `y {PROMPT}`",
        'x "`y {PROMPT}`"',
        "x `y $(z {PROMPT})`",
        "x # {PROMPT}",
        "cat <<EOF\n{PROMPT}\nEOF",
        "cat <<-'EOF' | x\n\t{PROMPT}\n\tEOF\n",
        'x "\\"{PROMPT}"',
        "x 'unclosed {PROMPT}",
    ],
)
def test_a_placeholder_whose_quotes_would_be_undone_is_refused(template: str):
    assert template_problems(template) == [f"{{PROMPT}} {BARE}"]


@pytest.mark.parametrize(
    "template",
    [
        'printf %s "$(printf %s {PROMPT})"',
        "(printf %s {PROMPT})",
        "printf '' \\\" ; printf %s {PROMPT}",
        "printf '' it\\'s; printf %s {PROMPT}",
        "printf '' $#; printf %s {PROMPT}",
        "printf '' a#b; printf %s {PROMPT}",
        "# it's for \"people\nprintf %s {PROMPT}",
        "cat >/dev/null <<END\nit's \"\nEND\nprintf %s {PROMPT}",
        "cat >/dev/null <<END; printf %s {PROMPT}\nEND\n",
        "case x in x) printf %s {PROMPT};; esac",
        "x=1; printf %s ${Y:-{PROMPT}}",
    ],
)
def test_a_placeholder_where_the_shell_sees_plain_words_means_itself(template: str):
    hostile = 'it\'s "$(exit 9)" `exit 9` \\ # x\n<<EOF'
    assert template_problems(template) == []
    assert printed(template, PROMPT=hostile) == hostile
