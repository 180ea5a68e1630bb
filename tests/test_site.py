"""The page of all results: whole, in one file, and alive in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import chromium
import pytest
import torch

from dab.hard import Signum
from dab.keys import generator
from dab.models.dense_sorter import DenseSorter
from experiments import report
from experiments.atlas.plan import FREE, FROZEN
from experiments.atlas.plan import ROWS as ESTIMATORS
from experiments.blocks import Figure, Table
from experiments.figures import Kept
from experiments.paper import claims, gaps
from experiments.paper.claim import FAILS, FEW, HOLDS, LEVEL, PARTLY, said
from experiments.results import Place, Results
from experiments.site.html import Html, inline, pill
from experiments.site.page import SORTER, page, write
from experiments.study import ROOT, Records

needs_chromium = pytest.mark.skipif(chromium.CHROMIUM is None, reason="no chromium on the path")


@pytest.fixture(scope="module")
def results() -> dict[str, Results]:
    return report.load("cpu")


@pytest.fixture(scope="module")
def site(results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page as it is committed, but for an atlas of invented records: the campaign may not have run."""
    folder = tmp_path_factory.mktemp("site")
    study = report.STUDIES["atlas"]
    records = Records(folder / "atlas")
    records.folder.mkdir()
    names, scale = [*ESTIMATORS, FROZEN, FREE], "smoke"
    for cell in study.cells(scale):
        value = 0.95 if cell.row == FREE else 0.9 - 0.08 * names.index(cell.row)
        numbers = ("valid/score", "test/score", "test/score_at_equal_calls", "test/accuracy", "test/error")
        metrics = dict.fromkeys(numbers, value)
        record = {"metrics": metrics, "calls": 5.0, "call_seconds": 1e-6, "cpu_seconds": 1.0}
        record |= {"search": [], "chosen": {"rate": 0.005}}
        records.path(cell).write_text(json.dumps(record))
    with_atlas = {**results, "atlas": Results(records, study.cells(scale), scale)}
    path = folder / "index.html"
    path.write_text(page(with_atlas, folder, "cpu"))
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[chromium.Page]:
    with chromium.browser() as page:
        yield page


