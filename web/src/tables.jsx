// Tables, with their rows as CSV and Markdown.
import { useState } from "preact/hooks";
import { saveCsv, saveMarkdown } from "./save.js";
import { counted, look } from "./words.js";

export function Chip({ verdict }) {
  const { look: style, sign } = look(verdict);
  return <span class={`chip ${style}`}><span class="sign" aria-hidden="true">{sign}</span> {verdict}</span>;
}

export function Tools({ title, headings, rows }) {
  return (
    <span class="tools">
      <button type="button" aria-label={`CSV of ${title}`} onClick={() => saveCsv(title, headings, rows)}>CSV</button>
      <button type="button" aria-label={`Markdown of ${title}`} onClick={() => saveMarkdown(title, headings, rows)}>Markdown</button>
    </span>
  );
}

const FIRST = 50;

// A table of texts. `sides` and `prose` name how columns are set; `lead` may render the first cell of a row; with `cards`,
// a row is a card on a phone, and if they are `named`, its first cell has its heading too.
export function DataTable({ title, headings, rows, sides = [], prose = [], chips, notes = [], lead, caption = title, filterable = false, cards = false }) {
  const [words, setWords] = useState("");
  const [isOpen, setOpen] = useState(false);
  const wanted = words.trim().toLowerCase();
  const found = wanted ? rows.filter((row) => row.some((cell) => String(cell).toLowerCase().includes(wanted))) : rows;
  const shown = isOpen ? found : found.slice(0, FIRST);
  return (
    <div>
      <div class="bar">
        {filterable && rows.length > 20 && (
          <label class="small">Filter <input type="search" value={words} onInput={(event) => setWords(event.target.value)} /></label>
        )}
        <span class="space" />
        <Tools title={title} headings={headings} rows={rows} />
      </div>
      <div class="wide" tabIndex={0} role="region" aria-label={title}>
        <table class={cards ? `cards ${cards === "named" ? "named" : ""}` : undefined}>
          {caption && <caption>{caption}</caption>}
          <thead>
            <tr>{headings.map((heading, column) => <th scope="col" class={sides[column] ?? "left"}>{heading}</th>)}</tr>
          </thead>
          <tbody>
            {shown.map((row, index) => (
              <tr key={index}>
                {row.map((cell, column) =>
                  column === 0 ? (
                    <th scope="row" data-heading={headings[0]} class={sides[0] ?? "left"}>{lead ? lead(row, rows.indexOf(row)) : cell}</th>
                  ) : (
                    <td data-heading={headings[column]} class={`${sides[column] ?? "left"}${prose.includes(headings[column]) ? " prose" : ""}`}>{chips === headings[column] ? <Chip verdict={cell} /> : cell}</td>
                  ),
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {found.length > shown.length && (
        <button type="button" onClick={() => setOpen(true)}>Show all {counted(found.length, "row")}</button>
      )}
      {notes.map((note) => <p class="small quiet">{note}</p>)}
    </div>
  );
}
