// The dialog of a cell: our number beside the paper's, each seed, its runs, curves and configuration.
import { useEffect, useRef, useState } from "preact/hooks";
import { Drawing } from "./charts.jsx";
import { drawCurves, drawSeeds } from "./draw.js";
import { Chip, DataTable } from "./tables.jsx";
import { counted, duration, inWords, short } from "./words.js";

export function CellDialog({ picked, data, onClose }) {
  const dialog = useRef(null);
  useEffect(() => {
    if (picked && !dialog.current.open) dialog.current.showModal();
    if (picked) dialog.current.scrollTop = 0;
  }, [picked]);
  const setting = picked && data.settings[picked.claim.setting];
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="cell-title" onClick={(event) => event.target === dialog.current && dialog.current.close()}>
      {picked && (
        <>
          <div class="head">
            <div>
              <p class="small quiet">{picked.name}</p>
              <h2 id="cell-title">{picked.claim.cell}</h2>
            </div>
            <button type="button" onClick={() => dialog.current.close()}>Close</button>
          </div>
          <div class="body">
            <Numbers claim={picked.claim} />
            {setting ? <Runs key={picked.claim.setting} setting={setting} curves={data.curves} /> : <Compared claim={picked.claim} />}
          </div>
        </>
      )}
    </dialog>
  );
}

function Numbers({ claim }) {
  const values = claim.values ?? [];
  const facts = [
    ["ours", `${claim.shown.ours ?? "not finished"}${claim.n ? `, ${claim.worst ? "the worst" : "the median"} of ${counted(claim.n, "seed")}` : ""}`],
    ["95 % interval", claim.shown.interval],
    ["range of the seeds", claim.shown.spread],
    ["the paper", claim.shown.paper],
    ["tolerance", claim.tolerance && `${claim.tolerance}: ${claim.reason}`],
    ["best baseline", claim.shown.baseline && `${claim.shown.baseline}: a rule that needs no learning`],
    ["null", claim.null && `${claim.shown.null}: ${claim.null.name}${claim.null.agrees ? ", which would pass too" : ""}`],
    ["p of no difference", claim.p !== undefined && short(claim.p)],
    ["exact match", claim.exact !== undefined && claim.exact.toFixed(1)],
    ["notes", claim.note],
  ];
  return (
    <>
      {(claim.shown.paper || claim.verdict !== "nothing to compare with") && <p><Chip verdict={claim.verdict} /></p>}
      <dl class="facts">{facts.filter(([, text]) => text).map(([name, text]) => <><dt>{name}</dt><dd>{text}</dd></>)}</dl>
      {values.length > 0 && (
        <figure class="chart">
          <figcaption>Each seed{typeof claim.paper === "number" ? ", and the paper's number (green line; its tolerance is shaded)" : ""}</figcaption>
          <Drawing label={`Values of ${counted(values.length, "seed")}: ${values.map(short).join(", ")}`} draw={(width) => drawSeeds({ ...claim, values }, Math.min(width, 700))} parts={[claim]} />
          <p class="small quiet">Dots are seeds{claim.interval ? ", the bar is the interval of our median" : ""}{claim.baseline !== undefined ? ", the dotted line is the baseline" : ""}.</p>
        </figure>
      )}
    </>
  );
}

function Compared({ claim }) {
  if (!claim.compared) return <p class="quiet small">The records name no single configuration behind this number; see the commands below its table.</p>;
  const rows = claim.compared.cells.map((values, index) => [String(index + 1), values.length, values.map(short).join(", ")]);
  return (
    <>
      <h4>Compares the medians of several cells ({claim.compared.how})</h4>
      <DataTable title={`${claim.cell}, cells`} caption="" headings={["cell", "seeds", "values"]} rows={rows} sides={["left", "right", "left"]} />
    </>
  );
}

const isShare = (name) => /accuracy|match/.test(name);
const shown = (name, value) => (isShare(name) && typeof value === "number" ? value.toFixed(4) : short(value));
const COLUMNS = ["accuracy", "exact_match", "loss", "best_loss"];

