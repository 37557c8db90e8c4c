// The dialog of a cell: our number beside the paper's, the runs whose values count, their curves and configuration.
import { useEffect, useRef } from "preact/hooks";
import { Drawing } from "./charts.jsx";
import { Command } from "./command.jsx";
import { Curves } from "./curves.jsx";
import { drawSeeds } from "./draw.js";
import { settingsOf, valuesOf } from "./library.js";
import { Chip, DataTable } from "./tables.jsx";
import { counted, duration, idOf, inWords, isShare, median, short } from "./words.js";

export function CellDialog({ picked, data, library, onClose }) {
  const dialog = useRef(null);
  useEffect(() => {
    if (picked && !dialog.current.open) dialog.current.showModal();
    if (picked) dialog.current.scrollTop = 0;
  }, [picked]);
  const close = () => dialog.current.close();
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="cell-title" onClick={(event) => event.target === dialog.current && close()}>
      {picked && (
        <>
          <div class="head">
            <div>
              <p class="small quiet">{picked.name}</p>
              <h2 id="cell-title">{picked.claim.cell}</h2>
            </div>
            <button type="button" onClick={close}>Close</button>
          </div>
          <div class="body">
            <Numbers claim={picked.claim} />
            <Sources key={picked.claim.cell} claim={picked.claim} data={data} library={library} onLeave={close} />
          </div>
        </>
      )}
    </dialog>
  );
}

// How a claim's number follows from its runs.
function reckoned(claim) {
  const sources = claim.sources ?? [];
  if (claim.compared) return `${claim.compared} of medians, of at least ${counted(claim.n, "seed")} each`;
  const which = claim.worst ? "the worst" : "the median";
  if (claim.draws) return `${which} of ${counted(claim.n, "run")} over ${claim.draws} data seeds`;
  const areCells = sources.length > 1 && !claim.values && sources.some((source) => !source.analysis);
  return `${which} of ${counted(claim.n, areCells ? "cell" : "seed")}`;
}

function Numbers({ claim }) {
  const values = claim.ours === undefined && claim.sources ? [] : valuesOf(claim); // those of a claim without a number are of its cells
  const facts = [
    ["ours", claim.shown.ours === undefined ? (claim.n ? "no number" : "not finished") : `${claim.shown.ours}${claim.n ? `, ${reckoned(claim)}` : ""}`],
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
          <p class="small quiet">
            Dots are seeds{claim.interval ? ", the bar is the interval of our median" : ""}
            {typeof claim.baseline === "number" ? ", the dotted line is the baseline; an arrow says that it is beyond the edge" : ""}.
          </p>
        </figure>
      )}
    </>
  );
}

const MANY = 2; // more cells are folded

// The cells behind a claim: their runs or, of what was measured inside a run, the stored analysis.
export function Sources({ claim, data, library, onLeave }) {
  const sources = (claim.sources ?? []).length > 0 ? claim.sources : claim.setting ? [{ cell: claim.cell, values: [], runs: [] }] : [];
  if (sources.length === 0) return <p class="quiet small">No run is behind this number: it is counted from the configuration, by <code>icecore claims</code>.</p>;
  const analyses = sources.filter((source) => source.analysis);
  const cells = sources.filter((source) => !source.analysis);
  return (
    <>
      {sources.length > 1 && cells.length > 0 && <Cells sources={sources} how={claim.compared} />}
      {analyses.map((source) => <StoredAnalysis key={source.analysis} source={source} inside={data.inside ?? []} onLeave={onLeave} />)}
      {cells.flatMap((source, index) =>
        settingsOf(source, library, data.settings[claim.setting]).map((found) => (
          <Folded key={`${index} ${source.cell}`} isFolded={cells.length > MANY} title={`${source.cell}: ${counted(found.counted.length, "run")}`} isNamed={cells.length > 1}>
            <Runs {...found} curves={data.curves} />
          </Folded>
        )),
      )}
    </>
  );
}

