// The whole page: contents, sections, and the dialog of a cell.
import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import { CellDialog } from "./cell.jsx";
import { Command } from "./command.jsx";
import { Inside } from "./inside.jsx";
import { libraryOf } from "./library.js";
import { Own } from "./own.jsx";
import { Part, PartLinks } from "./paper.jsx";
import { PlaygroundSection } from "./playground/playground.jsx";
import { DataTable } from "./tables.jsx";
import { idOf, openTarget } from "./words.js";

export function App({ data }) {
  const [picked, setPicked] = useState(null);
  const pick = useCallback((claim, name) => setPicked({ claim, name }), []);
  const library = useMemo(() => libraryOf(data.settings), [data]);
  const parts = data.parts ?? [];
  return (
    <>
      <a class="skip" href="#content">Skip to the content</a>
      <div class="frame">
        <aside class="side"><Foldable><Contents data={data} /></Foldable></aside>
        <main id="content">
          <header class="top">
            <div>
              <h1>{data.title}</h1>
              <Made made={data.made} />
              {parts.length > 0 && (data.playgrounds ?? []).length > 0 && (
                <p class="small no-print"><a href="#playground">Play with a random body</a>: it computes in this page.</p>
              )}
            </div>
            <div class="bar small no-print">
              <OpenAll />
              <Theme />
            </div>
          </header>
          {parts.map((part) => <Part key={part.scale + part.folder} part={part} inside={data.inside ?? []} playgrounds={data.playgrounds ?? []} pick={pick} />)}
          {(data.own ?? []).length > 0 && <Own groups={data.own} pick={pick} hasPaper={parts.length > 0} data={data} library={library} />}
          {(data.playgrounds ?? []).length > 0 && <PlaygroundSection playgrounds={data.playgrounds} />}
          {(data.inside ?? []).length > 0 && <Inside inside={data.inside} />}
          {(data.benches ?? []).length > 0 && <Speed benches={data.benches} />}
          <footer class="small quiet">
            <p>
              This file holds everything it shows and requests nothing. Made by <Command text={data.made.command} /> (icecore{" "}
              {data.made.icecore}, commit {data.made.commit}). Drawn with Observable Plot and Preact; their licences are in the
              source of this page.
            </p>
          </footer>
        </main>
      </div>
      <CellDialog picked={picked} data={data} library={library} onClose={() => setPicked(null)} />
    </>
  );
}

const NARROW = window.matchMedia("(max-width: 60rem)"); // as in style.css

// The contents: beside the page, and folded above it where there is no room, so that verdicts come first.
function Foldable({ children }) {
  const [isNarrow, setNarrow] = useState(NARROW.matches);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const change = () => setNarrow(NARROW.matches);
    NARROW.addEventListener("change", change);
    return () => NARROW.removeEventListener("change", change);
  }, []);
  if (!isNarrow) return children;
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)} onClick={(event) => event.target.closest("a") && setOpen(false)}>
      <summary>Contents</summary>
      {children}
    </details>
  );
}

// Opens every part that is folded, before a search or a print.
function OpenAll() {
  const open = () => document.querySelectorAll("main details").forEach((each) => (each.open = true));
  return <button type="button" onClick={open}>Open all parts</button>;
}

function Made({ made }) {
  return <p class="small quiet">{made.at}, icecore {made.icecore}, commit {made.commit}</p>;
}

function Contents({ data }) {
  return (
    <nav aria-label="Contents">
      <ul>
        {(data.parts ?? []).map((part) => <PartLinks key={part.scale + part.folder} part={part} />)}
        {(data.own ?? []).length > 0 && (
          <li>
            <a href="#runs">Runs</a>
            <ul>{data.own.map((group) => <li><a href={`#${idOf("runs", group.task)}`}>{group.task}</a></li>)}</ul>
          </li>
        )}
        {(data.playgrounds ?? []).length > 0 && (
          <li>
            <a href="#playground">Playground</a>
            <ul>{data.playgrounds.map((each) => <li><a href={`#${idOf("playground", each.run)}`} onClick={openTarget}>{each.task.name}</a></li>)}</ul>
          </li>
        )}
        {(data.inside ?? []).length > 0 && <li><a href="#inside">What is inside</a></li>}
        {(data.benches ?? []).length > 0 && <li><a href="#speed">Speed</a></li>}
      </ul>
    </nav>
  );
}

function Theme() {
  const [theme, setTheme] = useState("auto");
  useEffect(() => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  }, [theme]);
  return (
    <label>
      Colours{" "}
      <select value={theme} onChange={(event) => setTheme(event.target.value)}>
        <option value="auto">as the system</option>
        <option value="light">light</option>
        <option value="dark">dark</option>
      </select>
    </label>
  );
}

// Times are per step: of one seed or, of language models, of the batch.
const captionOf = ({ title, headings }) => (headings.some((heading) => heading.endsWith(", ms")) ? `${title}: milliseconds per training step` : title);

function Speed({ benches }) {
  return (
    <section aria-labelledby="speed">
      <h2 id="speed">Speed</h2>
      <p class="quiet">Tables of stored benchmarks (<code>icecore bench</code>): each row was measured in one run, beside its references.</p>
      {benches.map((table) => (
        <details key={table.title}>
          <summary>{table.title}</summary>
          <DataTable {...table} caption={captionOf(table)} />
          {table.command && <p class="small quiet">Made by <Command text={table.command} />, commit {table.commit}, on {table.device}, torch {table.torch}.</p>}
        </details>
      ))}
    </section>
  );
}
