"""What stands where on the page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from html import escape
from pathlib import Path

from experiments import paper, report
from experiments.atlas.guide import guide
from experiments.atlas.heat_map import HeatMap
from experiments.atlas.plan import ALL as FUNCTIONS
from experiments.atlas.plan import ROWS as ESTIMATORS
from experiments.blocks import Bullets, Heading, Table
from experiments.leaderboard import leaderboard
from experiments.numbers import human, human_duration
from experiments.paper.claim import RULE, claim_table
from experiments.provenance import is_clean, statement
from experiments.results import Results, training_time
from experiments.site.figures import colours, script
from experiments.site.html import Html, anchor, inline
from experiments.study import COMMITTED, ROOT, Store

HERE = Path(__file__).parent
SORTER = ROOT / "results" / "sorter" / "five.json"
TITLES = {
    "sorting": "Sorting",
    "binarized": "Density estimation",
    "representation/fashion_mnist": "Representations: FashionMNIST",
    "representation/cifar10": "Representations: CIFAR10",
    "representation/search": "The search behind the representations",
    "imagenet": "ImageNet",
    "classification/cifar10": "Classification: CIFAR10",
    "classification/ablation": "Classification: case studies",
    "atlas": "The atlas, in full",
}
LEDE = (
    "A hard function (a sort, a sign, a look-up, somebody else's code) has no useful gradient, so networks that "
    "contain one cannot be trained by the chain rule. A **bridge** trains them: forward it is the hard function, bit for "
    "bit; backward the gradient takes a small smooth network that learns to imitate it and is dropped afterwards. "
    "`dab` is that method as a few hundred lines of PyTorch, and a suite that measures it against every serious rival."
)


def write(folder: Path, scale: str = "cpu", store: Store = COMMITTED) -> Path:
    """index.html, from the records of one scale."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    path.write_text(page(report.load(scale, store), folder, scale))
    return path


def page(results: Mapping[str, Results], folder: Path, scale: str) -> str:
    html = Html(folder, ROOT / "docs")
    parts = {
        "atlas": ("Which gradient for which function?", atlas(results["atlas"], html)),
        "paper": ("Does the paper hold?", holds(results, html)),
        "sorter": ("Try it: a network with a hard layer that sorts", sorter()),
        "leaderboard": ("Leaderboard of estimators", html.parts([leaderboard(results)[1:]])),
        "results": ("Every table and figure", studies(results, folder)),
        "open": ("What the paper leaves open", left_open(results, html)),
        "code": ("Which code made this", html.parts([statement(results)[1:]])),
    }
    body = "".join(f'<section id="{name}"><h2>{title}</h2>{content}</section>' for name, (title, content) in parts.items())
    links = {"atlas": "Which gradient", "paper": "The paper", "sorter": "Try it", "leaderboard": "Leaderboard"}
    links |= {"results": "Results", "open": "Left open"}
    menu = "".join(f'<a href="#{name}">{text}</a>' for name, text in links.items())
    reduced = "" if scale == "paper" else f" Everything here is at <code>scale={scale}</code>: a reduced setting."
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><title>dab: what holds and what does not</title>'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<style>{colours()}{(HERE / 'style.css').read_text()}</style></head><body>"
        f'<a class="skip" href="#main">Skip to the content</a><nav aria-label="Parts of this page"><b>dab</b>{menu}</nav>'
        f'<header><div><h1>Gradients through functions that have none</h1><p class="lede">{inline(LEDE)}</p>'
        f'{facts(results)}<p class="note">Made from the run records in <code>results/</code> by <code>make report</code>; '
        f"nothing is typed in.{reduced}</p></div>{(HERE / 'idea.svg').read_text()}</header>"
        f'<main id="main">{body}</main><div id="tip" role="status" aria-live="polite" hidden></div>'
        f"<script>{(HERE / 'sorter.js').read_text()}{(HERE / 'page.js').read_text()}</script></body></html>\n"
    )  # fmt: skip


def facts(results: Mapping[str, Results]) -> str:
    """How much the page stands on."""
    records = [record for of_study in results.values() for record in of_study.records()]
    hours = sum(training_time(record) for record in records if "train_seconds" in record)
    words = Counter(c.verdict.partition(" (")[0] for of_study in paper.claims(results).values() for c in of_study)
    shown = {
        "runs recorded": f"{len(records):,}",
        "of training": human_duration(hours),
        "claims of the paper hold": f"{words['holds']}",
        "do not, or in part": f"{words['does not hold'] + words['in part'] + words['no difference']}",
        "not settled yet": f"{words['not run'] + words['not comparable'] + words['too few runs']}",
    }
    return "<dl class=facts>" + "".join(f"<div><dt>{k}</dt><dd>{v}</dd></div>" for k, v in shown.items()) + "</dl>"


