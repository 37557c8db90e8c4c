// The whole page: contents, sections, and the dialog of a cell.
import { useCallback, useEffect, useState } from "preact/hooks";
import { CellDialog } from "./cell.jsx";
import { Inside } from "./inside.jsx";
import { Own } from "./own.jsx";
import { Part, PartLinks } from "./paper.jsx";
import { PlaygroundSection } from "./playground/playground.jsx";
import { DataTable } from "./tables.jsx";
import { idOf } from "./words.js";

export function App({ data }) {
  const [picked, setPicked] = useState(null);
  const pick = useCallback((claim, name) => setPicked({ claim, name }), []);
  const parts = data.parts ?? [];
  return (
    <>
      <a class="skip" href="#content">Skip to the content</a>
      <div class="frame">
        <aside class="side"><Contents data={data} /></aside>
        <main id="content">
          <header class="top">
            <div>
              <h1>{data.title}</h1>
              <Made made={data.made} />
            </div>
            <Theme />
          </header>
          {parts.map((part) => <Part key={part.scale + part.folder} part={part} settings={data.settings} pick={pick} />)}
          {(data.own ?? []).length > 0 && <Own groups={data.own} pick={pick} hasPaper={parts.length > 0} data={data} />}
          {(data.playgrounds ?? []).length > 0 && <PlaygroundSection playgrounds={data.playgrounds} />}
          {(data.inside ?? []).length > 0 && <Inside inside={data.inside} />}
          {(data.benches ?? []).length > 0 && <Speed benches={data.benches} />}
          <footer class="small quiet">
            <p>
              This file holds everything it shows and requests nothing. Made by <code>{data.made.command}</code> (icecore{" "}
              {data.made.icecore}, commit {data.made.commit}). Drawn with Observable Plot and Preact; their licences are in the
              source of this page.
            </p>
          </footer>
        </main>
      </div>
      <CellDialog picked={picked} data={data} onClose={() => setPicked(null)} />
    </>
  );
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
        {(data.playgrounds ?? []).length > 0 && <li><a href="#playground">Playground</a></li>}
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
    <label class="small no-print">
      Colours{" "}
      <select value={theme} onChange={(event) => setTheme(event.target.value)}>
        <option value="auto">as the system</option>
        <option value="light">light</option>
        <option value="dark">dark</option>
      </select>
    </label>
  );
}

function Speed({ benches }) {
  return (
    <section aria-labelledby="speed">
      <h2 id="speed">Speed</h2>
      <p class="quiet">Tables of stored benchmarks (<code>icecore bench</code>): each row was measured in one run, beside its references.</p>
      {benches.map((table) => (
        <details key={table.title}>
          <summary>{table.title}</summary>
          <DataTable {...table} />
        </details>
      ))}
    </section>
  );
}
