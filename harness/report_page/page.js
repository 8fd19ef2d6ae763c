"use strict";
// Texts of a submission are set as text nodes, so they are never parsed as markup.

const data = JSON.parse(document.getElementById("data").textContent);

// ---- elements

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(3)) if (child !== null && child !== undefined) node.append(child);
  return node;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const g = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);
const badge = (word) => h("span", { class: `badge ${word}` }, word);
const facts = (pairs) => h("dl", { class: "facts" },
  pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));

function short(number, digits = 3) {
  if (typeof number !== "number") return number ?? "";
  const size = Math.abs(number);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return number.toExponential(digits - 1);
  return String(Number(number.toPrecision(digits)));
}
const whole = (number) => number.toLocaleString("en-US");
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

function copyable(text) {
  const code = h("code", {}, text);
  const button = h("button", { type: "button", onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "copied";
    } catch {
      // Without access to the clipboard, select the text for Ctrl-C.
      getSelection().selectAllChildren(code);
    }
  } }, "copy");
  return h("span", { class: "row" }, code, button);
}

// ---- light and dark

const root = document.documentElement;
const redraws = new Set();
function settle(theme) {
  if (theme) root.dataset.theme = theme;
  else delete root.dataset.theme;
  redraws.forEach((redraw) => redraw());
}
const darkNow = () => root.dataset.theme
  ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
document.getElementById("theme").addEventListener("click", () => {
  const theme = darkNow() ? "light" : "dark";
  settle(theme);
  try { localStorage.setItem("theme", theme); } catch { /* a page from a file may have no storage */ }
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => settle(root.dataset.theme));
try { settle(localStorage.getItem("theme")); } catch { /* no storage */ }

const probe = h("span", { hidden: true });
document.body.append(probe);
function colour(name) {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
}

// ---- tables: a click on a column's header sorts by it; another click reverses the order

function sortable(table) {
  const headers = [...table.tHead.rows[0].cells];
  headers.forEach((header, column) => {
    header.querySelector("button")?.addEventListener("click", () => {
      const descending = header.getAttribute("aria-sort") === "ascending";
      headers.forEach((other) => other.removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.key ?? "";
      const compare = (one, two) => {
        const [a, b] = [key(one), key(two)];
        // Unknown values come last in both orders.
        if (a === "" || b === "") return (a === "") - (b === "");
        const numbers = [Number(a), Number(b)];
        const order = numbers.some(Number.isNaN) ? a.localeCompare(b) : numbers[0] - numbers[1];
        return descending ? -order : order;
      };
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort(compare));
    });
  });
  return table;
}
const heading = (text, title, kind = "left") => h("th", { scope: "col", class: kind },
  h("button", { type: "button", title: title ?? "sort" }, text));
const cell = (content, key, kind) => h("td", { class: kind, "data-key": key ?? "" }, content);
const wide = (label, ...children) =>
  h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": label }, ...children);
document.querySelectorAll("table.sortable").forEach(sortable);

// ---- charts

function logarithmic(low, high, from, to) {
  const [start, end] = [Math.log10(low), Math.log10(high)];
  const place = (value) =>
    Math.round((from + (Math.log10(value) - start) / (end - start) * (to - from)) * 10) / 10;
  const ticks = [];
  const factors = end - start > 3 ? [1] : [1, 2, 5];
  for (let power = Math.floor(start); power <= Math.ceil(end); power++)
    for (const factor of factors) {
      const value = factor * 10 ** power;
      if (value >= low && value <= high) ticks.push(value);
    }
  return { place, ticks };
}
const drawing = (title, text, width, height, ...children) => h("div", { class: "chart" },
  g("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img" },
    g("title", {}, title), g("desc", {}, text), ...children));
const line = (kind, x1, y1, x2, y2, more) => g("line", { class: kind, x1, y1, x2, y2, ...more });
const label = (text, x, y, anchor, kind) =>
  g("text", { x, y, "text-anchor": anchor, class: kind }, text);
const cut = (text, most) => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);

// Times of contenders, fastest first; the axis begins at the floor or below it.
function timesChart({ title, marks, floor }) {
  const [width, left, right, top, row] = [860, 230, 130, 30, 24];
  const rows = [...marks].sort((one, two) => one.value - two.value);
  const low = Math.min(floor, ...rows.map((mark) => mark.low)) * 0.89;
  const high = Math.max(...rows.map((mark) => mark.high)) * 1.12;
  const axis = logarithmic(low, high, left, width - right);
  const bottom = top + rows.length * row;
  const at = axis.place(floor);
  return drawing(title,
    [`floor ${short(floor)} ms`, ...rows.map((mark) => `${mark.name} ${mark.text} ms`)].join("; "),
    width, bottom + 34,
    axis.ticks.map((tick) => [
      line("grid", axis.place(tick), 26, axis.place(tick), bottom),
      label(short(tick), axis.place(tick), bottom + 16, "middle"),
    ]),
    label("ms, logarithmic", width - right, bottom + 30, "end"),
    line("floor", at, 22, at, bottom),
    label(`floor ${short(floor)} ms`, at, 15, "start", "floor-label"),
    rows.map((mark, place) => {
      const [x, y] = [axis.place(mark.value), top + (place + 0.5) * row];
      const own = mark.kind === "submission" ? "own" : "";
      return g("g", { class: "mark", "data-name": mark.name, "data-x": x },
        label(cut(mark.name, 28), left - 14, y + 4, "end", own),
        line("grid", at, y, x, y),
        line(mark.kind, axis.place(mark.low), y, axis.place(mark.high), y, { "stroke-width": 2 }),
        own ? g("circle", { class: mark.kind, cx: x, cy: y, r: 5 })
          : g("rect", { class: mark.kind, x: x - 4, y: y - 4, width: 8, height: 8 }),
        label(mark.text, width - right + 10, y + 4, "start", own));
    }));
}

// Horizontal places of rounds, including discarded ones, shared by the two charts below.
const ROUNDS = { width: 860, left: 70, right: 840 };
const roundsOf = (speed) => (speed.looks.length ? speed.looks
  : speed.samples.map(() => [null, [], true]));
const placeOf = (speed, number) =>
  ROUNDS.left + (number + 0.5) / roundsOf(speed).length * (ROUNDS.right - ROUNDS.left);