def atlas(results: Results, html: Html) -> str:
    """The map of the first task and what follows from it, or how to get them."""
    parts = report.STUDIES["atlas"].render(results)
    maps = [block for part in parts for block in part if isinstance(block, HeatMap)]
    if not maps:
        command = f"make reproduce-atlas{'' if results.scale == 'cpu' else f' SCALE={results.scale}'}"
        return (
            f'<div class="empty"><p><b>Not run yet at this scale.</b> This is where the map of {len(FUNCTIONS)} hard functions × '
            f"{len(ESTIMATORS)} estimators will stand: how much of the possible gain each of them gets, at equal steps and at equal "
            f"calls of the function. To fill it:</p><pre><code>{command} KEEP=1\nmake report</code></pre>"
            "<p>Until then the leaderboard below says who is ahead on the tasks that have been run.</p></div>"
        )  # fmt: skip
    sentences = [block for block in guide(results) if isinstance(block, Bullets)]
    more = '<p class="note">All of the atlas, with the other two maps: <a href="#study-atlas">below</a>.</p>'
    return html.block(maps[0]) + "".join(map(html.block, sentences)) + more


def holds(results: Mapping[str, Results], html: Html) -> str:
    """The claims, grouped by study."""
    made = []
    for name, claims in paper.claims(results).items():
        link = f'<a href="#study-{anchor(name)}">{TITLES[name]}</a>'
        made.append(f"<h3>{link}</h3>{Html(html.folder, html.pictures, command(name, results)).table(claim_table(claims))}")
    return f"<p>{inline(RULE)}</p><div class=claims>{''.join(made)}</div>"


def command(name: str, results: Mapping[str, Results]) -> str:
    return f"python -m experiments {name} --scale {results[name].scale}"


def sorter() -> str:
    """Five numbers, sorted in the page by weights that train.py made."""
    if not SORTER.exists():
        return '<div class="empty"><p>No sorter has been exported: <code>scripts/export_sorter.py</code>.</p></div>'
    net = json.loads(SORTER.read_text())
    widths = " → ".join(map(str, [net["length"], *(len(layer["bias"]) for layer in net["layers"])]))
    about = (
        f"{net['length']} numbers go through {widths} units, the last of them hard (−1, 0 or +1), and one linear layer says "
        f"which number belongs to which place. Trained with the paper's bridge by <code>{escape(net['command'])}</code> in "
        f"{net['seconds']} s on {human(net['samples'])} samples; all {net['length']} places right for "
        f"{100 * net['accuracy']:.1f} % of unseen sequences. What runs here is the hard network alone, in your browser."
    )
    return (
        f'<p>{about}</p><form id="sorter-form"><label for="numbers">Numbers to sort, between 0 and 1 or of any size</label>'
        '<div class="line"><input id="numbers" inputmode="text" autocomplete="off" spellcheck="false" '
        'value="0.71, 0.23, 0.94, 0.08, 0.55"><button type="submit">Sort</button>'
        '<button type="button" id="shuffle">Other numbers</button></div></form>'
        '<p id="sorted" role="status" aria-live="polite"></p><div id="sorting-picture"></div>'
        f'<script type="application/json" id="sorter-net">{script(net)}</script>'
    )  # fmt: skip


def studies(results: Mapping[str, Results], folder: Path) -> str:
    """Every study as docs/RESULTS.md has it, in a section that can be closed."""
    made = []
    for name, of_study in results.items():
        html = Html(folder, ROOT / "docs", command(name, results))
        records, planned = of_study.records(), len(report.STUDIES[name].cells(of_study.scale))
        parts = [[b for b in part if not (isinstance(b, Heading) and b.level == 1)] for part in report.STUDIES[name].render(of_study)]
        clean = sum(map(is_clean, records))
        meta = f"{len(records)} of {planned} runs, {clean} of them by committed code alone; <code>{html.redo}</code>"
        missing = f'<div class="empty"><p>{why_empty(planned, of_study.scale)} <code>{html.redo}</code></p></div>'
        content = html.parts(parts) if records else missing
        made.append(
            f'<details class="study" id="study-{anchor(name)}"{" open" if name == "sorting" else ""}><summary><h3>{TITLES[name]}</h3>'
            f"<span>{meta if records else 'not run yet'}</span></summary>{content}</details>"
        )  # fmt: skip
    return "".join(made)


def why_empty(planned: int, scale: str) -> str:
    if planned:
        return f"None of the {planned} planned runs is recorded. To run them:"
    return f"Nothing is planned at scale={scale}: it needs GPUs (scale=paper)."


def left_open(results: Mapping[str, Results], html: Html) -> str:
    cards = []
    for name, gaps in paper.gaps(results).items():
        for gap in gaps:
            waiting = f"Not run yet: `{command(name, results)}`."
            found = html.block(Bullets(gap.found or [waiting]))
            cards.append(
                f'<article class="card"><h3>{escape(gap.title)}</h3><p class="kind">{TITLES[name].partition(":")[0]}</p>'
                f"<p>{inline(gap.printed)}</p>{found}{html.evidence(gap.evidence) if gap.evidence else ''}</article>"
            )  # fmt: skip
    return f'<div class="cards">{"".join(cards)}</div>'
