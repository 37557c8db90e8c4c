// Verdicts and numbers in words.

export const VERDICTS = {
  reproduced: { look: "v-good", sign: "✓", means: "the 95 % interval of our median over seeds lies within a tolerance that was fixed before the runs" },
  "reproduced (weak)": { look: "v-weak", sign: "≈", means: "reproduced, but a rule that needs no learning, or a constant, would pass too" },
  differs: { look: "v-bad", sign: "≠", means: "the interval excludes the paper's number, and our median is outside the tolerance" },
  undecided: { look: "v-open", sign: "?", means: "neither: more seeds are needed (fewer than five have no interval)" },
  "not run": { look: "v-none", sign: "–", means: "nothing is recorded" },
  "nothing to compare with": { look: "v-none", sign: "·", means: "the paper prints no number, or the sizes differ" },
  follows: { look: "v-none", sign: "→", means: "restates another number" },
};
export const JUDGED = ["reproduced", "reproduced (weak)", "differs", "undecided", "not run"];

export const look = (verdict) => VERDICTS[verdict] ?? VERDICTS["nothing to compare with"];

export function counted(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// A number as short as it can be: 0.0123, 97.6, 1,234, 1.39e-6.
export function short(value) {
  if (typeof value !== "number") return value === null || value === undefined ? "" : String(value);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  if (Math.abs(value) < 1e-4) return Number(value.toPrecision(3)).toExponential();
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(4)));
}

export function duration(seconds) {
  if (seconds < 100) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 100 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// Keeps a number and its % on one line.
export const unbroken = (text) => text.replaceAll(/(\d) %/g, "$1\u00a0%");

// Scrolls to the part of an address, and opens what it is folded into.
export function goTo(hash) {
  const target = document.getElementById(hash.slice(1));
  for (let each = target; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
  target?.scrollIntoView({ behavior: "instant" });
}

// Opens the folded part that a link leads to.
export const openTarget = (event) => (document.querySelector(event.currentTarget.hash).open = true);

const settingName = (name) => name.replaceAll("_", " ").replace("in stream", "in the training data");

// A nested setting as text: objects as "name value" with commas.
export function inWords(value) {
  if (value === null || value === undefined) return "none";
  if (Array.isArray(value)) return value.map(inWords).join(", ");
  if (typeof value === "object") {
    return Object.entries(value).map(([name, each]) => `${settingName(name)}${typeof each === "boolean" ? ":" : ""} ${inWords(each)}`).join(", ");
  }
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "number" ? short(value) : String(value);
}

// Whether a measured number lies between 0 and 1.
export const isShare = (name) => /accuracy|match/.test(name);

export const idOf = (...parts) => parts.join("-").toLowerCase().replace(/[^a-z0-9]+/g, "-");