// All samples in the order of the rounds, with the interval of the median.
function samplesChart(speed) {
  const { samples } = speed;
  const [width, height, left, top, bottom] = [ROUNDS.width, 190, ROUNDS.left, 12, 160];
  const own = speed.chart.marks[0];
  const [low, high] = [Math.min(...samples), Math.max(...samples)];
  const room = (high - low || high * 0.01) * 0.1;
  const y = (value) => bottom - (value - low + room) / (high - low + 2 * room) * (bottom - top);
  const kept = roundsOf(speed).flatMap(([, , isCounted], at) => (isCounted ? [at] : []));
  return drawing("Samples in the order of the rounds", `${samples.length} samples in ms`,
    width, height,
    g("rect", { class: "interval", x: left, y: y(own.high), width: width - left - 20,
      height: Math.max(y(own.low) - y(own.high), 1), fill: "currentColor", opacity: 0.12 }),
    [low, own.value, high].map((value) => [
      line("grid", left, y(value), width - 20, y(value)),
      label(short(value, 5), left - 6, y(value) + 4, "end", "small"),
    ]),
    samples.map((sample, number) => g("circle",
      { class: "submission", cx: placeOf(speed, kept[number]), cy: y(sample), r: 3 },
      g("title", {}, `round ${kept[number] + 1}: ${short(sample, 5)} ms`))),
    label("round", width - 20, height - 8, "end", "small"));
}

// The clock after each round, with the reasons that limited it below, on the axis of the samples.
function clocksChart(speed) {
  const { looks } = speed;
  if (!looks.length) return null;
  const reasons = [...new Set(looks.flatMap(([, held]) => held))];
  const clocks = looks.map(([clock]) => clock);
  const [low, high] = [Math.min(...clocks), Math.max(...clocks)];
  const [top, bottom, row] = [26, 96, 24];
  const { width, left, right } = ROUNDS;
  const room = Math.max((high - low) * 0.1, high * 0.01);
  const y = (clock) => bottom - (clock - low + room) / (high - low + 2 * room) * (bottom - top);
  const step = (right - left) / looks.length;
  const thrown = looks.filter(([, , isCounted]) => !isCounted).length;
  const said = ([clock, held, isCounted], at) => `round ${at + 1}: ${short(clock, 4)} MHz` +
    (held.length ? `; held down by ${held.join(", ")}` : "") + (isCounted ? "" : "; thrown away");
  const head = bottom + 16;
  return drawing("Clock of the multiprocessors after each round", [`${short(low, 4)} to ` +
    `${short(high, 4)} MHz`, `${plural(thrown, "round")} thrown away`,
  ...reasons.map((reason) => `${reason} in ${plural(looks.filter(([, held]) =>
    held.includes(reason)).length, "round")}`)].join("; "),
  width, head + row * reasons.length + 6,
  [...new Set([low, high])].map((clock) => [line("grid", left, y(clock), right, y(clock)),
    label(short(clock, 4), left - 6, y(clock) + 4, "end", "small")]),
  label("MHz after each round; what was thrown away is red", left, 14, "start", "small"),
  g("polyline", { class: "step", points: clocks.map((clock, at) =>
    `${placeOf(speed, at)},${y(clock)}`).join(" ") }),
  looks.map((look, at) => g("circle", { class: `clock ${look[2] ? "submission" : "dot wrong"}`,
    cx: placeOf(speed, at), cy: y(look[0]), r: 3 }, g("title", {}, said(look, at)))),
  reasons.map((reason, at) => [
    label(reason, left, head + row * at + 11, "start", "small"),
    looks.map(([, held, isCounted], number) => (held.includes(reason) ? g("rect",
      { class: `held ${isCounted ? "dot bf16" : "dot wrong"}`, x: placeOf(speed, number) - step / 2,
        y: head + row * at + 14, width: Math.max(step - 1, 1), height: 3 },
      g("title", {}, `round ${number + 1}: ${reason}`)) : null)),
  ]));
}

function roofline(speed) {
  if (!speed.flops || !speed.bytes) return null;
  const [width, height, left, top, right, bottom] = [860, 320, 70, 14, 840, 280];
  const intensity = speed.flops / speed.bytes;
  const rate = (milliseconds) => speed.flops / milliseconds / 1e9;
  const slope = speed.bandwidth_gbs / 1e3;
  // The floor is the larger of two times. If it exceeds the time of moving the bytes, it is the
  // time of the arithmetic, and the roofline gets a ceiling.
  const ceiling = rate(speed.chart.floor) < 0.98 * slope * intensity ? rate(speed.chart.floor) : null;
  const rates = speed.chart.marks.map((mark) => rate(mark.value));
  const most = Math.max(ceiling ?? slope * intensity, ...rates) * 2;
  const xs = logarithmic(Math.min(1, intensity / 4), intensity * 8, left, right);
  const ys = logarithmic(Math.min(...rates) / 2, most, bottom, top);
  const first = Math.min(1, intensity / 4);
  const start = Math.max(first, Math.min(...rates) / 2 / slope);
  const knee = Math.min(ceiling ? ceiling / slope : intensity * 8, most / slope, intensity * 8);
  return drawing("Roofline", `${short(intensity)} operations a byte; ${speed.chart.marks
    .map((mark) => `${mark.name} ${short(rate(mark.value))} TFLOP/s`).join("; ")}`, width, height,
    xs.ticks.map((tick) => [line("grid", xs.place(tick), top, xs.place(tick), bottom),
      label(short(tick), xs.place(tick), bottom + 16, "middle", "small")]),
    ys.ticks.map((tick) => [line("grid", left, ys.place(tick), right, ys.place(tick)),
      label(short(tick), left - 6, ys.place(tick) + 4, "end", "small")]),
    label("operations a byte", right, bottom + 32, "end", "small"),
    label("TFLOP/s", left + 4, top + 10, "start", "small"),
    line("floor", xs.place(start), ys.place(start * slope), xs.place(knee), ys.place(knee * slope)),
    ceiling ? [line("floor", xs.place(knee), ys.place(ceiling), right, ys.place(ceiling)),
      label("fastest arithmetic", right - 4, ys.place(ceiling) - 5, "end", "floor-label")] : null,
    label(`${whole(Math.round(speed.bandwidth_gbs))} GB/s`, xs.place(start) + 10,
      ys.place(start * slope) - 12, "start", "floor-label"),
    [...speed.chart.marks].reverse().map((mark) => {
      const [x, y] = [xs.place(intensity), ys.place(rate(mark.value))];
      const what = g("title", {}, `${mark.name}: ${short(rate(mark.value))} TFLOP/s`);
      return mark.kind === "submission"
        ? [g("circle", { class: mark.kind, cx: x, cy: y, r: 6 }, what),
          label(`${cut(mark.name, 28)}, ${short(rate(mark.value))}`, x + 12, y + 4, "start", "own")]
        : g("rect", { class: mark.kind, x: x - 4, y: y - 4, width: 8, height: 8 }, what);
    }));
}

const MOST_ERROR = 1e7;

