// Draws one panel of a chart. Everything here is a function of the data: no state, and colours are CSS variables.
import * as Plot from "@observablehq/plot";
import { idOfRun, seedOf } from "./library.js";
import { median, short } from "./words.js";

const SYMBOLS = { o: "circle", "^": "triangle", X: "times", x: "times", s: "square", D: "diamond", p: "star", "<": "wye", ">": "triangle2", "*": "asterisk", h: "hexagon", d: "diamond2" };
const STROKED = ["times", "plus", "asterisk"];
const LINESTYLES = { "-": undefined, "--": "5 3", ":": "1.5 3", "-.": "6 3 1.5 3" };
const DASHES = ["1 3", "5 3", "2 2 6 2"];

export const colourOf = (hex) => `var(--h-${hex.slice(1).toLowerCase()}, ${hex})`;
export const dashOf = (line) => LINESTYLES[line.linestyle];
export const symbolOf = (line) => SYMBOLS[line.marker] ?? "circle";

// The look of a baseline, by its place among all of the chart's, so that hiding others does not change it.
export function lookOfRule(chart, rule) {
  if (rule.line) return { colour: "var(--text)", dash: undefined };
  const names = [...new Set(chart.rules.filter((each) => !each.line).map((each) => each.name))];
  return { colour: "var(--quiet)", dash: DASHES[names.indexOf(rule.name) % DASHES.length] };
}

export function panelsOf(chart) {
  return [...new Set(chart.lines.map((line) => line.panel))];
}

// Rows of a chart, one per run, for CSV. Seed and run are empty where the chart does not say them.
export function rowsOf(chart) {
  return chart.lines.flatMap((line) =>
    line.dots.flatMap((dot) => dot.values.map((value, index) => [line.panel, line.name, dot.x, seedOf(dot.runs[index]), idOfRun(dot.runs[index]), value])),
  );
}

function tipOf(line, dot) {
  const [least, most] = [Math.min(...dot.values), Math.max(...dot.values)];
  const spread = dot.values.length > 1 ? `\n${dot.values.length} seeds: ${short(least)} to ${short(most)}` : "\n1 seed";
  return `${line.name}, ${dot.x}\nmedian ${short(median(dot.values))}${spread}`;
}

function dotsOf(line) {
  return line.dots.map((dot) => ({ line: line.name, panel: line.panel, x: dot.x, y: median(dot.values), values: dot.values, runs: dot.runs, title: tipOf(line, dot) }));
}

// Returns an SVG element. `hidden` is a set of line names, `withSeeds` shows single seeds, `isLog` sets the y axis.
export function drawPanel(chart, panel, { hidden = new Set(), withSeeds = true, isLog = false, width = 360, height = 250 } = {}) {
  const lines = chart.lines.filter((line) => line.panel === panel && !hidden.has(line.name));
  const rules = chart.rules.filter((rule) => rule.panel === panel && !hidden.has(rule.name)).map((rule) => ({ ...rule, ...lookOfRule(chart, rule) }));
  const draw = { line: lineMarks, bar: barMarks, band: bandMarks }[chart.kind];
  const places = [...new Set(chart.lines.filter((line) => line.panel === panel).flatMap((line) => line.dots.map((dot) => dot.x)))];
  const isPower = chart.x.scale === "log";
  if (chart.kind !== "bar") places.sort((a, b) => a - b);
  const range = [chart.y.least, chart.y.most];
  const domain = range.every((end) => end !== null) ? { domain: range } : range[0] !== null ? { zero: true } : {};
  const room = (width - 60) / places.length / 13; // of a bar's name, in em
  const options = {
    width,
    height,
    marginLeft: 48,
    marginBottom: 38,
    marginTop: 30,
    style: { background: "none", fontFamily: "inherit" },
    y: { label: chart.y.label, labelArrow: "none", grid: true, nice: true, ...(isLog ? { type: "log" } : domain), clamp: false, tickFormat: isLog ? short : undefined },
    x:
      chart.kind === "bar"
        ? { axis: null }
        : { label: chart.x.label, labelArrow: "none", ...(isPower ? { type: "log", base: 2, ticks: few(places), tickFormat: short } : { nice: false }) },
    ...(chart.kind === "bar" ? { fx: { axis: null, label: null, domain: places }, marginBottom: 52 } : {}),
    marks: [
      ...draw(lines, rules, { withSeeds, isLog, places }),
      ...(chart.kind === "bar" ? [Plot.axisFx({ anchor: "bottom", label: null, tickSize: 0, lineWidth: room, tickFormat: (name) => inLines(String(name), room) })] : []),
    ],
  };
  return Plot.plot(options);
}

// Names such as block0.stream are broken at their dots where there is no room for them.
function inLines(name, room) {
  return name.length / 2 > room ? name.replaceAll(".", ".\n") : name;
}