export function Runs({ setting, curves }) {
  const runs = setting.runs;
  const numbers = COLUMNS.filter((name) => runs.some((run) => run.numbers[name] !== undefined));
  const others = [...new Set(runs.flatMap((run) => Object.keys(run.numbers)))].filter((name) => !COLUMNS.includes(name));
  const headings = ["seed", ...[...numbers, ...others].map((name) => name.replaceAll("_", " ")), "precision", "steps", "time", "device", "commit", "run"];
  const rows = runs.map((run) => [
    run.seed,
    ...[...numbers, ...others].map((name) => shown(name, run.numbers[name])),
    run.precision ?? "",
    run.unfinished !== undefined ? `unfinished, at step ${short(run.unfinished)}` : short(run.steps),
    run.seconds === undefined ? "" : `${duration(run.seconds)}${run.seeds_at_once > 1 ? ` for ${run.seeds_at_once}` : ""}`,
    run.device ?? "",
    run.commit ?? "",
    run.run,
  ]);
  const commands = [...new Set(runs.map((run) => run.command).filter(Boolean))];
  const sides = headings.map((_, column) => (column <= numbers.length + others.length ? "right" : "left"));
  return (
    <>
      <h4>{counted(runs.length, "run")}</h4>
      <DataTable title={`${setting.label}, runs`} caption="" headings={headings} rows={rows} sides={sides} />
      {commands.length > 0 && (
        <>
          <h4>Commands</h4>
          {commands.map((command) => <p><code>{command}</code></p>)}
        </>
      )}
      <Curves runs={runs} curves={curves} />
      <Configuration setting={setting} />
    </>
  );
}

function Curves({ runs, curves }) {
  const own = runs.filter((run) => run.curve);
  const names = [...new Set(own.flatMap((run) => Object.keys(curves[run.curve[0]])))];
  const [chosen, setChosen] = useState(null);
  const [isLog, setLog] = useState(true);
  if (own.length === 0) return <p class="small quiet">No curves are stored for these runs: they are in run folders, and this page was made from records.</p>;
  const name = names.includes(chosen) ? chosen : (names.find((each) => each === "loss") ?? names[0]);
  const rows = own.flatMap((run) => {
    const series = curves[run.curve[0]][name];
    return series ? series.steps.map((x, index) => ({ x, y: series.values[run.curve[1]][index], z: run.seed })) : [];
  });
  const every = Math.max(...own.map((run) => curves[run.curve[0]][name]?.every ?? 1));
  const canLog = !isShare(name);
  return (
    <>
      <h4>Curves</h4>
      <div class="bar small">
        <label>
          Measure{" "}
          <select value={name} onChange={(event) => setChosen(event.target.value)}>
            {names.map((each) => <option value={each}>{each.replaceAll("_", " ")}</option>)}
          </select>
        </label>
        {canLog && <label><input type="checkbox" checked={isLog} onChange={() => setLog(!isLog)} /> logarithmic</label>}
      </div>
      <Drawing label={`${name} against the step, a line per seed`} draw={(width) => drawCurves(rows, { label: name.replaceAll("_", " "), width: Math.min(width, 760), isLog: canLog && isLog })} parts={[name, isLog, runs]} />
      <p class="small quiet">A line per seed{every > 1 ? `; one in ${every} of the logged values` : ""}.</p>
    </>
  );
}

function Configuration({ setting }) {
  const { config } = setting;
  const phases = config.phases ?? [config];
  const facts = [
    ["task", `${config.task.name}: ${inWords(config.task.settings)}`],
    ["task file", config.task.file && `${config.task.file}, SHA-256 ${config.task.source}`],
    ["body", `${config.model.name}: ${inWords(config.model.settings)}`],
    ["body file", config.model.file && `${config.model.file}, SHA-256 ${config.model.source}`],
    ...phases.map((phase, index) => [phases.length > 1 ? `phase ${index + 1}` : "trained", `${phase.trainable}: ${inWords(phase.optimization)}`]),
    ["positions", config.positions],
    ["data seed", config.data_seed],
    ["baselines", setting.baselines && inWords(setting.baselines)],
    ["baselines of the loss", setting.loss_baselines && inWords(setting.loss_baselines)],
    ["parameters", setting.trained_parameters !== undefined && `${short(setting.trained_parameters)} trained, ${short(setting.frozen_parameters)} frozen`],
  ];
  return (
    <>
      <h4>Configuration</h4>
      <dl class="facts">{facts.filter(([, text]) => text !== undefined && text !== false && text !== "").map(([name, text]) => <><dt>{name}</dt><dd>{text}</dd></>)}</dl>
    </>
  );
}