// Largest errors as multiples of the bound, case by case, with the limits of each class.
function numericsChart(entry) {
  const cases = entry.cases.filter((each) => each.errors);
  const errors = cases.flatMap((each) => each.errors).filter((error) => error > 0);
  if (!errors.length) return null;
  const limits = cases.flatMap((each) => each.limits ?? []);
  const [width, height, left, right, top, bottom] = [860, 330, 70, 790, 14, 296];
  const low = Math.max(Math.min(0.1, ...errors) / 2, 1e-5);
  const high = Math.min(Math.max(10, ...errors, ...limits) * 2, 2 * MOST_ERROR);
  const axis = logarithmic(low, high, bottom, top);
  const y = (value) => axis.place(Math.min(Math.max(value, low), Math.min(high, MOST_ERROR)));
  const x = (number) => left + (number + 0.5) / cases.length * (right - left);
  const half = (right - left) / cases.length / 2;
  const names = data.classes.slice(1);
  const last = [...cases].reverse().find((each) => each.limits)?.limits ?? [];
  return drawing("Largest error of each run as a multiple of the fp32 bound",
    `${cases.length} cases, the worst ${short(entry.worst)}`, width, height,
    axis.ticks.map((tick) => [line("grid", left, y(tick), right, y(tick)),
      label(short(tick), left - 6, y(tick) + 4, "end", "small")]),
    line("floor", left, y(1), right, y(1)), label("fp32", right + 6, y(1) + 4, "start", "small"),
    last.map((limit, which) => limit < high
      ? label(names[which], right + 6 + 26 * (which % 2), y(limit) + 4, "start", "small") : null),
    cases.map((each, number) => (each.limits ?? []).map((limit) => limit < high
      ? line("limit", x(number) - half, y(limit), x(number) + half, y(limit)) : null)),
    cases.map((each, number) => each.errors.map((error, run) => {
      if (!(error > 0)) return null;
      const wrong = each.wrong?.includes(run);
      const kind = wrong ? "wrong" : error <= 1 ? "" : each.class ?? "";
      return g("circle", { class: `dot ${kind}`, cx: x(number), cy: y(error), r: wrong ? 3.5 : 2.2 },
        g("title", {}, `${each.id}, ${entry.runs[run]}: ${short(error)}`));
    })),
    label("cases in the grid's order", right, height - 12, "end", "small"));
}

function historyChart(history) {
  const timed = history.every((version) => version.time);
  const value = (version) => (timed ? version.time.value : version.instructions);
  const known = history.filter((version) => value(version) > 0);
  if (known.length < 2) return null;
  const [width, height, left, right, top, bottom] = [860, 220, 80, 830, 16, 170];
  const values = known.map(value);
  const axis = logarithmic(Math.min(...values) / 1.3, Math.max(...values) * 1.3, bottom, top);
  const x = (number) => left + (number + 0.5) / known.length * (right - left);
  const unit = timed ? "ms" : "instructions of warps";
  return drawing(`Versions by ${unit}`, known.map((v) => `${v.hash} ${value(v)}`).join("; "),
    width, height,
    axis.ticks.map((tick) => [line("grid", left, axis.place(tick), right, axis.place(tick)),
      label(short(tick), left - 6, axis.place(tick) + 4, "end", "small")]),
    label(unit, left, 12, "start", "small"),
    g("polyline", { class: "step",
      points: known.map((version, number) => `${x(number)},${axis.place(value(version))}`).join(" ") }),
    known.map((version, number) => [
      g("circle", { class: "submission", cx: x(number), cy: axis.place(value(version)), r: 4 },
        g("title", {}, `${version.commit || version.hash}: ${short(value(version), 5)} ${unit}`)),
      label(version.commit || version.hash.slice(0, 7), x(number), bottom + 18, "middle", "small"),
      label(version.change?.outcome ?? "", x(number), bottom + 34, "middle", "small"),
    ]));
}

document.querySelectorAll("[data-chart]").forEach((place) =>
  place.append(timesChart(data.charts[Number(place.dataset.chart)])));

// ---- maps of outputs

const SAYS = {
  ".": "within the fp32 bound", t: "within the tf32 bound", h: "within the fp16 bound",
  b: "within the bf16 bound", i: "infinite", n: "NaN", u: "never written", o: "out of bounds",
  " ": "no element",
};
const ODD = "inuo";
const IS_WRONG = /[0-9inuo]/;
const says = (code) => SAYS[code] ?? (code === "9" ? "wrong by 512 bf16 bounds or more"
  : `wrong by ${2 ** code} to ${2 ** (Number(code) + 1)} bf16 bounds`);
const PARTS = ["up to 1/64", "up to 1/16", "up to 1/8", "up to 1/2", "up to all", "beyond all"];
function saysLevel(level) {
  if (ODD.includes(level)) return SAYS[level];
  const size = level === "." ? 0 : "abcde".indexOf(level.toLowerCase()) + 1;
  const sign = level === "." ? "" : level === level.toUpperCase() ? "negative, " : "positive, ";
  return `${sign}${PARTS[size]} of the largest expected value`;
}

// Colours of the maps' codes (harness/records/picture.py): wrong elements go from m-low to m-high
// with the error; values go from m-right to v-low or v-high with their size.
function palette() {
  const mix = (one, two, share) =>
    `rgb(${one.map((part, at) => Math.round(part + (two[at] - part) * share)).join()})`;
  const [low, high, right] = [colour("m-low"), colour("m-high"), colour("m-right")];
  const plain = (name) => mix(colour(name), colour(name), 0);
  const odd = { i: plain("m-inf"), n: plain("m-nan"), u: plain("m-gap"), o: plain("m-oob") };
  const errors = { ".": plain("m-right"), t: plain("m-class"), h: plain("m-class"),
    b: plain("m-class"), ...odd };
  for (let digit = 0; digit < 10; digit++) errors[digit] = mix(low, high, digit / 9);
  const levels = { ".": plain("m-right"), ...odd };
  [..."abcde"].forEach((level, at) => {
    levels[level] = mix(right, colour("v-high"), (at + 1) / 5);
    levels[level.toUpperCase()] = mix(right, colour("v-low"), (at + 1) / 5);
  });
  return { errors, levels, edge: plain("m-out"), grid: plain("faint") };
}

// Draw rows of codes. The cursor's cell has a border, and lines separate the tiles.
function paint(canvas, rows, colours, size, shades, cursor, tiles) {
  const [width, height] = [rows[0].length * size, rows.length * size];
  const scale = devicePixelRatio || 1;
  if (canvas.width !== width * scale) canvas.width = width * scale;
  if (canvas.height !== height * scale) canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.font = `${Math.round(size * 0.6)}px ui-monospace, monospace`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  const gap = size > 6 ? 1 : 0;
  pen.clearRect(0, 0, width, height);
  rows.forEach((row, y) => [...row].forEach((code, x) => {
    if (code === " ") return;
    pen.fillStyle = colours[code] ?? shades.edge;
    pen.fillRect(x * size, y * size, size - gap, size - gap);
    if (size >= 15 && ODD.includes(code)) {
      pen.fillStyle = "#fff";
      pen.fillText(code, (x + 0.5) * size, (y + 0.5) * size);
    }
  }));
  pen.strokeStyle = shades.grid;
  for (const x of tiles) {
    pen.beginPath();
    pen.moveTo(x * size - 0.5, 0);
    pen.lineTo(x * size - 0.5, height);
    pen.stroke();
  }
  if (cursor) {
    pen.strokeStyle = shades.edge;
    pen.lineWidth = 2;
    pen.strokeRect(cursor[1] * size, cursor[0] * size, size - gap, size - gap);
    pen.lineWidth = 1;
  }
}

