"""One decoding, checked in one place."""

import pytest

from stepedit.errors import UserError
from stepedit.inference.decoding import Decoding, _digest, resolve
from stepedit.methods.recurrence import Recurrence
from stepedit.tasks.parallel_text import ParallelText
from stepedit.text.lexicon import Lexicon

METHOD, LEXICON = Recurrence(ParallelText()), Lexicon(["word"])


@pytest.mark.parametrize(
    ("name", "least", "most"), [("beam_size", 1, 100), ("min_confidence", 0, 1), ("edits_per_step", 0, 64)]
)
def test_every_number_has_bounds(name: str, least: int, most: int) -> None:
    for value in (least, most):
        assert getattr(Decoding(**{name: value}), name) == value
    for value in (least - 1, most + 1):
        with pytest.raises(UserError, match=f"^{name}: .*, not {value}$"):
            Decoding(**{name: value})


@pytest.mark.parametrize("beam_size", [1, 4])
def test_the_tuned_threshold_holds_for_every_beam(beam_size: int) -> None:
    assert resolve(Decoding(beam_size=beam_size), METHOD, tuned=0.7).min_confidence == 0.7
    assert resolve(Decoding(beam_size=beam_size, min_confidence=0.2), METHOD, tuned=0.7).min_confidence == 0.2


def test_a_threshold_and_a_lexicon_are_refused_together() -> None:
    with pytest.raises(UserError, match="leave one of them out"):
        resolve(Decoding(lexicon=LEXICON, min_confidence=0.5), METHOD)
    with pytest.raises(UserError, match=r"tuned confidence threshold \(0.7\), .* add --min-confidence 0$"):
        resolve(Decoding(lexicon=LEXICON), METHOD, tuned=0.7)
    assert resolve(Decoding(lexicon=LEXICON, min_confidence=0), METHOD, tuned=0.7).min_confidence == 0
    assert resolve(Decoding(lexicon=LEXICON), METHOD).min_confidence == 0


@pytest.mark.parametrize(
    ("decoding", "suffix"),
    [
        (Decoding(), ""),
        (Decoding(min_confidence=0), ""),
        (Decoding(min_confidence=0.5), "-confidence-0.5"),
        (Decoding(beam_size=5), "-beam-5"),
        (Decoding(beam_size=5, min_confidence=0.7), "-beam-5-confidence-0.7"),
        (Decoding(lexicon=LEXICON, min_confidence=0), f"-lexicon-{_digest(LEXICON.log_frequency.items())}"),
        (Decoding(edits_per_step=4), "-edits-4"),
        (Decoding(keep=["Acme"]), f"-keep-{_digest(['Acme'])}"),
        (Decoding(keep=["Acme"], keep_code=True, beam_size=2), f"-beam-2-keep-{_digest(['Acme'])}-keep-code"),
        (Decoding(keep=[]), ""),
    ],
)
def test_the_name_of_a_score_file_says_how_texts_were_decoded(decoding: Decoding, suffix: str) -> None:
    assert decoding.suffix() == suffix


def test_what_another_decoding_keeps_is_kept_too() -> None:
    both = Decoding(keep=["a"], beam_size=3).keeping(Decoding(keep=["/b/", "a"], keep_code=True))
    assert both == Decoding(keep=["a", "/b/"], keep_code=True, beam_size=3)
    assert Decoding().keeping(Decoding(keep_code=True)) == Decoding(keep_code=True)
    assert Decoding(keep=["a"]).keeping(None) == Decoding(keep=["a"])


@pytest.mark.parametrize("wrong", [3, [3], {"a": 1}])
def test_a_keep_list_is_words_or_the_path_of_a_file(wrong: object) -> None:
    with pytest.raises(UserError, match="keep"):
        Decoding(keep=wrong)
    with pytest.raises(UserError, match="nowhere"):
        Decoding(keep="nowhere.txt")


def test_the_names_of_score_files_of_different_lists_differ() -> None:
    lists = [["Acme"], ["acme"], ["Acme", "Europe"]]
    assert len({Decoding(keep=entries).suffix() for entries in lists}) == 3
    lexicons = [
        Lexicon(["word"]),
        Lexicon(["words"]),
        Lexicon(["word", "cat"], [1, 2]),
        Lexicon(["word", "cat"], [2, 1]),
    ]
    assert len({Decoding(lexicon=lexicon).suffix() for lexicon in lexicons}) == 4
    assert Decoding(keep=["b", "a"]).suffix() == Decoding(keep=["a", "b"]).suffix()