// At most eight of the places, the first and the last among them.
function few(places) {
  const stride = Math.ceil(places.length / 8);
  return places.filter((_, index) => (places.length - 1 - index) % stride === 0);
}

const positive = (rows, isLog) => (isLog ? rows.filter((row) => row.y > 0) : rows);

function ruleMarks(rules, places) {
  return rules.flatMap((rule) => {
    const own = rule.places.length ? rule.places.map(([x, y]) => ({ x, y })) : [{ x: places[0], y: rule.value }, { x: places.at(-1), y: rule.value }];
    const style = { stroke: rule.colour, strokeDasharray: rule.dash, strokeWidth: 1.2 };
    return places.length > 1 || rule.places.length ? [Plot.line(own, { x: "x", y: "y", ...style })] : [Plot.ruleY([rule.value], style)];
  });
}

function lineMarks(lines, rules, { withSeeds, isLog, places }) {
  const marks = ruleMarks(rules, places);
  const all = [];
  lines.forEach((line, index) => {
    const colour = colourOf(line.colour);
    const dots = positive(dotsOf(line), isLog);
    all.push(...dots);
    const aside = 3 * (index - (lines.length - 1) / 2); // pixels, so that no line hides another's seeds
    if (withSeeds) {
      const seeds = dots.flatMap((dot) => (dot.values.length > 1 ? dot.values.map((y) => ({ x: dot.x, y })) : []));
      marks.push(Plot.dot(positive(seeds, isLog), { x: "x", y: "y", r: 2, fill: colour, fillOpacity: 0.55, dx: aside }));
    }
    marks.push(Plot.line(dots, { x: "x", y: "y", stroke: colour, strokeWidth: 1.8, strokeDasharray: dashOf(line) }));
    const symbol = symbolOf(line);
    const fill = STROKED.includes(symbol) ? {} : { fill: line.linestyle === "-" ? colour : "var(--back)" };
    if (line.marker) marks.push(Plot.dot(dots, { x: "x", y: "y", r: 4, symbol, stroke: colour, strokeWidth: 1.5, ...fill }));
  });
  marks.push(Plot.tip(all, Plot.pointer({ x: "x", y: "y", title: "title", ...TIP })));
  return marks;
}

function bandMarks(lines, rules, { places }) {
  const marks = ruleMarks(rules, places);
  const all = [];
  for (const line of lines) {
    const colour = colourOf(line.colour);
    const dots = dotsOf(line).map((dot) => ({ ...dot, low: Math.min(...dot.values), high: Math.max(...dot.values) }));
    all.push(...dots);
    if (line.dots.some((dot) => dot.values.length > 1)) {
      marks.push(Plot.areaY(dots, { x: "x", y1: "low", y2: "high", fill: colour, fillOpacity: 0.2 }));
    }
    marks.push(Plot.line(dots, { x: "x", y: "y", stroke: colour, strokeWidth: 1.6, strokeDasharray: dashOf(line) }));
  }
  marks.push(Plot.tip(all, Plot.pointer({ x: "x", y: "y", title: "title", ...TIP })));
  return marks;
}

function barMarks(lines, rules, { withSeeds }) {
  const bars = lines.flatMap((line) => dotsOf(line).map((dot) => ({ ...dot, colour: line.colour })));
  const marks = lines.map((line) => Plot.barY(dotsOf(line), { fx: "x", x: "line", y: "y", stroke: colourOf(line.colour), strokeWidth: 1.5, inset: 2, fill: line.linestyle === "-" ? colourOf(line.colour) : "var(--back)" }));
  if (withSeeds) {
    const seeds = bars.flatMap((bar) => (bar.values.length > 1 ? bar.values.map((y) => ({ ...bar, y })) : []));
    marks.push(Plot.dot(seeds, { fx: "x", x: "line", y: "y", r: 2, fill: "var(--text)" }));
  }
  for (const rule of rules) {
    const own = rule.places.map(([x, y]) => ({ x, y }));
    const at = rule.line ? Plot.tickY : Plot.ruleY;
    marks.push(own.length ? at(own, { fx: "x", x: () => rule.line, y: "y", stroke: rule.colour, strokeWidth: 2.5 }) : Plot.ruleY([rule.value], { stroke: rule.colour, strokeDasharray: rule.dash }));
  }
  marks.push(Plot.ruleY([0]), Plot.tip(bars, Plot.pointerX({ fx: "x", x: "line", y: "y", title: "title", ...TIP })));
  return marks;
}

export const TIP = { fill: "var(--back)", stroke: "var(--quiet)", fontSize: 12, lineWidth: 22 };