const AXES = { 1: ["position"], 2: ["row", "position"], 3: ["batch", "channel", "position"] };

function unravel(number, shape) {
  const index = [];
  for (const size of [...shape].reverse()) {
    index.unshift(number % size);
    number = Math.floor(number / size);
  }
  return index;
}

// Maps of one wrong output: error, the diagnosed mistake's error, expected and actual values. All
// of them show the same part, and share one cursor and one readout.
function mapsOf(each, picture) {
  const { shape } = picture;
  const axes = AXES[shape.length] ?? shape.map((_, at) => `dimension ${at}`);
  const known = new Map(picture.elements.map((element) => [element.index.join(), element]));
  const state = {
    view: picture.detail ? "detail" : "overview", page: 0, cursor: [0, 0], tile: 0, block: 0,
  };
  const views = picture.detail ? ["detail", "overview"] : ["overview"];
  const maps = [
    ["errors", "error over bound", "errors"],
    ["mistake", `error of “${picture.mistake}”`, "errors"],
    ["expected", "expected values", "levels"],
    ["actual", "actual values", "levels"],
  ].filter(([name]) => picture.overview[name].length).map(([name, title, kind]) => {
    const canvas = h("canvas", { tabindex: 0, role: "img", "aria-label":
      `${title} of ${each.id}; arrow keys move over its cells`, "data-map": name });
    return { name, kind, canvas, figure: h("figure", {}, canvas, h("figcaption", {}, title)) };
  });
  const readout = h("div", { class: "readout", role: "status" });
  const pages = h("select", { "aria-label": "page" });
  const stride = Number(each.stride) > 1 ? Number(each.stride) : 0;

  function say(view) {
    const [r, c] = state.cursor;
    const from = [view.first[0] + r * view.step[0], view.first[1] + c * view.step[1]];
    const to = [0, 1].map((at) =>
      Math.min(from[at] + view.step[at], shape.at(at - 2) ?? 1) - 1);
    const near = shape.length ? from.slice(-Math.min(shape.length, 2)) : [];
    const index = [...unravel(view.pages[state.page], shape.slice(0, -2)), ...near];
    const single = view.step[0] === 1 && view.step[1] === 1;
    const span = (at) => (from[at] === to[at] ? from[at] : `${from[at]} to ${to[at]}`);
    const words = shape.length ? index.map((value, at) => {
      const last = at - shape.length + 2;
      return `${axes[at]} ${last >= 0 ? span(last) : value}`;
    }) : ["the only number"];
    const position = [];
    if (stride && single) position.push(`position mod stride ${stride} = ${from[1] % stride}`);
    if (state.tile > 1) position.push(`tile ${Math.floor(from[1] / state.tile)}, ` +
      `${from[1] % state.tile} in it`);
    // The block and thread of a kernel in which each thread has one element, in memory order.
    if (state.block > 1 && single) {
      const flat = index.reduce((sum, value, at) => sum * shape[at] + value, 0);
      position.push(`block ${Math.floor(flat / state.block)}, thread ${flat % state.block}`);
    }
    const code = (name) => view[name][state.page]?.[r]?.[c];
    const element = single ? known.get(index.join()) : undefined;
    const numbers = element
      ? `expected ${element.expected}, got ${element.actual}` +
        (element.mistake === null ? "" : `, the mistake gives ${element.mistake}`) +
        (typeof element.error === "number" ? `; ${short(element.error)} times the fp32 bound` : "")
      : `expected: ${saysLevel(code("expected"))}; got: ${saysLevel(code("actual"))}`;
    const is = code("errors");
    const outside = shape.length > 0 && near.some((value, at) =>
      value < 0 || value >= shape.at(at - near.length));
    const place = `[${words.join(", ")}]`;
    if (outside || is === " ") {
      // Elements written before or behind the output are drawn as further rows of it.
      const columns = shape.at(-1) ?? 1;
      const at = (view.pages[state.page] * (shape.at(-2) ?? 1) + from[0]) * columns + from[1];
      const size = shape.reduce((a, b) => a * b, 1);
      const where = at < 0 ? `${-at} before the output's start`
        : `${at - size + 1} behind the output's end`;
      readout.replaceChildren(h("strong", {}, !outside ? `${place}: no element`
        : is === "o" ? `written beside the output: element ${where}` : "nothing there"));
      return;
    }
    readout.replaceChildren(h("strong", {}, `${place}: ${says(is)}`),
      h("div", {}, [...position, numbers].join("; ")));
  }

  function draw() {
    const view = picture[state.view];
    state.page = Math.min(state.page, view.pages.length - 1);
    const rows = view.errors[state.page];
    state.cursor = [Math.min(state.cursor[0], rows.length - 1),
      Math.min(state.cursor[1], rows[0].length - 1)];
    const size = Math.max(5, Math.min(26, Math.floor(560 / rows[0].length)));
    const shades = palette();
    const tiles = [];
    if (state.tile > 1 && view.step[1] === 1)
      for (let x = 1; x < rows[0].length; x++)
        if ((view.first[1] + x) % state.tile === 0) tiles.push(x);
    // A cell without an element is empty, unless something was written out of bounds there.
    const actual = view.actual[state.page];
    const isThere = (name, r, c) => rows[r][c] !== " " && !(name === "expected" && actual[r][c] === "o");
    const shown = (name) => view[name][state.page].map((codes, r) =>
      [...codes].map((code, c) => (isThere(name, r, c) ? code : " ")).join(""));
    for (const { name, kind, canvas } of maps)
      paint(canvas, shown(name), shades[kind], size, shades, state.cursor, tiles);
    pages.replaceChildren(...view.pages.map((page, at) => h("option",
      { value: at, selected: at === state.page },
      axes.slice(0, -2).map((axis, k) => `${axis} ${unravel(page, shape.slice(0, -2))[k]}`).join(", "))));
    pages.hidden = view.pages.length < 2;
    say(view);
  }

  function move(rows, columns) {
    const [r, c] = state.cursor;
    const shown = picture[state.view].errors[state.page];
    state.cursor = [Math.max(0, Math.min(shown.length - 1, r + rows)),
      Math.max(0, Math.min(shown[0].length - 1, c + columns))];
    draw();
  }
  const arrows = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  for (const { canvas } of maps) {
    canvas.addEventListener("keydown", (event) => {
      if (!arrows[event.key]) return;
      event.preventDefault();
      move(...arrows[event.key]);
    });
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      const rows = picture[state.view].errors[state.page];
      state.cursor = [0, 0];
      move(Math.floor((event.clientY - box.top) / box.height * rows.length),
        Math.floor((event.clientX - box.left) / box.width * rows[0].length));
    });
  }
  const sizeOf = (what, of) => h("label", {}, `${what} of `, h("input", { type: "number", min: 0,
    max: 65536, step: 1, value: 0, "aria-label": `${of} in a ${what}`, oninput: (event) => {
      state[what] = Number(event.target.value);
      draw();
    } }), ` ${of}`);
  pages.addEventListener("change", () => { state.page = Number(pages.value); draw(); });
  // Start at the first wrong cell.
  const first = picture[state.view].errors[0];
  const row = Math.max(0, first.findIndex((codes) => IS_WRONG.test(codes)));
  state.cursor = [row, Math.max(0, first[row].search(IS_WRONG))];
  redraws.add(draw);
  draw();
  const seen = new Set(views.flatMap((name) => [picture[name].errors, picture[name].mistake])
    .flat(2).flatMap((codes) => [...codes]));
  return [
    h("div", { class: "row" },
      views.length > 1 ? h("select", { "aria-label": "part", onchange: (event) => {
        state.view = event.target.value;
        state.page = 0;
        state.cursor = [0, 0];
        draw();
      } }, views.map((name) => h("option", { value: name }, name === "overview"
        ? `all of it, ${picture.overview.step.join(" by ")} elements a cell`
        : "around the first wrong element"))) : null,
      pages,
      sizeOf("tile", "positions"), sizeOf("block", "elements")),
    h("div", { class: "maps" }, maps.map(({ figure }) => figure)),
    readout, legend(seen),
    picture.elements.length === 0 ? null : h("details", {}, h("summary", {}, `${picture.elements.length} numbers of it`),
      wide("numbers", h("table", {},
        h("thead", {}, h("tr", {}, ["index", "expected", "actual", "the mistake gives",
          "times the fp32 bound"].map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, picture.elements.map((element) => h("tr", {},
          h("td", {}, `[${element.index.join(", ")}]`), h("td", {}, element.expected),
          h("td", {}, element.actual), h("td", {}, element.mistake ?? ""),
          h("td", {}, short(element.error)))))))),
  ];
}

