// The token embeddings as a picture that training folds.
import * as Plot from "@observablehq/plot";
import { useMemo, useState } from "preact/hooks";
import { Drawing, SaveFigure } from "../charts.jsx";
import { colourOf, TIP } from "../draw.js";
import { svgOf } from "../save.js";
import { places, principal } from "./components.js";

const MOST_LABELS = 40;
const [NUMBERS, ENDS, OTHERS] = ["numbers", "what ends a prompt", "other tokens"];
const KINDS = { [NUMBERS]: colourOf("#0072B2"), [ENDS]: colourOf("#D55E00"), [OTHERS]: colourOf("#009E73") };

export function Embeddings({ data, weights, setIndex, snapshot, parameters }) {
  const { model, task, picture } = data;
  const set = data.sets[setIndex];
  const [pair, setPair] = useState(picture.pair);
  const end = useMemo(() => weights.all(setIndex, set.snapshots.length - 1, set.seed).token, [weights, setIndex]);
  const base = useMemo(() => principal(end, model.width), [end]);
  const reach = useMemo(() => 1.15 * Math.max(...places(end, model.width, base, pair).flat().map(Math.abs)), [base, pair]);
  const spots = places(parameters.token, model.width, base, pair)
    .map(([x, y], token) => ({ x, y, token, word: task.words[token], colour: colourOfToken(data, token) }))
    .filter(({ token }) => !task.padding?.includes(token)); // no prompt has it, so nothing trains it
  const choose = (index, value) => setPair(pair.map((each, place) => (place === index ? Number(value) : each)));
  const title = `${task.name}, embeddings at step ${set.snapshots[snapshot].step}`;
  const kinds = [...new Set(spots.map(({ token }) => kindOf(task, token)))];
  const legend = picture.cyclic ? [] : kinds.map((kind) => ({ name: kind, colour: KINDS[kind] }));
  const whole = () => svgOf(title, [{ name: "", svg: drawSpots(spots, reach, 420) }], legend);
  return (
    <figure class="chart">
      <figcaption>Token embeddings, on components of the trained ones</figcaption>
      <Drawing label={`Embeddings of ${spots.length} tokens at this step`} draw={(size) => drawSpots(spots, reach, Math.min(size, 400))} parts={[parameters, base, pair]} />
      {picture.cyclic ? (
        <p class="small quiet">Colour: the number along its strongest frequency, once around a circle.</p>
      ) : (
        <ul class="legend small">
          {kinds.map((kind) => (
            <li><svg width="12" height="12" aria-hidden="true"><rect x="1.5" y="1.5" width="9" height="9" rx="4.5" fill={KINDS[kind]} /></svg> {kind}</li>
          ))}
        </ul>
      )}
      <div class="bar small">
        {[0, 1].map((index) => (
          <label>{index ? "vertical" : "horizontal"} <select value={pair[index]} onChange={(event) => choose(index, event.target.value)}>{[0, 1, 2, 3].map((each) => <option value={each}>component {each + 1}</option>)}</select></label>
        ))}
        <span class="space" />
        <SaveFigure title={title} whole={whole} headings={["token", `component ${pair[0] + 1}`, `component ${pair[1] + 1}`]} rows={() => spots.map(({ word, x, y }) => [word, x, y])} />
      </div>
    </figure>
  );
}

function kindOf(task, token) {
  if (task.ends.includes(token)) return ENDS;
  return /^-?\d+$/.test(task.words[token]) ? NUMBERS : OTHERS;
}

function colourOfToken({ picture, task }, token) {
  return picture.cyclic ? `hsl(${Math.round(360 * picture.colours[token])}, 70%, 48%)` : KINDS[kindOf(task, token)];
}

function drawSpots(spots, reach, size) {
  const axis = { domain: [-reach, reach], label: null, ticks: 5, grid: true, clamp: true };
  const marks = [Plot.dot(spots, { x: "x", y: "y", r: 4.5, fill: "colour" })];
  if (spots.length <= MOST_LABELS) marks.push(Plot.text(spots, { x: "x", y: "y", text: "word", dx: 9, fontSize: 11, fill: "var(--text)" }));
  marks.push(Plot.tip(spots, Plot.pointer({ x: "x", y: "y", title: (spot) => spot.word, ...TIP })));
  return Plot.plot({ width: size, height: size, marginLeft: 40, style: { background: "none", fontFamily: "inherit" }, x: axis, y: axis, marks });
}
