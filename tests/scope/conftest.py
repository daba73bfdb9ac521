"""A folder of small but real runs, a study, a model with documents; and a page that serves it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from scope_world import EVIL, STORY, TEXTS, Client, World

import mnemoscope as ms
from mnemoscope.scope import guard

if TYPE_CHECKING:
    from playwright.sync_api import Browser

RUNS: dict[str, dict[str, Any]] = {
    "lstm": {"width": 12},
    "transformer": {"width": 16, "heads": 2, "layers": 2, "context": 40},
    "infinite": {"width": 16, "heads": 2, "mem_len": 8, "chunk": 8, "basis": 8, "sticky": True},
}
LAG: dict[str, Any] = {
    "parameters": 1500,
    "trained": 4,
    "tested": (1, 4),
    "steps": 4,
    "batch": 4,
    "seeds": 1,
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
    ms.study("lag", out=runs / "lag", jobs=1, memories=("lstm", "gru"), episodes=4, **LAG)
    _documents(runs)
    return World(runs, texts)


def _documents(runs: Path) -> None:
    transformers = pytest.importorskip("transformers")
    from mnemoscope.data.vocabulary import Merges
    from mnemoscope.huggingface.config import Guidance

    words = Merges.learn(" ".join(TEXTS.values()), 300)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words._tokenizer)
    tokenizer.save_pretrained(runs / "base")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=words.size,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=None,
        eos_token_id=None,
        initializer_range=0.15,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(runs / "base")
    model = transformers.AutoModelForCausalLM.from_pretrained(runs / "base")
    memory = ms.attach(model, "documents", tokenizer=tokenizer, entries=6)
    memory.fit(TEXTS, Guidance(alpha=0), epochs=8)
    memory.save(runs / "notes")


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
    complaints: list[str] = []
    requests: list[str] = []
    bases = [f"http://127.0.0.1:{client.port}/"]

    def open_page(
        address: str = "", base: str | None = None, refused: bool = False, **options: Any
    ) -> Any:
        bases.append((base or bases[0]).partition("?")[0])
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(90_000)  # a busy machine is no failure
        if not refused:  # else the browser itself notes what it was refused
            page.on("console", lambda said: complaints.extend([said.text] * (said.type == "error")))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto((base or bases[0]) + address)
        return page

    yield open_page
    for context in contexts:
        assert not any(page.evaluate("window.hacked") for page in context.pages)
        context.close()
    assert complaints == []
    inside = (*bases, "data:", "blob:", "about:")
    assert [url for url in requests if not url.startswith(inside)] == []