@needs_chromium
@pytest.mark.parametrize(("width", "dark"), [(400, True), (1400, False)])
def test_nothing_complains_nothing_leaves_and_every_figure_is_there(browser, site, width: int, dark: bool) -> None:
    browser.events.clear()
    browser.open(site, width, 900, dark)
    browser.run("document.querySelectorAll('details').forEach((part) => { part.open = true })")
    browser.run("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 300)))")
    sizes = browser.run(
        "[...document.querySelectorAll('figure, header svg.idea, #sorting-picture svg')].map((figure) => {"
        " const part = figure.querySelector('svg[role=img], table, img') || figure, box = part.getBoundingClientRect();"
        " return [figure.id, box.width, box.height] })"
    )
    assert len(sizes) > 15
    assert [name for name, across, down in sizes if across < 100 or down < 50] == []
    assert browser.run("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"
    assert browser.complaints() == []
    assert [url for url in browser.requests() if not url.startswith(("data:", site.as_uri()))] == []


@needs_chromium
def test_lines_can_be_hovered_read_by_keys_and_filtered(browser, site) -> None:
    browser.open(site)
    figure = "document.querySelector('#figure-sorting_samples')"
    browser.scroll_to(figure)
    browser.until(f"{figure}.querySelectorAll('.row').length > 4")
    box = browser.run(f"(() => {{ const b = {figure}.querySelector('svg[role=img]').getBoundingClientRect();"
                      " return [b.left + b.width / 3, b.top + b.height / 3] })()")  # fmt: skip
    browser.hover(*box)
    assert re.search(r": [\d.]+( ± [\d.e-]+)? at [\d.]+.* seeds?\)", browser.run("tip.textContent"))
    assert not browser.run("tip.hidden") and browser.run(f"{figure}.querySelectorAll('.row.on').length") == 1
    before = browser.run("tip.textContent")
    browser.run(f"{figure}.querySelector('svg[role=img]').focus()")
    browser.press("ArrowRight")
    assert browser.run("tip.textContent") != before
    rows = browser.run(f"{figure}.querySelectorAll('.row').length")
    browser.run(f"{figure}.querySelector('.chips button').click()")
    assert browser.run(f"{figure}.querySelectorAll('.row').length") == rows - 1
    assert browser.run(f"{figure}.querySelector('.chips button').ariaPressed") == "false"
    browser.run(
        f"{{ const i = {figure}.querySelector('input'); i.value = 'Tanh'; i.dispatchEvent(new Event('input')) }}"
    )
    assert browser.run(f"[...{figure}.querySelectorAll('.row')].map((row) => row.dataset.row)") == ["Tanh-Dense"]


@needs_chromium
def test_a_crowded_chart_begins_with_a_few_lines_and_has_all(browser, site) -> None:
    browser.open(site)
    browser.run("document.querySelectorAll('details').forEach((part) => { part.open = true })")
    figure = "document.querySelector('#figure-binarized_mnist_step')"
    browser.scroll_to(figure)
    browser.until(f"{figure}.querySelectorAll('.row').length > 4")
    count = f"{figure}.querySelectorAll('.row').length"
    assert browser.run(count) == 8
    shown = browser.run(f"[...{figure}.querySelectorAll('.row')].map((row) => row.dataset.row)")
    assert "DAB, dense bridge" in shown and "ReinMax" in shown
    browser.run(f"{figure}.querySelector('.more').click()")
    assert browser.run(count) == browser.run(f"{figure}.querySelectorAll('.chips button:not(.more)').length") > 12
    browser.run(f"{figure}.querySelector('.more').click()")
    assert browser.run(count) == 8


@needs_chromium
def test_the_heat_map_tells_its_numbers_to_mouse_and_keys(browser, site) -> None:
    browser.open(site)
    cells = "document.querySelectorAll('#figure-atlas_recover .cell')"
    browser.scroll_to(f"{cells}[1]")
    x, y = browser.run(f"(() => {{ const b = {cells}[1].getBoundingClientRect(); return [b.x + 9, b.y + 9] }})()")
    browser.hover(x, y)
    second = list(ESTIMATORS)[1]
    assert browser.run("tip.textContent").startswith(f"{second} (5) on signum: 0.820")
    browser.run(f"{cells}[0].focus()")
    browser.press("ArrowRight")
    assert browser.run("document.activeElement.dataset.tip").startswith(f"{second} (5) on signum")
    reasons = browser.run(f"[...{cells}].filter((cell) => cell.textContent == '–').map((cell) => cell.dataset.tip)")
    assert "straight-through (5) on histogram counts: does not apply: needs a function that keeps the shape" in reasons


@needs_chromium
def test_the_sorter_sorts_what_is_typed_and_says_what_it_cannot(browser, site) -> None:
    browser.open(site)

    def typed(text: str) -> str:
        browser.run(f"{{ numbers.value = {text!r}; document.getElementById('sorter-form').requestSubmit() }}")
        return browser.run("document.getElementById('sorted').textContent")

    assert typed("0.9 0.1 0.5 0.3 0.7") == "Sorted: 0.1, 0.3, 0.5, 0.7, 0.9. All places are right."
    assert typed("300, -20, 5, 70, 1e2").startswith("Sorted: -20, 5, 70, 1e2, 300. All places are right.")
    assert typed("1 2 three").startswith("Give 5 numbers") and "not all of them numbers" in typed("1 2 three 4 5")
    assert browser.run("document.querySelectorAll('#sorting-picture svg').length") == 0


@needs_chromium
def test_the_page_computes_what_torch_computes(browser, site) -> None:
    net = json.loads(SORTER.read_text())
    x = torch.rand(64, net["length"], generator=generator("page"), dtype=torch.float64)
    browser.open(site)
    browser.run("net = JSON.parse(document.getElementById('sorter-net').textContent); 0")
    script = browser.run(f"{json.dumps(x.tolist())}.map((x) => sortWith(net, x))")
    logits, _ = torch_sorter(net)(x)
    torch.testing.assert_close(
        torch.tensor([one["logits"] for one in script]).double(), logits.flatten(1), atol=1e-4, rtol=0
    )
    assert [one["order"] for one in script] == logits.argmax(dim=1).tolist()


def torch_sorter(net: dict) -> DenseSorter:
    """The exported network, as the library builds it."""

    class Hard(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hard = Signum(net["eps"])

        def forward(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.hard(z), z.new_zeros(len(z))

        def out_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
            return shape

    widths = tuple(len(layer["bias"]) for layer in net["layers"])
    model = DenseSorter(Hard(), (net["length"],), widths, "tanh", net["shift"], net["scale"]).double()
    linear = [layer for layer in model.encoder if isinstance(layer, torch.nn.Linear)]
    for layer, stored in zip([*linear, model.read_out], [*net["layers"], net["read_out"]], strict=True):
        for name in ("weight", "bias"):
            getattr(layer, name).data = torch.tensor(stored[name], dtype=torch.float64)
    return model


def test_the_exported_sorter_sorts_as_well_as_it_says() -> None:
    net = json.loads(SORTER.read_text())
    x = torch.rand(20_000, net["length"], generator=generator("unseen"), dtype=torch.float64)
    logits, _ = torch_sorter(net)(x)
    right = (logits.argmax(dim=1) == x.argsort(dim=1)).all(dim=1).double().mean().item()
    assert abs(right - net["accuracy"]) < 0.005


def test_a_record_that_is_shown_twice_is_counted_once_and_every_figure_says_what_it_stands_on(results) -> None:
    html, place = Html(ROOT, ROOT / "docs", redo="make it"), results["sorting"].at("Straight-through", "T5")
    assert html.footnote([place, place]).startswith(f'<p class="note">{len(place.records)} runs · ')
    assert "of training · again: <code>make it</code>" in html.footnote([place])
    drawn = [block for section in report.sections(results) for part in section for block in part]
    figures = [block for block in drawn if isinstance(block, Figure) and not isinstance(block, Kept)]
    assert len(figures) > 10 and [figure.name for figure in figures if not any(figure.evidence)] == []
    unrun = Place("row", "column", "", "cpu", ("hard=sort",))
    assert "to run it" in html.evidence([unrun]) and "python train.py hard=sort" in html.evidence([unrun])


def test_links_of_the_page_lead_to_records_and_anchors_that_exist(tmp_path: Path) -> None:
    path = write(tmp_path / "site")
    text = path.read_text()
    links = re.findall(r'href="([^"]+)"', re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL))
    files = {link for link in links if not link.startswith(("#", "data:"))}
    assert len(files) > 300 and all((path.parent / link).exists() for link in files)
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    assert len(ids) == len(set(ids)), "two elements share an id"
    assert "http://www.w3.org" in text and not re.search(r"(?:src|href)=[\"']?https?:", text)


def test_without_records_the_page_says_so_and_how_to_get_them(tmp_path: Path) -> None:
    nothing = {
        name: Results(Records(tmp_path / "none"), study.cells("cpu"), "cpu") for name, study in report.STUDIES.items()
    }
    text = page(nothing, tmp_path, "cpu")
    assert "make reproduce-atlas SCALE=cpu" in text and "python -m experiments sorting --scale cpu" in text
    assert "planned at scale=smoke and paper alone" in text and "experiments imagenet" not in text
    assert all(c.verdict == "not run" and c.n == "0" for found in claims(nothing).values() for c in found)
    assert not any(gap.found for name, found in gaps(nothing).items() for gap in found)


def test_claims_stand_on_records_of_their_study(results) -> None:
    for name, found in claims(results).items():
        known = set(results[name])
        assert all(place in known for claim in found for place in claim.evidence)
        assert all(claim.evidence or claim.verdict == "not run" for claim in found)


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        (["ahead by 1", "ahead by 2"], HOLDS),
        (["ahead by 1", "level (+0)"], PARTLY),
        (["behind by 1", "level (+0)"], FAILS),
        (["level (+0)"], LEVEL),
        (["+1.0 (too few runs to judge)"], FEW),
        (["behind by 1", "-2 (too few runs to judge)"], FAILS),
    ],
)
def test_a_claim_that_something_is_ahead(words: list[str], verdict: str) -> None:
    assert said(words) == verdict


def test_blocks_as_html() -> None:
    assert inline("a <b> `x*y*z`, **so** *it is* 2 * 3 * 4") == (
        "a &lt;b&gt; <code>x*y*z</code>, <strong>so</strong> <em>it is</em> 2 * 3 * 4"
    )
    assert pill("behind by 2") == '<span class="pill bad">behind</span> by 2'
    assert "does not hold</span> (one run)" in pill("does not hold (one run)")
    table = Html(ROOT, ROOT).table(Table(("row", "is"), [["one", "level (+0)"]]))
    assert '<th scope="row">one</th>' in table and 'class="pill mixed">level' in table
