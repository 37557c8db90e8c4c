// The runs of the page, found by the keys that claims and charts name them by.
import { median, short } from "./words.js";

const keyOf = (run) => `${run.run}/${run.seed}`;

// Returns all runs with their settings, by key.
export function libraryOf(settings = {}) {
  const found = new Map();
  for (const setting of Object.values(settings)) for (const run of setting.runs) found.set(keyOf(run), { run, setting });
  return found;
}

// The parts of a key: the run's id, and its seed.
export const idOfRun = (key = "") => key.split("/")[0];
export const seedOf = (key = "") => key.split("/")[1] ?? "";

export const keysOf = (claim) => (claim.sources ?? []).flatMap((source) => source.runs ?? []);

// The values of a claim, one per run; of one that compares the medians of several cells, none.
export function valuesOf(claim) {
  if (claim.values || claim.compared) return claim.values ?? [];
  return (claim.sources ?? []).flatMap((source) => source.values ?? []);
}

// The settings of a cell behind a claim, those of its runs, each with its counted runs and the others.
export function settingsOf(source, library, fallback) {
  const counted = (source.runs ?? []).map((key, index) => ({ ...library.get(key), key, value: source.values[index] }));
  const settings = new Set([...counted.map((each) => each.setting).filter(Boolean), ...(fallback ? [fallback] : [])]);
  return [...settings].map((setting) => {
    const own = counted.filter((each) => each.setting === setting);
    const keys = new Set(own.map((each) => each.key));
    return { setting, counted: own, others: setting.runs.filter((run) => !keys.has(keyOf(run))) };
  });
}

const same = (first, second) => first.length === second.length && first.every((each, index) => each === second[index]);

// The claim about a point of a chart: the same runs and values. A point without one is a claim of its own.
export function claimOfDot(claims, dot) {
  const found = claims.find((claim) => same(keysOf(claim), dot.runs) && same(valuesOf(claim), dot.values));
  if (found) return found;
  const cell = [dot.panel, dot.line, dot.place].filter(Boolean).join(", ");
  const [least, most] = [Math.min(...dot.values), Math.max(...dot.values)];
  const shown = { ours: short(median(dot.values)), spread: dot.values.length > 1 ? `${short(least)} to ${short(most)}` : "" };
  const sources = [{ cell, values: dot.values, runs: dot.runs }];
  return { cell, sources, shown, n: dot.values.length, digits: 2, verdict: "nothing to compare with" };
}