function legend(seen) {
  const entries = [".", "t", "h", "b", "0", "4", "9", "i", "n", "u", "o"].filter((code) =>
    seen.has(code) || (/\d/.test(code) && [...seen].some((each) => /\d/.test(each))));
  const items = entries.map((code) => [h("canvas", { width: 14, height: 14 }), code]);
  const draw = () => {
    const { errors } = palette();
    for (const [canvas, code] of items) {
      const pen = canvas.getContext("2d");
      pen.fillStyle = errors[code];
      pen.fillRect(0, 0, 14, 14);
    }
  };
  redraws.add(draw);
  draw();
  return h("div", { class: "legend" },
    items.map(([canvas, code]) => h("span", {}, canvas, says(code))));
}

// ---- the report

const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\"'\"'")}'`);
const replayOf = (entry, id) => `${entry.command}${id ? ` --case ${quoted(id)}` : ""}`;
const linkOf = (entry) =>
  `#${encodeURIComponent(entry.submission)}/${encodeURIComponent(entry.problem)}`;
const counted = (entry, verdict) => entry.cases.filter((each) => each.verdict === verdict).length;
const VERDICTS = ["passed", "declined", "not run", "unsupported", "failed", "error"];

function stripOf(entry) {
  const counts = VERDICTS.map((verdict) => [verdict, counted(entry, verdict)]).filter(([, n]) => n);
  const words = counts.map(([verdict, count]) => `${count} ${verdict}`).join(", ");
  const parts = counts.map(([verdict, count]) => {
    const part = h("i", { class: verdict });
    part.style.flex = String(count);
    return part;
  });
  return [h("span", { class: "strip", title: words, "aria-hidden": "true" }, parts),
    h("span", { class: "note" }, words)];
}

function overview(entries) {
  const measured = entries.some((entry) => entry.speed);
  const columns = [
    ["submission", (e) => [h("a", { href: linkOf(e) }, e.submission), e.submission]],
    ["problem", (e) => [e.problem, e.problem]],
    ["verdict", (e) => [badge(e.verdict), e.verdict]],
    ["class", (e) => (e.right ? [e.class ?? "", e.class] : ["", ""])],
    ["cases", (e) => [stripOf(e), counted(e, "passed")]],
    ["worst", (e) => (e.right && e.worst !== null ? [short(e.worst), e.worst] : ["", ""])],
    ...(measured ? [["speedup", (e) => (e.speed
      ? [`${short(e.speed.speedup)} (${e.speed.speedup_interval.map((v) => short(v)).join(" to ")})`,
        e.speed.speedup] : ["", ""])]] : []),
    ...(entries.some((e) => e.findings.length)
      ? [["findings", (e) => [e.findings.length || "", e.findings.length]]] : []),
    ["lines run", (e) => {
      if (!e.coverage) return ["", ""];
      const [reached, missed] = e.coverage.map((lines) => lines.length);
      const share = reached / (reached + missed || 1);
      return [`${Math.floor(100 * share)}%`, share];
    }],
    ...(entries.some((e) => e.change) ? [["gate", (e) => (e.change
      ? [badge(e.change.outcome), e.change.outcome] : ["", ""])]] : []),
    ...(entries.some((e) => e.message)
      ? [["why", (e) => [diagnosisOf(e) || e.message, ""]]] : []),
  ];
  const rows = entries.map((entry) => h("tr", {}, columns.map(([name, of]) => {
    const [content, key] = of(entry);
    return cell(content, key, name === "why" ? "words" : "nowrap");
  })));
  const count = h("span", { class: "note", role: "status" });
  const text = h("input", { type: "search", placeholder: "filter", "aria-label": "filter" });
  const verdict = h("select", { "aria-label": "verdict" }, h("option", { value: "" }, "any verdict"),
    [...new Set(entries.map((e) => e.verdict))].map((each) => h("option", { value: each }, each)));
  const narrow = () => {
    let shown = 0;
    rows.forEach((row, at) => {
      const fits = row.textContent.toLowerCase().includes(text.value.toLowerCase()) &&
        (!verdict.value || entries[at].verdict === verdict.value);
      row.hidden = !fits;
      shown += fits;
    });
    count.textContent = `${shown} of ${entries.length}`;
  };
  text.addEventListener("input", narrow);
  verdict.addEventListener("change", narrow);
  narrow();
  return h("section", { id: "overview" },
    h("div", { class: "row" }, text, verdict, count),
    wide("submissions", sortable(h("table", {},
      h("thead", {}, h("tr", {}, columns.map(([name]) => heading(name)))), h("tbody", {}, rows)))));
}

function diagnosisOf(entry) {
  return entry.cases.find((each) => each.id === entry.smallest)?.diagnosis ?? "";
}

