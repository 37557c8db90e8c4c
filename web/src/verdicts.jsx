// The first screen: findings, the number of claims by verdict, and a row per table or figure.
import { counted, idOf, JUDGED, look, unbroken, VERDICTS } from "./words.js";

export const idOfPart = (part) => idOf("verdicts", part.scale, part.folder);
export const idOfExperiment = (part, experiment) => idOf(part.scale, part.folder, experiment.name);

const PRESETS = {
  released: "settings of the authors' scripts",
  unfiltered: "settings of the authors' scripts, with test items left in the training data",
  reconstructed: "unfiltered, with the batch of two GPUs and the text's rate for LSTMs",
  paper: "settings of the paper's text",
};

export function Preset({ part, preset, setPreset }) {
  return (
    <>
      <fieldset class="bar no-print">
        <legend>Preset</legend>
        {part.presets.map((name) => (
          <label><input type="radio" name={idOfPart(part)} checked={name === preset} onChange={() => setPreset(name)} /> {name}</label>
        ))}
      </fieldset>
      <p class="small quiet">Preset {preset}: {PRESETS[preset]}.</p>
    </>
  );
}

export function Findings({ part, preset }) {
  const found = part.findings[preset];
  if (found.length === 0) return null;
  return <ul class="findings">{found.map((sentence) => <li>{unbroken(sentence)}</li>)}</ul>;
}

function total(shown, preset, which) {
  const sums = {};
  for (const experiment of shown) {
    for (const [verdict, count] of Object.entries(experiment.presets[preset].counts[which])) sums[verdict] = (sums[verdict] ?? 0) + count;
  }
  return sums;
}

const sumOf = (counts) => Object.values(counts).reduce((sum, count) => sum + count, 0);

export function Verdicts({ part, shown, preset }) {
  const judged = total(shown, preset, "judged");
  const [few, inside] = ["few", "inside"].map((name) => shown.reduce((sum, { presets }) => sum + presets[preset].counts[name], 0));
  const beyond = shown.filter((experiment) => experiment.beyond);
  return (
    <>
      <p>Of {counted(sumOf(judged), "claim")} of the paper that a run could contradict:</p>
      <ul class="tiles" aria-label="Verdicts">
        {JUDGED.map((verdict) => (
          <li class={`tile ${look(verdict).look}`} title={look(verdict).means}>
            <b>{judged[verdict] ?? 0}</b> <span aria-hidden="true">{look(verdict).sign}</span> {verdict}
          </li>
        ))}
      </ul>
      {judged.undecided > 0 && (
        <p class="small">
          {judged.undecided} undecided: {few} have fewer than 5 seeds, which give no interval; {inside} have our median inside the tolerance.
        </p>
      )}
      <details class="no-print">
        <summary>What the verdicts mean</summary>
        <Meanings />
      </details>
      <div class="print-only"><Meanings /></div>
      <VerdictTable part={part} title="The paper" headings={["table or figure", "verdicts", "in numbers"]}>
        {shown.filter((experiment) => !experiment.beyond).map((experiment) => <VerdictRow part={part} experiment={experiment} preset={preset} />)}
      </VerdictTable>
      {beyond.length > 0 && (
        <VerdictTable part={part} title="Beyond the paper" headings={["question", "numbers"]}>
          {beyond.map((experiment) => <BeyondRow part={part} experiment={experiment} preset={preset} />)}
        </VerdictTable>
      )}
    </>
  );
}

function Meanings() {
  return <dl class="facts">{Object.entries(VERDICTS).map(([verdict, { sign, means }]) => <><dt>{sign} {verdict}</dt><dd>{means}</dd></>)}</dl>;
}

function VerdictTable({ title, headings, children }) {
  return (
    <div class="wide" tabIndex={0} role="region" aria-label={title}>
      <table class="verdicts">
        <caption>{title}</caption>
        <thead><tr>{headings.map((heading) => <th scope="col">{heading}</th>)}</tr></thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

function Title({ part, experiment }) {
  return <th scope="row"><a href={`#${idOfExperiment(part, experiment)}`}>{experiment.heading}</a> <span class="quiet small">{experiment.title.replace(" (not in the paper)", "")}</span></th>;
}

// Verdicts of claims that a run could contradict; other numbers are only counted.
function VerdictRow({ part, experiment, preset }) {
  const { judged, all } = experiment.presets[preset].counts;
  const order = JUDGED.filter((verdict) => judged[verdict]);
  const others = sumOf(all) - sumOf(judged);
  const words = order.map((verdict) => `${judged[verdict]} ${verdict}`);
  if (others > 0) words.push(`${counted(others, "number")} without a verdict`);
  return (
    <tr>
      <Title part={part} experiment={experiment} />
      <td>
        {order.length > 0 && (
          <div class="stack" aria-hidden="true">
            {order.map((verdict) => <span class={`${look(verdict).look} solid`} style={{ width: `${(100 * judged[verdict]) / sumOf(judged)}%` }} />)}
          </div>
        )}
      </td>
      <td class="small">{words.join(", ") || "no claims"}</td>
    </tr>
  );
}

function BeyondRow({ part, experiment, preset }) {
  const { all } = experiment.presets[preset].counts;
  const notRun = all["not run"] ?? 0;
  return (
    <tr>
      <Title part={part} experiment={experiment} />
      <td class="small">{sumOf(all) - notRun} measured{notRun > 0 ? `, ${notRun} not run` : ""}</td>
    </tr>
  );
}
