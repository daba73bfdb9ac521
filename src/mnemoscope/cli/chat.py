"""``mnemoscope chat``: talk to a model about a document longer than its window.

Nothing here imports torch before the command has understood what it was asked for.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from mnemoscope.cli.app import app
from mnemoscope.cli.options import check_file, examples, within
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.core.progress import progress

if TYPE_CHECKING:
    from mnemoscope.chat.document import ChatDocument
    from mnemoscope.chat.reply import DocumentRead, Reply
    from mnemoscope.chat.session import ChatSession

COMMANDS = {
    "/document FILE": "read another document; a new conversation begins",
    "/blank": "answer the next question without the document, to compare; it is no turn",
    "/forget": "drop the document and what was said",
    "/again": "ask the last question once more; /blank before it works here too",
    "/help": "show this",
    "/quit": "end; so does Ctrl-D",
}
NO_DOCUMENT = "what is the document? Give --document and a text file to talk about"
# Parts of the document that a line names.
FEW = 3
# Tokens of a window and vectors of a layer that can be asked for.
MOST = 1 << 20


@app.command(
    help_epilogue=examples(
        "mnemoscope chat --model models/smollm2 --document report.txt",
        "mnemoscope chat --model runs/talk --document tea.txt --say 'Where does tea grow?'",
        "mnemoscope chat --model models/smollm2 --document report.txt --memory none",
    ),
    default_parameter=Parameter(negative_iterable=()),
)
def chat(
    *,
    model: str,
    document: Path | None = None,
    say: list[str] | None = None,
    memory: str | None = None,
    window: int | None = None,
    vectors: int | None = None,
    length: int = 60,
    temperature: float = 0.0,
    seed: int = 0,
) -> None:
    """Talk to a model about a document longer than its window.

    The document is read once, window by window; what is left of it is what the memory holds.
    After every reply you see which part of the document attention fell on. Questions come from
    --say, from a pipe, a line each, or from you; /help lists commands.

    Parameters
    ----------
    model
        A run of the task dialogue, a Hugging Face causal language model (a folder or a name on
        the hub), or the folder of a memory attached to one.
    document
        A text file, UTF-8; a line --- begins a section. A run on the made-up corpus makes one up.
    say
        What to say, then end; can be given several times. Commands work here too.
    memory
        What a bare Hugging Face model holds, without training: infinite (vectors that got most
        attention, the default), transformer_xl (the last ones) or none (the window alone).
    window
        Tokens that a bare model sees at once, half of them new: 256 by default.
    vectors
        Vectors that each of its layers holds: 256 by default.
    length
        Most tokens of a reply.
    temperature
        0 says the likeliest; higher draws, and is bolder.
    seed
        Of what is drawn.
    """
    within("length", length, 1, 4096)
    within("window", window, 4, MOST)
    within("vectors", vectors, 2, MOST)
    if not 0 <= temperature <= 100:
        raise UserError(f"--temperature must be from 0 to 100, not {temperature:g}")
    within("seed", seed, 0, 2**63 - 1)
    if document is not None:
        check_file(document)
    elif not (Path(model).expanduser() / "config.yaml").is_file():
        raise UserError(NO_DOCUMENT)
    from mnemoscope.chat.document import read_chat_document
    from mnemoscope.chat.models import open_chat
    from mnemoscope.chat.session import ChatSession

    text = None if document is None else read_chat_document(document)
    opened = open_chat(model, memory, window, vectors)
    if text is None and opened.sample is None:
        raise UserError(NO_DOCUMENT)
    terminal = Terminal(ChatSession(opened, length=length, temperature=temperature, seed=seed))
    terminal.introduce()
    terminal.read(text or opened.sample, shown=text is None)
    terminal.talk(say)


class Terminal:
    """Lines from and to a terminal around a session."""

    def __init__(self, session: ChatSession) -> None:
        self.session, self.blank = session, False
        self.console = Console(highlight=False, emoji=False)

    def introduce(self) -> None:
        """What the model is, and how good."""
        model = self.session.model
        self._line("model", f"{model.name}: {model.label}; turns are written {model.writing.how}")
        if model.quality:
            self._line("quality", model.quality)

    def read(self, document: ChatDocument | None, shown: bool = False) -> None:
        """Read a document, and say what is left of it."""
        assert document is not None
        if shown:
            for part in document.parts:
                self._line(part.label, part.text.strip())
        # In percent: how many tokens there are is known once the document is cut into them.
        with progress("reading", 100) as show:
            read = self.session.read(
                document, lambda done, total: show(100 * done // total, f"{done} of {total} tokens")
            )
        self._line("read", _said_of_reading(read))
        self._line("held", _said_of_state(read))
        if read.measured is not None:
            self._line("quality", str(read.measured))
        elif not self.session.model.quality:
            self._line("quality", "nothing is measured: the document is too short for that")

    def talk(self, given: list[str] | None) -> None:
        """Answer what is given, what comes through a pipe, or who sits here."""
        sits = given is None and sys.stdin.isatty()
        for line in given if given is not None else _lines(sits):
            try:
                if not self.answer(line.strip(), told=not sits):
                    return
            except UserError as error:
                if not sits:
                    raise
                self._line("error", str(error))

    def answer(self, line: str, told: bool) -> bool:
        """Do what a line says; false when it ends the talk."""
        if not line:
            return True
        if told:
            self._line("you", line)
        command, _, rest = line.partition(" ")
        match command:
            case "/quit":
                return False
            case "/help":
                for name, meaning in COMMANDS.items():
                    self._line(name, meaning)
            case "/document":
                self._swap(rest.strip())
            case "/blank":
                self.blank = True
                if rest.strip():
                    return self.answer(rest.strip(), told=False)
                self._line("blank", "the next question is answered without the document")
            case "/forget":
                self.session.forget()
                self._line("forgot", "the document and what was said; nothing is held")
            case "/again":
                self._reply(self.session.again(blank=self._blanks()))
            case _ if command.startswith("/"):
                known = [name.split()[0] for name in COMMANDS]
                raise UserError(f"unknown command {command[:40]!r}; {suggestion(command, known)}")
            case _:
                self._reply(self.session.ask(line, blank=self._blanks()))
        return True

    def _blanks(self) -> bool:
        blank, self.blank = self.blank, False
        return blank

    def _swap(self, name: str) -> None:
        from mnemoscope.chat.document import read_chat_document

        if not name:
            raise UserError("which document? Write /document and the name of a file")
        check_file(Path(name).expanduser())
        self.read(read_chat_document(name))

    def _reply(self, reply: Reply) -> None:
        who = "without document" if reply.blank else "model"
        said = Text(f"{_plain(reply.text) or '(nothing)'}")
        if self.console.is_terminal and reply.words:
            said = Text(" ").join(_coloured(one.word, one.document) for one in reply.words)
        self.console.print(Text(f"{who:>9}  ", style="bold") + said, soft_wrap=True)
        if reply.blank or self.session.document is None:
            return
        if reply.words is None:
            self._line(
                "from", "this memory mixes all it read: nobody can tell where a word is from"
            )
            return
        total = sum(share for _, share in reply.parts)
        parts = " · ".join(f"{label} {share:.1%}" for label, share in reply.parts[:FEW])
        self._line("from", f"{total:.1%} of attention on the document: {parts or 'none'}")
        words = " ".join(
            f"{_plain(one.word)} [{one.part or 'none'} {one.share:.1%}]" for one in reply.words
        )
        self._line("words", words)

    def _line(self, title: str, text: str) -> None:
        self.console.print(Text(f"{title:>9}  ", style="bold") + Text(_plain(text)), soft_wrap=True)


def _lines(sits: bool) -> Iterator[str]:
    """What somebody types, or what comes through a pipe."""
    while True:
        try:
            yield input("      you  " if sits else "")
        except EOFError:
            if sits:
                sys.stdout.write("\n")
            return
        except UnicodeDecodeError as error:
            raise UserError("what comes through the pipe is not UTF-8 text") from error


def _said_of_reading(read: DocumentRead) -> str:
    pieces = "1 segment" if read.segments == 1 else f"{read.segments} segments"
    said = f"{_plain(read.name)}: {read.tokens} tokens in {pieces} of at most {read.segment}"
    if read.fits:
        return f"{said}; it fits into one, so nothing of it has to be remembered"
    if read.pace is None:
        return said
    first, last = read.pace
    return (
        f"{said}; {first:.2f} CPU seconds per 1000 tokens at its beginning, {last:.2f} at its end"
    )


def _said_of_state(read: DocumentRead) -> str:
    said = f"{read.nbytes:,} bytes"
    if read.held is None:
        return f"{said}, in which all that was read is mixed"
    said += f"; {read.held} tokens of the document are held by themselves in some layer"
    return f"{said}, {read.mixed} are in a signal" if read.mixed else said


def _coloured(word: str, share: float) -> Text:
    """A word, the greener the more of its attention fell on the document."""
    green = round(min(1.0, 2 * share) * 130)
    return Text(_plain(word), style=f"rgb({225 - green},225,{225 - green})")


def _plain(text: str) -> str:
    """Text as a terminal may show it: nothing in it can move the cursor or change colours."""
    kept = (one if one == "\n" or unicodedata.category(one)[0] != "C" else "�" for one in text)
    return "".join(kept)
