// Lines that can be hovered and filtered, tips of heat maps, and the sorter. Nothing is loaded; all data is in the page.
const SVG = "http://www.w3.org/2000/svg";
const DASHES = ["", "8 3", "2 3", "9 3 2 3", "4 2"];
const tip = document.getElementById("tip");

function draw(parent, name, attributes = {}, text = "") {
  const node = parent.appendChild(document.createElementNS(SVG, name));
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text) node.textContent = text;
  return node;
}

function short(x) {
  for (const [size, unit] of [[1e9, " G"], [1e6, " M"], [1e3, " k"]]) if (Math.abs(x) >= size) return +(x / size).toPrecision(3) + unit;
  return String(+x.toPrecision(4));
}

const cut = (name) => (name.length > 34 ? name.slice(0, 18) + "…" + name.slice(-15) : name); // rows differ at their ends

function showTip(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(6, Math.min(x + 14, innerWidth - box.width - 6)) + "px";
  tip.style.top = (y - box.height - 12 < 6 ? y + 18 : y - box.height - 12) + "px";
}
const hideTip = () => { tip.hidden = true; };

function ticks(low, high, count) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((n) => n * power >= raw);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high * (1 + 1e-9) + 1e-12; k++) found.push(k * step);
  return found;
}

function logTicks(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) for (const n of [1, 2, 5]) found.push(n * 10 ** power);
  return found.filter((x) => x >= low && x <= high);
}

// Centres near where they are wanted, at least `size` apart, within 0..room
function spreadOut(wanted, size, room) {
  const at = [];
  wanted.forEach((want, i) => at.push(Math.max(want, i ? at[i - 1] + size : size / 2)));
  for (let i = at.length - 1, ceiling = room - size / 2; i >= 0; i--, ceiling = at[i + 1] - size) at[i] = Math.min(at[i], ceiling);
  return at;
}

// Rows that a crowded chart begins without: all but those that end highest, and the first one, which it is about.
function crowded(series) {
  if (series.length <= 12) return [];
  const end = (one) => one.points.at(-1)[1];
  const kept = new Set([series[0], ...[...series].sort((a, b) => end(b) - end(a)).slice(0, 7)]);
  return series.filter((one) => !kept.has(one)).map((one) => one.row);
}

