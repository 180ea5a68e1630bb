"""What the paper claims and what it leaves open, each with the records that say something of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from experiments.blocks import Table
from experiments.results import Metric, Place
from experiments.statistics import Printed, Sample, compare, paired, verdict

HOLDS, PARTLY, FAILS, LEVEL = "holds", "in part", "does not hold", "no difference"
FEW, BUDGET, NOT_RUN = "too few runs", "not comparable", "not run"
RULE = (
    "A claim that a number is reached *holds* when ours agrees with it or is better, by the rule of the verdicts; a "
    "claim that one row is ahead of another *holds* when it is so by more than two standard errors (or, seed against "
    "seed, when the interval lies above zero) everywhere it was tried, *in part* when only somewhere. *No difference*: "
    "level everywhere. What is claimed to be so and so many points ahead does not hold where all intervals end below "
    "these, and holds in part if it is ahead. Which of our runs speak to a claim was settled when they were known: ten "
    "numbers are judged by the long run, as the paper's own budget is hundreds of times ours, and of several rows the "
    "best on test stands for its kind where codes are compared."
)


@dataclass(frozen=True)
class Claim:
    """`claim` in the paper's sense, `paper` its numbers, `ours` what the places of the evidence say of it."""

    claim: str
    paper: str
    ours: str
    verdict: str
    evidence: Sequence[Place] = ()

    @property
    def n(self) -> str:
        """Seeds of the places that it stands on."""
        counts = sorted({len(place.records) for place in self.evidence if place})
        return f"{counts[0]}" if len(counts) == 1 else f"{counts[0]}–{counts[-1]}" if counts else "0"


@dataclass(frozen=True)
class Gap:
    """Something the paper does not say, or says twice; what our runs tell of it, in sentences."""

    title: str
    printed: str
    found: Sequence[str]
    evidence: Sequence[Place] = ()


def claim_table(claims: Iterable[Claim]) -> Table:
    claims = list(claims)
    rows = [[c.claim, c.paper, c.ours, c.n, c.verdict] for c in claims]
    evidence = [[place for place in c.evidence if place] for c in claims]
    return Table(("claim", "paper", "ours", "n", "verdict"), rows, evidence=evidence)


def reached(claim: str, number: Printed, place: Place, metric: Metric, unit: str = "", note: str = "") -> Claim:
    """That a row reaches the number that the paper prints."""
    paper = number.text() + unit
    if not place:
        return Claim(claim, paper, "not run yet", NOT_RUN)
    sample = place.sample(metric)
    word = verdict(sample, number, place.samples)
    kinds = {"agrees": HOLDS, "better": HOLDS, "worse": FAILS, "not comparable": BUDGET}
    is_so = next(kind for start, kind in kinds.items() if word.startswith(start))
    is_so += " (one run)" if word.endswith("(one run)") else ""
    return Claim(claim, paper, f"{sample.spread(metric.digits)}{unit}{note and f' {note}'}", is_so, [place])


Pair = tuple[str, Place, Place]  # where, the one that is said to be ahead, of which


def ahead(
    claim: str,
    paper: str,
    pairs: Iterable[Pair],
    metric: Metric,
    judge: Callable[[Sample, Sample, int], str] = compare,
    by: float = 0.0,
    note: str = "",
) -> Claim:
    """That one row is ahead of another, everywhere it was tried; where the paper prints how far, as far as that."""
    found = [(where, one, two) for where, one, two in pairs if one and two]
    if not found:
        return Claim(claim, paper, "not run yet", NOT_RUN)
    texts = [judge(one.sample(metric), two.sample(metric), metric.digits) for _, one, two in found]
    ours = "; ".join(f"{where}: {text}" if where else text for (where, _, _), text in zip(found, texts))
    evidence = list(dict.fromkeys(place for _, one, two in found for place in (one, two)))
    word = said(texts)
    if by and word != FEW:
        leads = [paired(one.sample(metric), two.sample(metric)) for _, one, two in found]
        if all(lead.interval[1] < by for lead in leads if lead.leads.n > 1):
            word = PARTLY if word in (HOLDS, PARTLY) else FAILS
    return Claim(claim, paper, f"{ours}{note and f' {note}'}", word, evidence)


def said(comparisons: Sequence[str]) -> str:
    """The verdict on "is ahead", from the comparisons' words."""
    starts = {text.split()[0] for text in comparisons} & {"ahead", "level", "behind"}
    if not starts:
        return FEW
    if starts == {"ahead"}:
        return HOLDS
    return PARTLY if "ahead" in starts else LEVEL if starts == {"level"} else FAILS
