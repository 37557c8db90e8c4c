// Analyses of single runs, each beside the same body before training.
import { useState } from "preact/hooks";
import { Command } from "./command.jsx";
import { AnyChart } from "./figures.jsx";
import { Guard } from "./guard.jsx";
import { DataTable } from "./tables.jsx";
import { idOf } from "./words.js";

export function Inside({ inside }) {
  return (
    <section aria-labelledby="inside">
      <h2 id="inside">What is inside</h2>
      <p class="quiet">Measurements of single runs (<code>icecore analyze</code>), each beside the same body before training.</p>
      {inside.map((run) => <Measured key={run.title} run={run} isOpen={inside.length === 1} />)}
    </section>
  );
}

function Measured({ run, isOpen }) {
  const [isSeen, setSeen] = useState(isOpen); // charts are drawn when they are first seen
  return (
    <details id={idOf("inside", run.title)} open={isOpen} onToggle={(event) => event.currentTarget.open && setSeen(true)}>
      <summary>{run.title} <span class="quiet small">{[run.run, run.analyses.map((analysis) => analysis.name).join(", ")].filter(Boolean).join(": ")}</span></summary>
      {isSeen && (
        <>
          {run.analyses.map((analysis) => (
            <section key={analysis.name}>
              <h3>{analysis.name}</h3>
              {analysis.about && <p class="quiet">{analysis.about}</p>}
              <div class={analysis.charts.length === 2 && analysis.charts.every((chart) => chart.words) ? "pair" : ""}>
                {analysis.charts.map((chart) => <Guard name={chart.title}><AnyChart chart={chart} of={run.title} /></Guard>)}
              </div>
              {analysis.charts.length === 1 && analysis.charts[0].words && <p class="small quiet">This file holds no maps of the untrained body; icecore analyze measures them again.</p>}
              {analysis.tables.map((table) => <DataTable {...table} title={`${run.title}: ${table.title}`} caption={table.title} />)}
            </section>
          ))}
          {run.command && <p class="small quiet">Made by <Command text={run.command} />, commit {run.commit}, on {run.device}.</p>}
        </>
      )}
    </details>
  );
}
