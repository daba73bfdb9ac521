"""What a reader of the guide brings, by the name that pages give it: made here, small."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

SENTENCES = "the old dog sees a king that sleeps. a cat waits, and all of them hear the rain.\n"


def text(path: Path, paragraphs: int = 40) -> None:
    """A text of paragraphs, none of them the same."""
    path.write_text("\n\n".join(f"{number}: {SENTENCES * 3}" for number in range(paragraphs)))


def folder_of(*names: str, paragraphs: int = 40) -> Callable[[Path], None]:
    """A folder with a text under each name."""

    def make(path: Path) -> None:
        path.mkdir()
        for name in names:
            text(path / name, paragraphs)

    return make


def pairs(path: Path) -> None:
    """Sentence pairs, separated by a tab; packed, if the name says so."""
    lines = "".join(f"the dog sees {n} cats\tder Hund sieht {n} Katzen\n" for n in range(900))
    path.write_bytes(gzip.compress(lines.encode()) if path.suffix == ".gz" else lines.encode())


def side(language: int) -> Callable[[Path], None]:
    """One side of sentence pairs, a line each; files of other names hold other sentences."""
    words = ("the dog sees {} cats of {}\n", "der Hund sieht {} Katzen von {}\n")[language]

    def make(path: Path) -> None:
        path.write_text("".join(words.format(number, path.stem) for number in range(300)))

    return make


def causal(path: Path) -> None:
    """A tiny Llama with random weights, and a tokenizer that fits it."""
    from hf_families import save_whole

    path.parent.mkdir(exist_ok=True)
    save_whole(path, SENTENCES * 9, 600, max_position_embeddings=1024)


def images(path: Path) -> None:
    """A few small pictures."""
    from PIL import Image

    path.mkdir()
    for number in range(30):
        Image.new("RGB", (40, 40), (8 * number, 90, 255 - 8 * number)).save(path / f"{number}.png")


def digits(path: Path) -> None:
    """An idx file of small grey images, as MNIST has them."""
    path.mkdir()
    shape = b"".join(size.to_bytes(4, "big") for size in (99, 28, 28))
    pixels = bytes(pixel % 251 for pixel in range(99 * 28 * 28))
    (path / "images-idx3-ubyte").write_bytes(b"\0\0\x08\x03" + shape + pixels)


def talk(path: Path) -> None:
    """The conversations that the page on dialogue prints."""
    page = (Path(__file__).parents[2] / "docs" / "dialogue.md").read_text()
    path.write_text(page.partition("`talk.json`:\n\n```text\n")[2].partition("```")[0])


# What a reader brings, by the name that pages give it; made here, small.
BROUGHT: dict[str, Callable[[Path], None]] = {
    "book.txt": text,
    "talk.json": talk,
    "moby-dick.txt": text,
    # Long enough for the warm-up of the preset `paper`, 16384 bytes.
    "books": folder_of(
        "middlemarch.txt", "moby-dick.txt", "one.txt", "two.txt", "three.txt", paragraphs=120
    ),
    "wikitext-2": folder_of("train.txt", "valid.txt", "test.txt", paragraphs=260),
    "gpt2": causal,  # on the hub; a folder of that name is opened in its stead
    "EleutherAI/pythia-70m": causal,
    "all-MiniLM-L6-v2": causal,
    "smollm2-135m": causal,
    "eng-deu.tsv.gz": pairs,
    "eng-kor.tsv.gz": pairs,
    "own.tsv": pairs,
    "my-pictures/": images,
    "fashion-mnist/": digits,
    "shelf/": folder_of("one.txt", "two.txt", "three.txt", "four.txt"),
    **{f"{part}.en": side(0) for part in ("train", "dev", "test")},
    **{f"{part}.de": side(1) for part in ("train", "dev", "test")},
}
