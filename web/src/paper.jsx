// The paper's tables and figures: verdicts on top, then one section each.
import { useState } from "preact/hooks";
import { Command } from "./command.jsx";
import { AnyChart } from "./figures.jsx";
import { Grid } from "./grid.jsx";
import { claimOfDot } from "./library.js";
import { DataTable } from "./tables.jsx";
import { Findings, idOfExperiment, idOfPart, Preset, Verdicts } from "./verdicts.jsx";
import { counted, duration, idOf, openTarget } from "./words.js";

const isShown = (experiment) => !experiment.missing;
const isLeft = (claim) => claim.verdict === "not run";
const measured = (shown) => (shown.claims ?? []).filter((claim) => claim.ours !== undefined);
const withoutNumber = (shown) => (shown.claims ?? []).filter((claim) => claim.ours === undefined && !isLeft(claim)); // such as "> 64"

const inShort = (title) => title.replace(/ \(.*|[,:;].*/, "");

export function PartLinks({ part }) {
  return (
    <li>
      <a href={`#${idOfPart(part)}`}>Verdicts{part.scale === "paper" ? "" : `, ${part.scale} scale`}</a>
      <ul>
        {part.experiments.filter(isShown).map((experiment) => (
          <li><a href={`#${idOfExperiment(part, experiment)}`} title={experiment.title}>{experiment.heading} <span class="quiet">{inShort(experiment.title)}</span></a></li>
        ))}
      </ul>
    </li>
  );
}

export function Part({ part, pick, inside, playgrounds }) {
  const [preset, setPreset] = useState(part.presets[0]);
  const shown = part.experiments.filter(isShown);
  const left = part.experiments.filter((experiment) => experiment.missing);
  return (
    <section>
      <h2 id={idOfPart(part)}>{part.scale === "paper" ? "Verdicts" : `Verdicts at ${part.scale} scale`}</h2>
      {part.scale !== "paper" && <p class="quiet">Smaller tasks and bodies than the paper's, under the paper's names: a claim holds if it falls on the same side of a threshold.</p>}
      <Preset part={part} preset={preset} setPreset={setPreset} />
      <Findings part={part} preset={preset} />
      <Verdicts part={part} shown={shown} preset={preset} />
      {left.map((experiment) => <Missing key={experiment.name} experiment={experiment} inside={inside} playgrounds={playgrounds} />)}
      {shown.map((experiment) => (
        <ExperimentSection key={experiment.name} part={part} experiment={experiment} preset={preset} pick={pick} inside={inside} />
      ))}
    </section>
  );
}

// A figure of one run: where the page has it, or how to make it.
function Missing({ experiment, inside, playgrounds }) {
  const shown = inside.filter((run) => run.analyses.some(({ name }) => name === experiment.analysis));
  const circles = experiment.analysis === "modular" ? playgrounds.filter((each) => each.picture.cyclic) : [];
  const places = [...shown.map(({ title }) => [idOf("inside", title), title]), ...circles.map(({ run }) => [idOf("playground", run), "the playground"])];
  return (
    <p class="small quiet">
      {experiment.heading}, {experiment.title}:{" "}
      {places.length === 0 ? experiment.missing : places.map(([id, words], index) => <>{index > 0 && ", "}<a href={`#${id}`} onClick={openTarget}>{words}</a></>)}.
    </p>
  );
}

function ExperimentSection({ part, experiment, preset, pick, inside }) {
  const shown = experiment.presets[preset];
  const claims = shown.claims ?? [];
  const [done, open] = [measured(shown), withoutNumber(shown)];
  const label = `${experiment.heading}: ${experiment.title}`;
  const pickDot = (dot) => pick(claimOfDot(done, dot), label);
  return (
    <section class="experiment" aria-labelledby={idOfExperiment(part, experiment)}>
      <h3 id={idOfExperiment(part, experiment)}>{label}</h3>
      {done.length + open.length === 0 ? (
        <p class="quiet">Nothing is recorded with this preset. To train it: <Command text={`${experiment.command} --preset ${preset}`} /></p>
      ) : (
        <>
          {(shown.charts ?? []).map((chart) => <AnyChart key={`${preset} ${chart.title}`} chart={chart} heading={label} onPick={pickDot} />)}
          <Grid claims={done.filter((claim) => claim.row !== undefined)} pick={pick} name={label} />
          <ClaimList claims={[...done, ...open].filter((claim) => claim.row === undefined)} pick={pick} name={label} />
          <NotRun claims={claims.filter(isLeft)} command={`${experiment.command} --preset ${preset}`} />
          <AllNumbers claims={[...done, ...open]} pick={pick} name={label} />
          <MadeBy name={label} made={shown.made_by} analyses={analysesOf(done, inside)} />
        </>
      )}
    </section>
  );
}

// The stored analyses that claims are read from.
function analysesOf(claims, inside) {
  const names = new Set(claims.flatMap((claim) => claim.sources ?? []).map((source) => source.analysis));
  return inside.filter((stored) => names.has(stored.title));
}

function ClaimList({ claims, pick, name }) {
  if (claims.length === 0) return null;
  const headings = ["claim", "ours", "paper", "range", "baseline or null", "seeds", "verdict", "measured"];
  const rows = claims.map((claim) => [
    claim.cell,
    claim.shown.ours ?? "",
    claim.shown.paper ?? "",
    claim.tolerance ?? "",
    claim.shown.null ?? claim.shown.baseline ?? "",
    claim.n ?? 0,
    claim.verdict,
    claim.note ?? "",
  ]);
  const lead = (_row, index) => <button type="button" class="link" onClick={() => pick(claims[index], name)}>{claims[index].cell}</button>;
  const sides = ["left", "right", "right", "right", "right", "right", "left", "left"];
  const says = headings.map((heading, column) => rows.some((row) => row[column] !== (heading === "verdict" ? "nothing to compare with" : "")));
  const kept = (row) => row.filter((_, column) => says[column]);
  return <DataTable title={`${name}, claims`} caption="" headings={kept(headings)} rows={rows.map(kept)} sides={kept(sides)} prose={["measured"]} chips="verdict" lead={lead} cards />;
}

function AllNumbers({ claims, pick, name }) {
  const headings = ["cell", "paper", "ours", "interval", "seeds", "spread", "baseline", "tolerance", "verdict", "notes"];
  const rows = claims.map((claim) => [
    claim.cell,
    claim.shown.paper ?? "",
    claim.shown.ours ?? "",
    claim.shown.interval ?? "",
    claim.n ?? 0,
    claim.shown.spread ?? "",
    claim.shown.baseline ?? "",
    claim.tolerance ?? "",
    claim.verdict,
    claim.note ?? "",
  ]);
  const sides = ["left", ...Array(7).fill("right"), "left", "left"];
  const lead = (_row, index) => <button type="button" class="link" onClick={() => pick(claims[index], name)}>{claims[index].cell}</button>;
  return (
    <details>
      <summary>All numbers: interval, spread, baseline, tolerance, notes</summary>
      <DataTable title={`${name}, all numbers`} caption="" headings={headings} rows={rows} sides={sides} prose={["notes"]} chips="verdict" lead={lead} filterable cards />
    </details>
  );
}

function NotRun({ claims, command }) {
  if (claims.length === 0) return null;
  return (
    <details>
      <summary>{counted(claims.length, "claim")} not run</summary>
      <p class="small">To train them: <Command text={command} /></p>
      <p class="small quiet">{claims.slice(0, 400).map((claim) => claim.cell).join("; ")}{claims.length > 400 ? "; …" : ""}</p>
    </details>
  );
}

function MadeBy({ name, made = [], analyses }) {
  if (made.length + analyses.length === 0) return <p class="small quiet">No run is behind these numbers: <code>icecore claims</code> counts them from configurations.</p>;
  const [runs, seconds] = [made.reduce((sum, one) => sum + one.runs, 0), made.reduce((sum, one) => sum + one.seconds, 0)];
  const devices = [...new Set(made.flatMap((one) => one.devices))];
  const commits = [...new Set(made.flatMap((one) => one.commits))];
  const headings = ["command", "runs", "time", "device", "commit"];
  const rows = made.map((one) => [one.command, one.runs, duration(one.seconds), one.devices.join(", "), one.commits.join(", ")]);
  rows.push(...analyses.map((one) => [one.command, "an analysis", "", one.device, one.commit]));
  return (
    <details>
      <summary>
        Made by {counted(runs, "run")}, {duration(seconds)} of {devices.join(", ")}; {commits.length === 1 ? `commit ${commits[0]}` : `${commits.length} commits`}
        {analyses.length > 0 ? `; ${analyses.length} stored analyses` : ""}
      </summary>
      <DataTable title={`${name}, commands`} caption="" headings={headings} rows={rows} sides={["left", "right", "right", "left", "left"]} lead={(row) => <Command text={row[0]} />} cards />
      <p class="small quiet">Clocks of concurrent runs are added up.</p>
    </details>
  );
}