function Folded({ isFolded, isNamed, title, children }) {
  if (isFolded) return <details class="cell-runs"><summary>{title}</summary>{children}</details>;
  return <>{isNamed && <h3>{title}</h3>}{children}</>;
}

function Cells({ sources, how }) {
  const rows = sources.map(({ cell, values = [] }) => [cell, values.length, values.length ? short(median(values)) : "", values.map(short).join(", ")]);
  return (
    <>
      <h4>{how ? `Compares the medians of ${counted(sources.length, "cell")}: ${how}` : `From ${counted(sources.length, "cell")}`}</h4>
      <DataTable title="cells behind the number" caption="" headings={["cell", "seeds", "median", "values"]} rows={rows} sides={["left", "right", "right", "left"]} cards />
    </>
  );
}

function StoredAnalysis({ source, inside, onLeave }) {
  const stored = inside.find((each) => each.title === source.analysis);
  const open = () => {
    onLeave?.();
    document.getElementById(idOf("inside", source.analysis)).open = true;
  };
  if (!stored) return <p class="small">{short(source.values[0])}: from the stored analysis {source.analysis}, which is not in this page.</p>;
  return (
    <p class="small">
      {short(source.values[0])}: <a href={`#${idOf("inside", source.analysis)}`} onClick={open}>{source.analysis}</a>, made by <Command text={stored.command} />, commit {stored.commit}, on {stored.device}.
    </p>
  );
}

const shown = (name, value) => (isShare(name) && typeof value === "number" ? value.toFixed(4) : short(value));
const COLUMNS = ["accuracy", "exact_match", "loss", "best_loss"];

function whyNot(run, own) {
  if (run.unfinished !== undefined) return "no: unfinished";
  const precision = own[0]?.run.precision;
  return precision && run.precision !== precision ? `no: ${run.precision}` : "no: not measured";
}

function Runs({ setting, counted: own, others, curves }) {
  const rowsOf = [...own.map(({ run, value }) => ({ run, value: short(value) })), ...others.map((run) => ({ run, value: whyNot(run, own) }))];
  const runs = rowsOf.map(({ run }) => run);
  const known = COLUMNS.filter((name) => runs.some((run) => run.numbers[name] !== undefined));
  const numbers = [...known, ...[...new Set(runs.flatMap((run) => Object.keys(run.numbers)))].filter((name) => !COLUMNS.includes(name))];
  const headings = ["seed", "counted here", ...numbers.map((name) => name.replaceAll("_", " ")), "precision", "steps", "time", "device", "commit", "run"];
  const rows = rowsOf.map(({ run, value }) => [
    run.seed,
    value,
    ...numbers.map((name) => shown(name, run.numbers[name])),
    run.precision ?? "",
    run.unfinished !== undefined ? `unfinished, at step ${short(run.unfinished)}` : short(run.steps),
    run.seconds === undefined ? "" : `${duration(run.seconds)}${run.seeds_at_once > 1 ? ` for ${run.seeds_at_once}` : ""}`,
    run.device ?? "",
    run.commit ?? "",
    run.run,
  ]);
  const commands = [...new Set(runs.map((run) => run.command).filter(Boolean))];
  const sides = headings.map((_, column) => (column <= numbers.length + 1 ? "right" : "left"));
  return (
    <>
      <h4>{counted(own.length, "run")}{others.length > 0 ? `, and ${others.length} that ${others.length === 1 ? "is" : "are"} not counted` : ""}</h4>
      <DataTable title={`${setting.label}, runs`} caption="" headings={headings} rows={rows} sides={sides} cards="named" />
      {commands.length > 0 && (
        <>
          <h4>Commands</h4>
          {commands.map((command) => <p><Command text={command} /></p>)}
        </>
      )}
      <Curves title={setting.label} runs={runs} curves={curves} />
      <Configuration setting={setting} />
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