function chart(figure) {
  const data = JSON.parse(figure.querySelector("script").textContent);
  const plot = figure.querySelector(".plot"), chips = figure.querySelector(".chips");
  const crowd = crowded(data.series), hidden = new Set(crowd);
  let shown = [], spot = null, frame = null;

  data.series.forEach((series) => {
    const chip = document.createElement("button");
    chip.type = "button";
    const swatch = draw(chip, "svg", { width: 18, height: 8, "aria-hidden": "true" });
    draw(swatch, "path", { d: "M0 4H18", stroke: `var(${series.colour})`, "stroke-width": 2.5, "stroke-dasharray": DASHES[series.dash % 5] });
    chip.append(series.row);
    chip.setAttribute("aria-pressed", "true");
    chip.onclick = () => { hidden.has(series.row) ? hidden.delete(series.row) : hidden.add(series.row); refresh(); };
    chip.onpointerenter = () => mark(series, null);
    chip.onpointerleave = () => mark(null);
    series.chip = chips.appendChild(chip);
  });
  if (data.series.length > 4) {
    const filter = document.createElement("input");
    filter.type = "search";
    filter.placeholder = "filter rows";
    filter.setAttribute("aria-label", "Show only rows whose name contains");
    filter.oninput = () => {
      const words = filter.value.trim().toLowerCase();
      data.series.forEach((s) => (s.row.toLowerCase().includes(words) ? hidden.delete(s.row) : hidden.add(s.row)));
      refresh();
    };
    chips.prepend(filter);
  }
  if (crowd.length) {
    const more = document.createElement("button");
    more.type = "button";
    more.className = "more";
    more.onclick = () => {
      const all = hidden.size > 0;
      hidden.clear();
      if (!all) crowd.forEach((row) => hidden.add(row));
      refresh();
    };
    chips.prepend(more);
  }

  function refresh() {
    data.series.forEach((series) => series.chip.setAttribute("aria-pressed", String(!hidden.has(series.row))));
    const more = chips.querySelector(".more");
    if (more) more.textContent = hidden.size ? `all ${data.series.length} lines` : `${data.series.length - crowd.length} lines`;
    render();
  }

  function render() {
    shown = data.series.filter((series) => !hidden.has(series.row));
    const width = plot.clientWidth, wide = width > 620;
    const room = wide ? Math.min(240, 26 + 6.8 * Math.max(0, ...shown.map((s) => cut(s.row).length))) : 14;
    const height = Math.max(width > 500 ? 400 : 320, wide ? shown.length * 16 + 70 : 0);
    const area = { left: 62, top: 30, right: width - room, bottom: height - 46 };
    const all = (shown.length ? shown : data.series).flatMap((s) => s.points);
    const [x0, x1] = data.xlim || [Math.min(...all.map((p) => p[0])), Math.max(...all.map((p) => p[0]))];
    let [y0, y1] = data.ylim || [Math.min(...all.map((p) => p[1] - p[2])), Math.max(...all.map((p) => p[1] + p[2]))];
    if (!data.ylim) { const margin = 0.04 * (y1 - y0 || 1); y0 -= margin; y1 += margin; }
    const f = data.log ? Math.log10 : (x) => x;
    const X = (x) => area.left + ((f(x) - f(x0)) / (f(x1) - f(x0) || 1)) * (area.right - area.left);
    const Y = (y) => area.bottom - ((y - y0) / (y1 - y0 || 1)) * (area.bottom - area.top);
    frame = { area, X, Y };

    plot.replaceChildren();
    const svg = draw(plot, "svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", tabindex: 0, "aria-label": `${data.label}. ${shown.length} lines; arrow keys read them point by point.` });
    const clip = `clip-${figure.id}`;
    draw(draw(svg, "clipPath", { id: clip }), "rect", { x: area.left - 4, y: area.top - 4, width: Math.max(0, area.right - area.left + 8), height: area.bottom - area.top + 8 });
    for (const y of ticks(y0, y1, 6)) {
      draw(svg, "path", { class: "grid", d: `M${area.left} ${Y(y)}H${area.right}` });
      draw(svg, "text", { x: area.left - 8, y: Y(y) + 4, "text-anchor": "end" }, short(+y.toPrecision(6)));
    }
    let last = -99;
    for (const x of data.log ? logTicks(x0, x1) : ticks(x0, x1, width > 500 ? 7 : 4)) {
      if (X(x) - last < 44) continue;
      draw(svg, "text", { x: (last = X(x)), y: area.bottom + 19, "text-anchor": "middle" }, short(x));
    }
    draw(svg, "text", { x: area.right, y: height - 9, "text-anchor": "end" }, data.x);
    draw(svg, "text", { x: 12, y: 18 }, data.y);
    for (const [label, y] of Object.entries(data.levels)) {
      draw(svg, "path", { class: "level", d: `M${area.left} ${Y(y)}H${area.right}` });
      draw(svg, "text", { x: area.left + 6, y: Y(y) + (y === Math.max(...Object.values(data.levels)) ? -5 : 14) }, label);
    }
    for (const series of shown) {
      series.node = draw(svg, "g", { class: "row", "clip-path": `url(#${clip})`, "data-row": series.row });
      const points = series.points.map((p) => [X(p[0]), Y(p[1]), Y(p[1] - p[2]), Y(p[1] + p[2])]);
      const edge = [...points.map((p) => [p[0], p[3]]), ...points.map((p) => [p[0], p[2]]).reverse()];
      draw(series.node, "path", { class: "band", style: `fill:var(${series.colour})`, d: "M" + edge.map((p) => p.map((v) => v.toFixed(1)).join(" ")).join("L") + "Z" });
      draw(series.node, "path", { style: `stroke:var(${series.colour})`, "stroke-dasharray": DASHES[series.dash % 5], d: "M" + points.map((p) => `${p[0].toFixed(1)} ${p[1].toFixed(1)}`).join("L") });
      series.name = null;
    }
    if (wide) names(svg, area, X, Y);
    const dot = draw(svg, "circle", { r: 4.5, fill: "none", "stroke-width": 2.5, visibility: "hidden" });
    svg.onpointermove = (event) => near(event, svg, dot);
    svg.onpointerleave = () => { mark(null); dot.setAttribute("visibility", "hidden"); hideTip(); };
    svg.onblur = svg.onpointerleave;
    svg.onkeydown = (event) => step(event, svg, dot);
  }

  function names(svg, area, X, Y) {
    const inside = (y) => Math.max(0, Math.min(Y(y) - area.top, area.bottom - area.top));
    const order = [...shown].sort((a, b) => inside(a.points.at(-1)[1]) - inside(b.points.at(-1)[1]));
    const at = spreadOut(order.map((s) => inside(s.points.at(-1)[1])), 16, Math.max(area.bottom - area.top, order.length * 16));
    order.forEach((series, i) => {
      const end = series.points.at(-1), y = area.top + at[i];
      series.name = draw(svg, "g", { class: "name" });
      const x = Math.min(X(end[0]), area.right);
      draw(series.name, "path", { d: `M${x + 3} ${area.top + inside(end[1])}L${area.right + 12} ${y}`, style: `stroke:var(${series.colour});fill:none` });
      draw(series.name, "text", { x: area.right + 16, y: y + 4, class: "label" }, cut(series.row));
    });
  }

  function mark(series) {
    plot.classList.toggle("hovering", Boolean(series));
    for (const one of shown) for (const node of [one.node, one.name]) node?.classList.toggle("on", one === series);
  }

  function point(series, index, svg, dot) {
    const p = series.points[index], x = frame.X(p[0]), y = Math.max(frame.area.top, Math.min(frame.Y(p[1]), frame.area.bottom));
    spot = { series, index };
    mark(series);
    dot.setAttribute("cx", x);
    dot.setAttribute("cy", y);
    dot.setAttribute("visibility", "visible");
    dot.style.stroke = `var(${series.colour})`;
    const box = svg.getBoundingClientRect(), spread = p[3] > 1 ? ` ± ${short(p[2])}` : "";
    showTip(`${series.row}: ${short(p[1])}${spread} at ${short(p[0])} ${data.x} (${p[3]} seed${p[3] > 1 ? "s" : ""})`, box.left + x, box.top + y);
  }

  function near(event, svg, dot) {
    const box = svg.getBoundingClientRect(), mx = event.clientX - box.left, my = event.clientY - box.top;
    let best = null, least = Infinity;
    for (const series of shown) series.points.forEach((p, index) => {
      const distance = (frame.X(p[0]) - mx) ** 2 + (frame.Y(p[1]) - my) ** 2;
      if (distance < least) { least = distance; best = [series, index]; }
    });
    if (best) point(...best, svg, dot);
  }

  function step(event, svg, dot) {
    const turn = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (!turn || !shown.length) return;
    event.preventDefault();
    const row = spot && shown.includes(spot.series) ? (shown.indexOf(spot.series) + turn[0] + shown.length) % shown.length : 0;
    const index = spot ? spot.index + turn[1] : 0;
    point(shown[row], Math.max(0, Math.min(index, shown[row].points.length - 1)), svg, dot);
  }

  let width = 0;
  new ResizeObserver(() => { if (plot.clientWidth && plot.clientWidth !== width) { width = plot.clientWidth; refresh(); } }).observe(plot);
}