function headOf(entry) {
  const told = [
    entry.message ? h("p", {}, h("strong", {}, entry.message)) : null,
    diagnosisOf(entry) ? h("p", {}, "Diagnosis: ", diagnosisOf(entry)) : null,
    entry.pattern ? h("p", {}, "Pattern: ", entry.pattern) : null,
    entry.others.map(([count, id, message]) =>
      h("p", {}, `Also, in ${plural(count, "case")} such as ${id}: ${message}`)),
  ];
  return [
    h("h2", { id: "head" }, `${entry.submission} on ${entry.problem} `, badge(entry.verdict)),
    entry.right ? null : h("div", { class: "told" }, told),
    facts([
      ["precision class", entry.class && `${entry.class}${entry.right ? "" : ", of the cases that passed"}`],
      ["worst error", entry.right && entry.worst !== null ? `${short(entry.worst)} of the fp32 bound` : ""],
      ["own configuration", entry.own],
      ["own work", entry.ownWork === null || entry.ownWork === 1 ? "" : `${short(100 * entry.ownWork)}%`],
      ["deterministic", entry.deterministic ? "" : "no: the same call twice gave other bits"],
      ["checked", `${entry.device}, grid ${entry.grid}, ${short(entry.seconds)} s` +
        (entry.checkedAt ? `, ${entry.checkedAt}` : "")],
      ["versions", Object.entries(entry.versions).map(([n, v]) => `${n} ${v}`).join(", ")],
      ["content", `${entry.hash.slice(0, 12)}${entry.commit ? `, commit ${entry.commit}` : ""}`],
      ["replay", copyable(replayOf(entry, entry.smallest))],
    ]),
    entry.notes.map((note) => h("p", { class: "note" }, `Note: ${note}`)),
    entry.detail ? h("details", { open: entry.verdict === "error" }, h("summary", {}, "detail"),
      h("pre", { tabindex: 0 }, entry.detail)) : null,
  ];
}

const FEW = 12;

function picturesOf(entry) {
  const shown = entry.cases.filter((each) => each.call !== undefined);
  // The smallest failing case comes first, unless its output is too small to show a pattern.
  const size = (each) => (each.picture ? each.picture.shape.reduce((a, b) => a * b, 1) : FEW);
  const order = (each) => 2 * (size(each) >= FEW) + (each.id === entry.smallest);
  shown.sort((one, two) => order(two) - order(one));
  return shown.map((each) => h("section", { class: "picture" },
    h("h3", {}, each.id, each.id === entry.smallest ? ", the smallest failing case" : ""),
    h("p", { class: "note" }, `${each.call} on input ` +
      `${each.shapes.map((shape) => `(${shape.join(", ")})`).join(", ")}: ${each.message}` +
      (each.picture ? `. Run “${each.picture.run}”, output (${each.picture.shape.join(", ")}).` : "")),
    each.picture ? mapsOf(each, each.picture)
      : h("p", { class: "note" }, each.findings?.length
        ? "No number of it is known to be wrong; what was found in memory stands below."
        : "It gave no output of the right shape to draw."),
    (each.findings ?? []).map((finding) => findingOf(finding)),
    copyable(replayOf(entry, each.id)),
    each.detail ? h("details", {}, h("summary", {}, "detail"),
      h("pre", { tabindex: 0 }, each.detail)) : null));
}

function findingOf(finding) {
  const place = [
    ["check", `${finding.check} (${finding.severity})`],
    ["kernel", finding.kernel],
    ["at", finding.line === null ? finding.file : `${finding.file}:${finding.line}`],
    ["block", finding.block && `(${finding.block.join(", ")})`],
    ["thread", finding.thread && `(${finding.thread.join(", ")})`],
    ["address", finding.address],
    ["how often", `${finding.count} accesses` + (finding.cases ? `, in ${plural(finding.cases, "case")}` : "")],
  ];
  return h("div", { class: `told ${finding.severity}` }, h("p", {}, h("strong", {}, finding.message)),
    finding.kernel ? facts(place) : null, memoryStrip(finding));
}

// Draw the place of an access relative to its allocation.
function memoryStrip(finding) {
  const { allocation, offset } = finding;
  if (allocation === null || offset === null) return null;
  const outside = offset < 0 || offset >= allocation;
  const [low, high] = [Math.min(0, offset), Math.max(allocation, offset + 4)];
  const place = (byte) => 10 + (byte - low) / (high - low) * 560;
  return drawing("The access beside its allocation",
    `byte ${offset} of an allocation of ${allocation} bytes`, 600, 46,
    g("rect", { class: "baseline", x: place(0), y: 8, width: place(allocation) - place(0), height: 14 }),
    g("rect", { class: outside ? "dot wrong" : "dot bf16", x: Math.min(place(offset), 566), y: 4,
      width: Math.max(4, place(offset + 4) - place(offset)), height: 22 }),
    label("0", place(0), 40, "start", "small"),
    label(`${whole(allocation)} bytes; the access is at ${whole(offset)}`, place(allocation), 40,
      place(allocation) > 300 ? "end" : "start", "small"));
}

function casesOf(entry) {
  const body = h("tbody");
  const told = (text) => h("td", { class: "short", "data-key": text, title: text }, text);
  const filters = entry.parameters.map((name, at) => {
    const values = [...new Set(entry.cases.map((each) => each.values?.[at] ?? ""))];
    const numeric = values.every((value) => typeof value === "number" || value === "");
    values.sort((one, two) => (numeric ? one - two : String(one).localeCompare(String(two))));
    const options = values.flatMap((value, place) => [
      h("option", { value: `= ${value}` }, value === "" ? "none" : String(value)),
      numeric && value !== "" && place < values.length - 1
        ? h("option", { value: `> ${value}` }, `> ${value}`) : null,
    ]);
    return h("select", { "aria-label": `${name} is` }, h("option", { value: "" }, "any"),
      options.filter(Boolean));
  });
  const verdict = h("select", { "aria-label": "verdict is" }, h("option", { value: "" }, "any"),
    VERDICTS.filter((each) => counted(entry, each)).map((each) => h("option", { value: each }, each)));
  const count = h("span", { class: "note", role: "status" });
  const rows = entry.cases.map((each) => h("tr", {},
    cell(each.verdict, each.verdict, `${each.verdict} nowrap`),
    entry.parameters.map((_, at) => {
      const value = each.values?.[at] ?? "";
      return cell(String(value), String(value), `${each.verdict} right`);
    }),
    cell([each.id, each.own ? " (own)" : ""], each.id, "nowrap"),
    cell(each.label, each.label, "nowrap"),
    cell(each.class ?? "", each.class), cell(short(each.worst ?? ""), each.worst, "right"),
    cell(["failed", "error", "unsupported"].includes(each.verdict) ? h("button", { type: "button",
      title: "the command that runs it again", onclick: (event) =>
        event.target.replaceWith(copyable(replayOf(entry, each.id))) }, "replay") : "", ""),
    told([each.message, ...(each.notes ?? [])].filter(Boolean).join("; "))));
  body.append(...rows);
  const narrow = () => {
    let shown = 0;
    rows.forEach((row, at) => {
      const each = entry.cases[at];
      const fits = (!verdict.value || each.verdict === verdict.value) && filters.every((filter, k) => {
        if (!filter.value) return true;
        const value = each.values?.[k] ?? "";
        const [how, than] = [filter.value[0], filter.value.slice(2)];
        return how === "=" ? String(value) === than : value !== "" && value > Number(than);
      });
      row.hidden = !fits;
      shown += fits;
    });
    count.textContent = `${shown} of ${rows.length} cases`;
  };
  [verdict, ...filters].forEach((filter) => filter.addEventListener("change", narrow));
  narrow();
  const rest = ["case", "label", "class", "worst", "", "why"];
  return [entry.pattern ? h("p", {}, h("strong", {}, entry.pattern)) : null,
    diagnosisOf(entry) ? h("p", {}, "Diagnosis: ", diagnosisOf(entry)) : null, count,
    h("div", { class: "wide tall", tabindex: 0, role: "region", "aria-label": "cases" }, sortable(h("table", {},
      h("thead", {},
        h("tr", {}, heading("verdict"), entry.parameters.map((name) => heading(name, name, "right")),
          rest.map((name) => (name ? heading(name) : h("th")))),
        h("tr", {}, h("th", {}, verdict), filters.map((filter) => h("th", {}, filter)),
          rest.map(() => h("th")))),
      body)))];
}

