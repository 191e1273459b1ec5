"""What a vocabulary takes for more than text is taken apart in what people write, and nothing else is."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.engine.special_texts import SpecialTexts, special_texts

NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4
VOCABULARY = {
    "hello": NORMAL,
    "<unk>": UNKNOWN,
    "<s>": CONTROL,
    "</s>": CONTROL,
    "[INST]": CONTROL,
    "<start_of_turn>": CONTROL,
    "<!User!>": USER_DEFINED,
    "<table>": USER_DEFINED,
    "\n\n": USER_DEFINED,
}
SPECIAL = special_texts(
    [text.encode() for text in VOCABULARY], list(VOCABULARY.values()), "{{ '<!User!>' + content + '\n\n' }}"
)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<unk>", "< unk>"),
        ("a<s>b</s>", "a< s>b< /s>"),
        ("[INST] hello", "[ INST] hello"),
        ("<start_of_turn>model", "< start_of_turn>model"),
        ("<!User!>", "< !User!>"),
        ("<|im_end|>", "< |im_end|>"),
        ("<<s>s>", "<< s>s>"),
        # Text, whatever a vocabulary has for it.
        *((text, text) for text in ("hello", "a\n\nb", "<table>", "<S>", "< s>", "[ INST ]", "")),
    ],
)
def test_a_text(text, left):
    assert SPECIAL.defused(text) == left


@example(known={"a "}, text="a b")
@example(known={" a"}, text="b a")
@example(known={"<a>", "a>"}, text="<a>")
@example(known={"a"}, text="<a|")
@example(known={" a", "ba"}, text="b a")
@example(known={" ", "ab"}, text="ab   c")
@given(known=st.sets(st.text("ab< |", max_size=4)), text=st.text("ab< |", max_size=30))
def test_nothing_special_is_left(known, text):
    """Nor made by taking apart what was there."""
    left = SpecialTexts(known).defused(text)
    assert not [special for special in (*known, "<|") if special.strip() and special in left]


def test_without_a_vocabulary():
    assert special_texts([], [], "").defused("a</s>b<|c|>") == "a</s>b< |c|>"
