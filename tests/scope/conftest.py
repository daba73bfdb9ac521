"""A folder of small but real runs, a study, a model with documents; and a page that serves it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scope_world import EVIL, STORY, TEXTS, Client, World
from tiny_study import LAG
from watched_page import Watched

import mnemoscope as ms
from mnemoscope.scope import guard

if TYPE_CHECKING:
    from playwright.sync_api import Browser

RUNS: dict[str, dict[str, Any]] = {
    "lstm": {"width": 12},
    "transformer": {"width": 16, "heads": 2, "layers": 2, "context": 40},
    "infinite": {"width": 16, "heads": 2, "mem_len": 8, "chunk": 8, "basis": 8, "sticky": True},
}
PAIRS = {"sentences": 100, "vocabulary_size": 300, "width": 16}
# Runs that read something else than text, or read it whole.
OTHERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "recall": ("recall", "transformer", {"width": 16, "heads": 2, "keys": 4, "values": 4}),
    "translator": ("translation", "encoder_decoder", {**PAIRS, "heads": 2}),
    "aligner": ("translation", "bahdanau", PAIRS),
    "encoder": ("sentences", "encoder", {**PAIRS, "heads": 2}),
}


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("scope")
    runs, texts = folder / "runs", folder / "texts"
    texts.mkdir()
    (texts / "story.txt").write_text(STORY * 40)
    (texts / f"{EVIL.replace('/', '-')}.md").write_text(STORY)
    (folder / "secret.txt").write_text("nobody may read this")
    for name, options in RUNS.items():
        shape = {**options, "steps": 3, "batch": 4, "segment": 16}
        shape["source"] = str(texts / "story.txt")
        ms.train("characters", name, runs / name, **shape)
    for name, (task, memory, options) in OTHERS.items():
        ms.train(task, memory, runs / name, steps=3, batch=4, **options)
    ms.study("lag", out=runs / "lag", jobs=1, memories=("lstm", "gru"), episodes=4, **LAG)
    _documents(runs)
    return World(runs, texts)


def _documents(runs: Path) -> None:
    pytest.importorskip("transformers")
    from hf_families import save_encoder, save_whole, speaking

    from mnemoscope.huggingface.config import Guidance
    from mnemoscope.huggingface.loading import load_model

    shape = {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 4}
    shape |= {"num_key_value_heads": 2, "max_position_embeddings": 256}
    words = " ".join(TEXTS.values())
    save_whole(runs / "base", words, 300, **shape, initializer_range=0.15)
    model, tokenizer = load_model(str(runs / "base"))
    memory = ms.attach(model, "documents", tokenizer=tokenizer, entries=6)
    memory.fit(TEXTS, Guidance(alpha=0), epochs=8)
    memory.save(runs / "notes")
    memory.detach()
    endless = ms.attach(model, "infinite", window=8, basis=8, sticky=True)
    speaking(endless).save(runs / "endless")
    save_encoder(runs / "bert", words)


Open = Callable[..., Client]


@pytest.fixture(scope="session")
def opened(world: World) -> Iterator[Open]:
    """Open pages; all of them are closed at the end."""
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    from mnemoscope.scope.serve import Page

    running: list[tuple[Page, threading.Thread]] = []

    def open_page(
        root: Path = world.runs, given: list[str] | None = None, host: str = "127.0.0.1"
    ) -> Client:
        page = Page(root, given or [], world.texts, host, 0)
        thread = threading.Thread(target=page.answer, args=(False,))
        thread.start()
        running.append((page, thread))
        while not page.server.started:
            time.sleep(0.01)
        return Client(page)

    yield open_page
    for page, thread in running:
        page.server.should_exit = True
        thread.join(timeout=20)
        assert not thread.is_alive()


@pytest.fixture(scope="session")
def client(opened: Open) -> Client:
    return opened()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests must arrive at once."""
    monkeypatch.setattr(guard, "SLOWEST", 0.3)


@pytest.fixture
def visit(browser: Browser, client: Client) -> Iterator[Callable[..., Any]]:
    """Open the page; at the end nothing may have failed or gone anywhere else."""
    contexts: list[Any] = []
    watched = Watched()
    bases = [f"http://127.0.0.1:{client.port}/"]

    def open_page(
        address: str = "", base: str | None = None, refused: bool = False, **options: Any
    ) -> Any:
        bases.append((base or bases[0]).partition("?")[0])
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
        contexts.append(context)
        # What the page was refused, the browser itself notes on the console.
        page = watched.watch(context.new_page(), console=not refused)
        page.goto((base or bases[0]) + address)
        return page

    yield open_page
    for context in contexts:
        assert not any(page.evaluate("window.hacked") for page in context.pages)
        context.close()
    watched.assert_quiet(*bases)