// Make a button open and close a row below another row.
function unfolds(button, row, make) {
  let about = null;
  button.setAttribute("aria-expanded", "false");
  button.addEventListener("click", () => {
    if (about) about.remove();
    about = about ? null : h("tr", { class: "about" }, h("td", { colspan: 5 }, make()));
    if (about) row.after(about);
    button.setAttribute("aria-expanded", String(about !== null));
  });
  return button;
}

// PTX by source, unpacked on demand, since few readers open it.
const unpacked = new Map();
async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function ptxOf(entry, number) {
  const place = h("div", { class: "ptx", role: "status" });
  if (!unpacked.has(entry.hash)) unpacked.set(entry.hash, unpack(data.ptx[entry.hash]));
  unpacked.get(entry.hash).then((lines) => place.append(...lines[number].flatMap(
    ([kernel, instructions, rest]) => [
      h("div", { class: "note" }, `PTX of line ${number} in ${kernel}: ` +
        plural(instructions.length + rest, "instruction")),
      h("pre", { tabindex: 0 }, instructions.join("\n") + (rest ? `\n… and ${rest} more` : "")),
    ])), () => place.append("This browser cannot unpack it: it has no DecompressionStream."));
  return place;
}

const METRICS = [
  ["instructions of warps", (l) => l[1], (l) => whole(l[1])],
  ["sectors more than needed", (l) => l[4] - l[5],
    (l) => (l[3] ? `${short(l[4] / l[3])} a request, ${short(l[5] / l[3])} would do` : "")],
  ["bank conflicts", (l) => l[6] - l[7], (l) => (l[7] ? `${short(l[6] / l[7])}-way` : "")],
  ["divergent branches", (l) => l[9], (l) => (l[8] ? `${short(100 * l[9] / l[8])}%` : "")],
];

function sourceOf(entry) {
  const text = data.sources[entry.hash];
  if (!text) return [h("p", { class: "note" }, "The report has no source.")];
  const counters = new Map(entry.lines.map((each) => [each[0], each]));
  const withPtx = new Set(entry.ptx);
  const [reached, missed] = (entry.coverage ?? [[], []]).map((lines) => new Set(lines));
  const here = entry.findings.filter((finding) => finding.line !== null && finding.file === entry.file);
  const metrics = METRICS.filter(([, of]) => entry.lines.some((each) => of(each) > 0));
  const state = { metric: metrics[0] };
  const bars = new Map();
  const table = h("tbody", {}, text.split("\n").map((code, at) => {
    const number = at + 1;
    const bar = h("td");
    if (counters.has(number)) bars.set(number, bar);
    const found = here.filter((finding) => finding.line === number);
    const mark = reached.has(number) ? "✓" : missed.has(number) ? "✗" : "";
    const row = h("tr", { class: missed.has(number) ? "never" : "", "data-line": number });
    const button = withPtx.has(number) ? unfolds(h("button", { type: "button",
      title: "the PTX of this line" }, number), row, () => ptxOf(entry, number)) : null;
    // A click anywhere in the row opens it as well, unless the click ends a text selection.
    if (button) row.addEventListener("click", (event) => {
      if (!event.target.closest("button") && getSelection().isCollapsed) button.click();
    });
    return fill(row, {}, [
      h("td", { class: "number" }, button ?? number),
      h("td", { class: "ran", title: mark === "✗" ? "never ran" : mark ? "ran" : "" }, mark),
      bar,
      h("td", {}, found.map((finding) => unfolds(h("button", { type: "button",
        class: "badge failed", title: finding.message }, finding.check), row,
      () => findingOf(finding)))),
      h("td", {}, code)]);
  }));
  const listing = h("div", { class: "listing", tabindex: 0, role: "region", "aria-label": "source" },
    h("table", {}, table));
  const reveal = (row) => { listing.scrollTop = row.offsetTop - listing.clientHeight / 3; };
  const go = (number) => {
    const row = table.querySelector(`[data-line="${number}"]`);
    table.querySelectorAll(".target").forEach((other) => other.classList.remove("target"));
    row.classList.add("target");
    reveal(row);
  };
  // Once the listing is on the page, scroll to the first line with a finding, counters or a miss.
  const first = here[0]?.line ?? Math.min(...bars.keys(), ...missed);
  requestAnimationFrame(() => {
    const row = table.querySelector(`[data-line="${first}"]`);
    if (row) reveal(row);
  });
  const hottest = h("div", { class: "row" });
  const draw = () => {
    if (!state.metric) return;
    const [name, of, words] = state.metric;
    const most = Math.max(...entry.lines.map(of), 1);
    for (const [number, place] of bars) {
      const counted = counters.get(number);
      const bar = h("span", { class: "bar" });
      bar.style.width = `${Math.max(0, 5 * of(counted) / most)}rem`;
      place.replaceChildren(bar, of(counted) > 0 ? ` ${words(counted)}` : "");
    }
    const order = [...entry.lines].filter((each) => of(each) > 0).sort((a, b) => of(b) - of(a));
    hottest.replaceChildren(h("span", { class: "note" }, `Most ${name}:`),
      ...order.slice(0, 8).map((each) => h("button", { type: "button", onclick: () => go(each[0]) },
        `line ${each[0]}: ${words(each)}`)));
  };
  draw();
  const lines = missed.size ? `${missed.size} of ${reached.size + missed.size} lines of device code never ran` : "";
  return [
    metrics.length ? h("div", { class: "row" }, h("label", {}, "counters ",
      h("select", { onchange: (event) => { state.metric = metrics[event.target.value]; draw(); } },
        metrics.map(([name], at) => h("option", { value: at }, name)))),
      h("span", { class: "note" }, "in the problem's reduced configuration, exact")) : null,
    hottest, lines ? h("p", { class: "note" }, lines) : null,
    withPtx.size ? h("p", { class: "note" }, "Numbers with a frame open a line's PTX.") : null,
    here.length ? h("div", { class: "row" }, h("span", { class: "note" }, "Findings:"),
      here.map((finding) => h("button", { type: "button", onclick: () => go(finding.line) },
        `line ${finding.line}: ${finding.check}, ${plural(finding.cases, "case")}`))) : null,
    listing,
    entry.findings.filter((finding) => !here.includes(finding)).map(findingOf),
  ];
}

