"""The report of a study: claims first, then figures and tables, then how to repeat it."""

from __future__ import annotations

from typing import Any

from fastsbl.report.page import Note, Part, Report, Section
from fastsbl.studies.claims import Claim
from fastsbl.studies.figures import Figure
from fastsbl.studies.store import Store
from fastsbl.studies.study import Study

__all__ = ["study_report"]


def study_report(study: Study[Any, Any], store: Store) -> tuple[Report, list[Figure], list[Claim]]:
    """Read the results of a study into a report.

    Parameters
    ----------
    study : Study
        What was run.
    store : Store
        Its results; some of the units are enough.

    Returns
    -------
    (Report, list of figures, list of Claim)
        The report, and what it is made of.
    """
    claims, figures, tables = study.claims(store), study.figures(store), study.tables(store)
    environments = store.environments()
    environment = dict(environments[-1]) if environments else {}
    command = environment.pop("command", "")
    sections = [
        Section("Claims", [tuple(claims)] if claims else [Note("This study makes no claim.")]),
        Section("Figures", list(figures)),
        Section("Tables", list(tables)),
    ]
    failed, warned = store.failures(), store.warnings()
    troubles: list[Part] = [Note(f"Failed: {unit}: {error}") for unit, error in failed.items()]
    troubles += [Note(f"Warning: {text} ({count} times)") for text, count in warned.items()]
    if troubles:
        sections.append(Section("What went wrong", troubles))
    sections.append(Section("Configuration", [Note(line) for line in store.config_toml.splitlines() if line.strip()]))
    kept = [section for section in sections if section.parts]
    verdicts = [claim.verdict for claim in claims]
    highlights = {
        verdict: f"{verdicts.count(verdict)} claims" for verdict in ("holds", "does not hold", "not measured")
    }
    highlights["hold in part"] = f"{sum(verdict.startswith('holds for') for verdict in verdicts)} claims"
    environment |= {"runs": str(len(environments)), "seconds of all pieces": f"{store.unit_seconds():.0f}"}
    return Report(study.title, "", kept, command, environment, highlights), figures, claims
