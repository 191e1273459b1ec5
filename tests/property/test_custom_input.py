"""The text for a custom tool is the one that the model put into the object, however it escaped and was cut."""

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from service.run.custom_input import CustomInput

texts = st.text(max_size=40) | st.sampled_from(
    ['*** Begin Patch\n+"a"\\n\t\n', "🎉\u2028é", "{}", '"', "\\", ""]
)
gaps = st.sampled_from(["", " ", "\n  "])
soups = st.text(st.sampled_from('{}":\\ninputu0d83defe \n🎉'), max_size=40)


def read(arguments: str, cuts: list[int]) -> str:
    reader = CustomInput()
    edges = [0, *sorted(min(cut, len(arguments)) for cut in cuts), len(arguments)]
    out = [reader.feed(arguments[start:end]) for start, end in pairwise(edges)]
    return "".join(out) + reader.finish()


cut_lists = st.lists(st.integers(0, 80), max_size=80)


@given(texts, gaps, gaps, st.booleans(), cut_lists)
def test_what_goes_in_comes_out(text, before, after, ascii_only, cuts):
    value = json.dumps(text, ensure_ascii=ascii_only)
    arguments = f'{before}{{{after}"input"{before}:{after}{value}{before}}}{after}'
    assert read(arguments, cuts) == text


@given(soups, cut_lists)
def test_any_cutting_of_anything_gives_the_same(soup, cuts):
    for arguments in (soup, f'{{"input": "{soup}'):
        whole = read(arguments, [])
        assert read(arguments, cuts) == whole
        assert read(arguments, list(range(len(arguments)))) == whole
        whole.encode()


@given(texts.filter(lambda text: not text.lstrip().startswith("{")), cut_lists)
def test_what_is_no_object_is_the_text_itself(text, cuts):
    assert read(text, cuts) == text


def test_other_objects_stay_as_they_are():
    for arguments in ('{"patch": "x"}', '{"input": 5}', "{", '{"inp', '{"in put": "x"}', "[1]"):
        assert read(arguments, []) == arguments


def test_a_text_that_breaks_off_keeps_what_was_there():
    assert read('{"input": "ab', []) == "ab"
    assert read('{"input": "ab\\', []) == "ab"
    assert read('{"input": "ab\\ud83d', []) == "ab\ufffd"
    assert read('{"input": "a\\ud83d\\n\\udf89\\x"}', []) == "a\ufffd\n\ufffdx"


def test_endless_white_space_takes_linear_time():
    """Some models write it where JSON allows it. If it were quadratic, the test's time would be over."""
    reader = CustomInput()
    reader.feed('{"input"')
    white = " " * 32
    for _ in range(1_000_000):
        assert reader.feed(white) == ""
    assert reader.feed(':"a"}') == "a"