function speedOf({ speed }) {
  return [
    timesChart(speed.chart),
    h("p", { class: "note" }, "Discs are submissions, squares the baselines; bars are 95 % " +
      "confidence intervals, and the floor is what no kernel can beat."),
    samplesChart(speed),
    clocksChart(speed) ?? h("p", { class: "note" }, "The version that measured it kept no clock of " +
      "each round."),
    roofline(speed),
    facts([
      ["speedup", `${short(speed.speedup)} (${speed.speedup_interval.map((v) => short(v)).join(" to ")})` +
        ` over ${speed.baseline}`],
      ["of the floor", `${short(100 * speed.chart.floor / speed.chart.marks[0].value)}%`],
      ["rounds", `${speed.rounds}, and ${speed.discarded} thrown away for throttling`],
      ["clock", `${short(speed.clocks_mhz, 4)} MHz, ${short(speed.power_watts)} W, ` +
        `${short(speed.temperature_celsius)} °C, medians`],
      ["measured", `${speed.device}, driver ${speed.driver}, CUDA ${speed.cuda}, torch ` +
        `${speed.torch}, cuDNN ${speed.cudnn}, ${speed.measured_at}`],
      ["suspicious", speed.findings.join("; ")],
    ]),
  ];
}

function historyOf(entry) {
  const names = ["version", "known since", "verdict", "class", "median ms", "instructions of warps",
    "step", "by", "why"];
  return [historyChart(entry.history), wide("versions", h("table", {},
    h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, [...entry.history].reverse().map((version) => h("tr", {},
      h("td", {}, h("code", {}, version.commit ? `${version.commit} (${version.hash})` : version.hash)),
      h("td", { class: "nowrap" }, version.at), h("td", {}, version.verdict && badge(version.verdict)),
      h("td", {}, version.class ?? ""), h("td", { class: "nowrap" }, version.time?.text ?? ""),
      h("td", {}, version.instructions === null ? "" : whole(version.instructions)),
      h("td", {}, version.change ? badge(version.change.outcome) : ""),
      h("td", {}, version.change?.by ?? ""), h("td", { class: "words" }, version.change?.reason ?? ""))))))];
}

function gateOf(entry) {
  const { base, change } = entry;
  const now = Object.entries(entry.counters ?? {});
  const rows = [
    ["verdict", badge(base.verdict), badge(entry.verdict)],
    ["class", base.class ?? "", entry.class ?? ""],
    ["worst error", short(base.worst), short(entry.worst)],
    ["passed", counted(base, "passed"), counted(entry, "passed")],
    ["content", base.hash.slice(0, 12), entry.hash.slice(0, 12)],
    ...now.map(([name, value]) => [name.replaceAll("_", " "),
      short(base.counters?.[name] ?? "", 9), short(value ?? "", 9)]),
  ];
  const before = new Map(base.cases.map((each) => [each.id, each]));
  const other = entry.cases.filter((each) => before.has(each.id) &&
    before.get(each.id).verdict !== each.verdict);
  return [
    change ? h("p", {}, badge(change.outcome), ` ${change.by}: ${change.reason}`) : null,
    wide("base and head", h("table", {},
      h("thead", {}, h("tr", {}, ["", "base", "head"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, rows.map(([name, then, here]) => h("tr", {}, h("th", { scope: "row" }, name),
        h("td", {}, then), h("td", {}, here)))))),
    other.map((each) => h("p", {}, `${each.id}: `, badge(before.get(each.id).verdict), " before, ",
      badge(each.verdict), ` now: ${each.message ?? ""}`)),
  ];
}

function detailOf(entry, entries) {
  const isWrong = !entry.right && entry.cases.some((each) => each.call !== undefined);
  const sections = [
    ["gate", "Base and head", entry.base ? () => gateOf(entry) : null],
    ["wrong", "Wrong output", isWrong ? () => picturesOf(entry) : null],
    ["cases", "Cases", () => casesOf(entry)],
    ["source", "Source", () => sourceOf(entry)],
    ["numerics", "Numerics", numericsChart(entry) ? () => [numericsChart(entry),
      h("p", { class: "note" }, "A dot is a run: its largest error over what fp32 allows. Dotted " +
        "lines are what the other classes allow in that case. Runs without any error have no dot.")] : null],
    ["speed", "Speed", entry.speed ? () => speedOf(entry) : null],
    ["history", "History", entry.history.length ? () => historyOf(entry) : null],
  ].filter(([, , make]) => make);
  const siblings = entries.filter((other) => other.submission === entry.submission);
  return h("article", {},
    siblings.length > 1 ? h("nav", { class: "row", "aria-label": "problems" }, siblings.map((other) =>
      h("a", { href: linkOf(other), "aria-current": other === entry ? "page" : null }, other.problem))) : null,
    headOf(entry),
    h("nav", { class: "row", "aria-label": "sections" },
      sections.map(([id, title]) => h("a", { href: `${linkOf(entry)}/${id}` }, title))),
    sections.map(([id, title, make]) => h("section", { id }, h("h2", {}, title), make())));
}

let current = null;

function show() {
  const [submission, problem, section] = location.hash.slice(1).split("/").map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  const { entries } = data;
  const named = entries.filter((entry) => entry.submission === submission);
  // Without a problem in the link, prefer the first problem on which the submission is not right.
  const entry = named.find((each) => each.problem === problem) ??
    named.find((each) => !each.right) ?? named[0] ?? (entries.length === 1 ? entries[0] : undefined);
  const isAnother = entry === undefined || entry !== current;
  current = entry;
  if (isAnother) draw(entry, entries);
  const place = section && document.getElementById(section);
  if (place) place.scrollIntoView();
  else scrollTo(0, 0);
}

function draw(entry, entries) {
  redraws.clear();
  const main = document.querySelector("main");
  main.replaceChildren(entry
    ? h("div", {}, entries.length > 1 ? h("p", {}, h("a", { href: "#" }, "← all submissions")) : null,
      detailOf(entry, entries))
    : entries.length ? overview(entries) : h("p", {}, "There is no report."));
  document.title = entry ? `${entry.submission} on ${entry.problem}`
    : document.querySelector("h1").textContent;
}

if (data.kind === "report") {
  addEventListener("hashchange", show);
  show();
}
