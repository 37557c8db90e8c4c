// Curves of runs: a line per seed, and what is said of runs without one.
import { useState } from "preact/hooks";
import { Drawing, SaveFigure } from "./charts.jsx";
import { drawCurves } from "./draw.js";
import { svgOf } from "./save.js";
import { counted, isShare } from "./words.js";

export function Curves({ title, runs, curves }) {
  const own = runs.filter((run) => run.curve);
  const names = [...new Set(own.flatMap((run) => Object.keys(curves[run.curve[0]])))];
  const [chosen, setChosen] = useState(null);
  const [isLog, setLog] = useState(true);
  if (own.length === 0) return <p class="small quiet">No curves: these runs are known from records without any. Curves are in run folders, and <code>icecore report FOLDER</code> shows them.</p>;
  const name = names.includes(chosen) ? chosen : (names.find((each) => each === "loss") ?? names[0]);
  const rows = own.flatMap((run) => {
    const series = curves[run.curve[0]][name];
    return series ? series.steps.map((x, index) => ({ x, y: series.values[run.curve[1]][index], z: run.seed })) : [];
  });
  const every = Math.max(...own.map((run) => curves[run.curve[0]][name]?.every ?? 1));
  const items = own.map((run) => curves[run.curve[0]][name]?.items).find(Boolean);
  const steps = own.flatMap((run) => Object.values(curves[run.curve[0]]).flatMap((series) => [series.steps[0], series.steps.at(-1)]));
  const span = [Math.min(...steps), Math.max(...steps)]; // of all measures, so that they can be compared
  const canLog = !isShare(name);
  const label = name.replaceAll("_", " ");
  const draw = (width) => drawCurves(rows, { label, width: Math.min(width, 760), isLog: canLog && isLog, span });
  const heading = `${title}: ${label}`;
  return (
    <figure class="chart">
      <figcaption>Curves</figcaption>
      <div class="bar small">
        <label>
          Measure{" "}
          <select value={name} onChange={(event) => setChosen(event.target.value)}>
            {names.map((each) => <option value={each}>{each.replaceAll("_", " ")}</option>)}
          </select>
        </label>
        {canLog && <label><input type="checkbox" checked={isLog} onChange={() => setLog(!isLog)} /> logarithmic</label>}
        <span class="space" />
        <SaveFigure title={heading} whole={() => svgOf(heading, [{ name: "", svg: draw(760) }], [])} headings={["seed", "step", label]} rows={() => rows.map(({ x, y, z }) => [z, x, y])} />
      </div>
      <Drawing label={`${label} against the step, a line per seed`} draw={draw} parts={[name, isLog, runs]} />
      <p class="small quiet">
        A line per seed{every > 1 ? `; one in ${every} of the logged values` : ""}{items ? `; on the way, some values are of ${items} test items` : ""}.
        {own.length < runs.length ? ` ${own.length} of ${counted(runs.length, "run")}: the others are known from records without a curve.` : ""}
      </p>
    </figure>
  );
}