// One claim's seeds along a line, with our interval, the paper's number and its tolerance. A baseline may be far away: then
// an arrow points to it.
export function drawSeeds(claim, width) {
  const values = claim.values.map((x, index) => ({ x, y: ((index * 7) % 5) / 5 + 0.1, index }));
  const marks = [];
  const { allowed, paper, interval } = claim;
  const spots = [...claim.values, paper, ...(interval ?? []), ...(allowed ?? [])].filter((x) => typeof x === "number");
  const [low, high] = [Math.min(...spots), Math.max(...spots)];
  const margin = Math.max(0.06 * (high - low), 10 ** -claim.digits);
  const domain = [low - margin, high + margin];
  if (allowed) {
    const [x1, x2] = [allowed[0] ?? domain[0], allowed[1] ?? domain[1]].map((x) => Math.min(Math.max(x, domain[0]), domain[1]));
    marks.push(Plot.rect([{ x1, x2, y1: 0, y2: 1 }], { x1: "x1", x2: "x2", y1: "y1", y2: "y2", fill: "var(--good-back)", inset: 0 }));
  }
  const rule = (x, stroke, dash) => Plot.ruleX([x], { y1: 0, y2: 1, stroke, strokeWidth: 2, strokeDasharray: dash });
  if (typeof claim.baseline === "number") {
    const isBelow = claim.baseline < domain[0];
    const words = `baseline ${short(claim.baseline)}`;
    if (!isBelow && claim.baseline <= domain[1]) marks.push(rule(claim.baseline, "var(--quiet)", "1 3"));
    else marks.push(Plot.text([isBelow ? `← ${words}` : `${words} →`], { frameAnchor: isBelow ? "top-left" : "top-right", dy: -13, fontSize: 11, fill: "var(--quiet)" }));
  }
  if (typeof paper === "number") marks.push(rule(paper, "var(--good)", undefined));
  if (interval) marks.push(Plot.link([{ x1: interval[0], x2: interval[1] }], { x1: "x1", x2: "x2", y1: 0.5, y2: 0.5, stroke: colourOf("#0072B2"), strokeWidth: 9, strokeOpacity: 0.35, strokeLinecap: "round" }));
  marks.push(Plot.dot(values, { x: "x", y: "y", r: 4, fill: colourOf("#0072B2"), title: (value) => short(value.x), tip: { ...TIP, format: { y: false } } }));
  return Plot.plot({ width, height: 118, marginTop: 16, marginBottom: 32, marginLeft: 20, marginRight: 20, style: { background: "none", fontFamily: "inherit" }, x: { domain, label: null, grid: true }, y: { axis: null, domain: [0, 1] }, marks });
}

// Curves of seeds against the step.
export function drawCurves(rows, { label, width, isLog, span }) {
  const own = isLog ? rows.filter((row) => row.y > 0) : rows;
  return Plot.plot({
    width,
    height: 240,
    marginLeft: 52,
    style: { background: "none", fontFamily: "inherit" },
    x: { label: "step", labelArrow: "none", domain: span },
    y: { label, labelArrow: "none", grid: true, type: isLog ? "log" : "linear", tickFormat: isLog ? short : undefined },
    marks: [
      Plot.line(own, { x: "x", y: "y", z: "z", stroke: colourOf("#0072B2"), strokeOpacity: 0.65, strokeWidth: 1.2 }),
      Plot.tip(own, Plot.pointer({ x: "x", y: "y", title: (row) => `seed ${row.z}, step ${short(row.x)}\n${label} ${short(row.y)}`, ...TIP })),
    ],
  });
}

// A square map: rows attend to columns.
export function drawMap(words, rows, width) {
  const cells = rows.flatMap((row, from) => row.map((value, to) => ({ from, to, value })));
  const word = (index) => words[index] ?? "";
  const cell = (width - 32) / words.length;
  const hasWords = cell > 7; // else they would overlap
  const [size, longest] = [Math.min(10, cell), Math.max(...words.map((each) => each.length))];
  const isTight = 0.65 * size * longest > cell; // then the words above stand upright
  return Plot.plot({
    width,
    height: width,
    marginLeft: hasWords ? 26 : 4,
    marginTop: hasWords ? (isTight ? 8 + 0.7 * size * longest : 18) : 4,
    marginBottom: 6,
    marginRight: 6,
    style: { background: "none", fontFamily: "inherit", fontSize: `${size}px` },
    x: { axis: hasWords ? "top" : null, tickRotate: isTight ? -90 : 0, tickPadding: isTight ? 1 : 3, tickFormat: word, label: null, tickSize: 0, round: false },
    y: { axis: hasWords ? "left" : null, tickFormat: word, label: null, tickSize: 0, round: false },
    marks: [
      Plot.cell(cells, { x: "to", y: "from", fill: colourOf("#0072B2"), fillOpacity: "value", inset: 0.3 }),
      Plot.tip(cells, Plot.pointer({ x: "to", y: "from", title: (cell) => `${word(cell.from)} (${cell.from + 1}) to ${word(cell.to)} (${cell.to + 1})\n${short(cell.value)}`, ...TIP })),
    ],
    opacity: { domain: [0, 1] },
  });
}