function heat(figure) {
  const cells = [...figure.querySelectorAll(".cell")];
  if (cells.length) cells[0].tabIndex = 0;
  const tell = (cell) => { const box = cell.getBoundingClientRect(); showTip(cell.dataset.tip, box.left + box.width / 2 - 14, box.top); };
  for (const cell of cells) {
    cell.onpointerenter = cell.onfocus = () => tell(cell);
    cell.onpointerleave = cell.onblur = hideTip;
    cell.onkeydown = (event) => {
      const row = cell.parentNode, column = cell.cellIndex;
      const line = { ArrowUp: row.previousElementSibling, ArrowDown: row.nextElementSibling }[event.key];
      const next = { ArrowLeft: cell.previousElementSibling, ArrowRight: cell.nextElementSibling }[event.key] || line?.cells[column];
      if (!next?.classList.contains("cell")) return;
      event.preventDefault();
      cell.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    };
  }
}

function sorter() {
  const stored = document.getElementById("sorter-net");
  if (!stored) return;
  const net = JSON.parse(stored.textContent), field = document.getElementById("numbers"), said = document.getElementById("sorted");
  const picture = document.getElementById("sorting-picture");

  function sort() {
    const words = field.value.split(/[\s,;]+/).filter(Boolean), numbers = words.map(Number);
    picture.replaceChildren();
    if (numbers.length !== net.length || !numbers.every(Number.isFinite)) {
      said.textContent = `Give ${net.length} numbers, separated by spaces or commas; these are ${words.length}${numbers.every(Number.isFinite) ? "" : ", not all of them numbers"}.`;
      return;
    }
    const low = Math.min(...numbers), high = Math.max(...numbers), fits = low >= 0 && high <= 1;
    const scaled = fits ? numbers : numbers.map((x) => 0.05 + (0.9 * (x - low)) / (high - low || 1));
    const { code, order } = sortWith(net, scaled);
    const sorted = order.map((i) => numbers[i]), right = sorted.every((x, i) => x === [...numbers].sort((a, b) => a - b)[i]);
    said.textContent = `Sorted: ${order.map((i) => words[i]).join(", ")}. ` + (right ? "All places are right." : "Not right: it cannot tell numbers this close apart.") + (fits ? "" : " (Brought between 0 and 1 first.)");
    show(words, order, code, right);
  }

  function show(words, order, code, right) {
    const width = Math.max(320, Math.min(picture.clientWidth, 700)), lines = width < 500 ? 4 : 2;
    const at = (i) => 112 + (i * (width - 148)) / (words.length - 1);
    const svg = draw(picture, "svg", { viewBox: `0 0 ${width} 232`, width, role: "img", "aria-label": `Input ${words.join(", ")}; output ${order.map((i) => words[i]).join(", ")}; between them ${code.length} hard units, drawn as squares.` });
    for (const [y, label] of [[35, "typed"], [118, "hard code"], [207, "sorted"]]) draw(svg, "text", { x: 14, y, class: "quiet" }, label);
    order.forEach((from, place) => {
      draw(svg, "text", { x: at(from), y: 36 }, words[from]);
      draw(svg, "path", { d: `M${at(from)} 46C${at(from)} 130 ${at(place)} 100 ${at(place)} 186`, fill: "none", stroke: right ? "var(--accent)" : "var(--soft)", "stroke-width": 2, opacity: 0.55 });
      draw(svg, "text", { x: at(place), y: 208 }, words[from]);
    });
    const across = Math.ceil(code.length / lines), size = (width - 110) / across;
    code.forEach((value, i) => draw(svg, "rect", {
      x: 90 + (i % across) * size, y: 116 + (Math.floor(i / across) - lines / 2) * size, width: size - 2, height: size - 2, rx: 2,
      style: `fill:${value > 0 ? "var(--ink)" : value < 0 ? "var(--panel)" : "var(--line)"};stroke:var(--soft)`,
    }));
  }

  document.getElementById("sorter-form").onsubmit = (event) => { event.preventDefault(); sort(); };
  field.oninput = sort;
  document.getElementById("shuffle").onclick = () => { field.value = Array.from({ length: net.length }, () => Math.random().toFixed(2)).join(", "); sort(); };
  sort();
}

// A link into a closed study opens it.
function open() {
  const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  target?.closest?.("details.study")?.setAttribute("open", "");
}

document.querySelectorAll("figure.lines").forEach(chart);
document.querySelectorAll("figure.heat").forEach(heat);
sorter();
addEventListener("hashchange", open);
addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
addEventListener("scroll", hideTip, { passive: true });
open();
