// Cells laid out as the paper prints them: a row per task, a column per model or width. A click shows a cell's runs.
import { useState } from "preact/hooks";
import { Tools } from "./tables.jsx";
import { counted, look } from "./words.js";

const FIRST_ROWS = 30;

export function Grid({ claims, pick, name }) {
  const [words, setWords] = useState("");
  const [isOpen, setOpen] = useState(false);
  if (claims.length === 0) return null;
  const columns = inOrder(claims.map((claim) => claim.column));
  const byRow = new Map();
  for (const claim of claims) {
    if (!byRow.has(claim.row)) byRow.set(claim.row, new Map());
    byRow.get(claim.row).set(claim.column, claim);
  }
  const baselines = [...byRow.values()].some((cells) => baselineOf(cells));
  const wanted = words.trim().toLowerCase();
  const found = [...byRow].filter(([row]) => row.toLowerCase().includes(wanted));
  const rows = isOpen ? found : found.slice(0, FIRST_ROWS);
  const hasPaper = claims.some((claim) => claim.shown.paper);
  const headings = [columns.some(isWidth) ? "width" : "", ...columns, ...(baselines ? ["baseline"] : [])];
  const texts = [...byRow].flatMap(([row, cells]) => {
    const exact = exactOf(row, cells, columns);
    const own = [row, ...columns.map((column) => textOf(cells.get(column))), ...(baselines ? [baselineOf(cells)] : [])];
    return exact ? [own, [...exact, ...(baselines ? [""] : [])]] : [own];
  });
  return (
    <>
      <div class="bar small">
        <span class="quiet">Ours, with the {hasPaper ? "paper's number" : "range of the seeds"} below. <span class="no-print">Choose a cell to see its runs.</span></span>
        {byRow.size > 20 && <label>Filter rows <input type="search" value={words} onInput={(event) => setWords(event.target.value)} /></label>}
        <span class="space" />
        <Tools title={`${name}, table`} headings={headings} rows={texts} />
      </div>
      <div class="wide">
        <table class="grid">
          <thead><tr>{headings.map((heading) => <th scope="col">{heading}</th>)}</tr></thead>
          <tbody>
            {rows.map(([row, cells]) => (
              <Row key={row} row={row} cells={cells} columns={columns} pick={pick} name={name} hasBaselines={baselines} />
            ))}
          </tbody>
        </table>
      </div>
      {found.length > rows.length && <button type="button" onClick={() => setOpen(true)}>Show all {counted(found.length, "row")}</button>}
    </>
  );
}

function Row({ row, cells, columns, pick, name, hasBaselines }) {
  const exact = exactOf(row, cells, columns);
  return (
    <>
      <tr>
        <th scope="row">{row}</th>
        {columns.map((column) => <td>{cells.has(column) ? <Cell claim={cells.get(column)} pick={pick} name={name} /> : ""}</td>)}
        {hasBaselines && <td class="quiet">{baselineOf(cells)}</td>}
      </tr>
      {exact && (
        <tr class="quiet">
          <th scope="row">{exact[0]}</th>
          {exact.slice(1).map((text) => <td>{text}</td>)}
          {hasBaselines && <td />}
        </tr>
      )}
    </>
  );
}

// The row of exact matches, of answers of several tokens.
function exactOf(row, cells, columns) {
  if (![...cells.values()].some((claim) => claim.exact !== undefined)) return null;
  const text = (claim) => (claim?.exact === undefined ? "" : `${claim.exact.toFixed(1)}${fewOf(claim)}`);
  return [`${row} (exact match)`, ...columns.map((column) => text(cells.get(column)))];
}

const fewOf = (claim) => (claim.n === 1 ? ", 1 seed" : "");

const isWidth = (column) => /^\d+$/.test(column);

// Columns in their order, whole numbers by size.
function inOrder(columns) {
  const each = [...new Set(columns)];
  return each.every(isWidth) ? each.sort((a, b) => a - b) : each;
}

// The baseline of a row, if its cells share one.
function baselineOf(cells) {
  const each = new Set([...cells.values()].map((claim) => claim.shown.baseline).filter(Boolean));
  return each.size === 1 ? [...each][0] : "";
}

function textOf(claim) {
  if (!claim) return "";
  return `${claim.shown.ours ?? "-"}${claim.shown.paper ? ` (${claim.shown.paper})` : ""}${fewOf(claim)}`;
}

// The range of the seeds, if they differ.
function spreadOf(claim) {
  const [least, most] = (claim.shown.spread ?? "").split(" to ");
  return most && least !== most ? `${least}–${most}` : "";
}

function Cell({ claim, pick, name }) {
  const { look: style, sign } = look(claim.verdict);
  const below = [sign === "·" ? "" : sign, [claim.shown.paper ?? spreadOf(claim), claim.n === 1 && "1 seed"].filter(Boolean).join(", ")].filter(Boolean).join(" ");
  const words = `${claim.cell}: ours ${claim.shown.ours ?? "not finished"}${claim.shown.paper ? `, the paper ${claim.shown.paper}` : ""}, ${claim.verdict}, ${counted(claim.n ?? 0, "seed")}`;
  return (
    <button type="button" class={`cell ${style}`} aria-label={words} onClick={() => pick(claim, name)}>
      <b>{claim.shown.ours ?? "…"}</b>
      <small>{below}</small>
    </button>
  );
}
