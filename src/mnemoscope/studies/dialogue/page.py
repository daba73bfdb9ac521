"""The page of the study `dialogue`: every figure and every sentence is computed from its result."""

from __future__ import annotations

from mnemoscope.report.document import Section
from mnemoscope.studies.dialogue.attention_page import attention_section
from mnemoscope.studies.dialogue.bounds_page import bounds_section, diverged, losses_figure
from mnemoscope.studies.dialogue.claims import findings
from mnemoscope.studies.dialogue.reading_page import reading_section
from mnemoscope.studies.dialogue.recovered import Recovered
from mnemoscope.studies.dialogue.recovered_page import (
    controls_section,
    recovered_section,
    sections_along,
    shares_figure,
)
from mnemoscope.studies.dialogue.result import DialogueResult
from mnemoscope.studies.dialogue.spoken_page import spoken_section
from mnemoscope.studies.dialogue.training_page import sizes_section, training_section
from mnemoscope.studies.findings import lead


def page(result: DialogueResult) -> list[Section]:
    """Build the sections of the page."""
    found = Recovered(result)
    if not found.trials:
        return [Section("What was found", ["Nothing: all trainings diverged.", *diverged(result)])]
    between = found.bounded and bool(found.contestants)
    figure = shares_figure(found) if between else losses_figure(found)
    sections = [lead(findings(found), figure), bounds_section(found, between)]
    if between:
        sections += [recovered_section(found), controls_section(found), *sections_along(found)]
    sections += attention_section(found)
    return [
        *sections,
        *spoken_section(found),
        *reading_section(found),
        *([] if result.pretrained else [training_section(found)]),
        sizes_section(found),
    ]
