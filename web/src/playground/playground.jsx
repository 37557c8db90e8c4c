// A small run that computes in the browser: a frozen body from its seed, and embeddings on their way.
import * as Plot from "@observablehq/plot";
import { useEffect, useMemo, useState } from "preact/hooks";
import { Drawing } from "../charts.jsx";
import { colourOf, drawMap, TIP } from "../draw.js";
import { Guard } from "../guard.jsx";
import { counted, duration, idOf, short } from "../words.js";
import { places, principal } from "./components.js";
import { forward, probabilities } from "./forward.js";
import { inWords, readPrompt } from "./prompts.js";
import { Weights } from "./weights.js";

const [TOP, MOST_LABELS, FRAME_MS, CHUNK] = [5, 40, 350, 5];

export function Playground({ data }) {
  const weights = useMemo(() => new Weights(data), [data]);
  const [setIndex, setSet] = useState(0);
  const set = data.sets[setIndex];
  const last = set.snapshots.length - 1;
  const [wanted, setSnapshot] = useState(Infinity);
  const snapshot = Math.min(wanted, last);
  const [otherBody, setOtherBody] = useState(null); // a seed, or null for the embeddings' own
  const bodySeed = otherBody ?? set.seed;
  const [text, setText] = useState(inWords(data.task, longest(data.task.items).tokens));
  const parameters = useMemo(() => weights.all(setIndex, snapshot, bodySeed), [weights, setIndex, snapshot, bodySeed]);
  const read = readPrompt(data.task, text);
  const tokens = read.tokens ?? data.task.items[0].tokens;
  const { logits, maps } = useMemo(() => forward(parameters, data.model, tokens), [parameters, tokens.join()]);
  const known = data.task.items.find((item) => item.tokens.join() === tokens.join());
  const { model, task } = data;
  return (
    <div class="playground">
      <p>
        {model.layers} layers of width {model.width}, {model.heads} heads, trained: {data.trainable}.{" "}
        {weights.isDrawn ? "The frozen body is drawn here from its seed." : "The frozen body is stored in 16 bits."}{" "}
        <span class="small quiet">{task.settings}.</span>
      </p>
      <Steps set={set} snapshot={snapshot} setSnapshot={setSnapshot} />
      <div class="bar">
        <label>
          Embeddings of{" "}
          <select value={setIndex} onChange={(event) => setSet(Number(event.target.value))}>
            {data.sets.map((each, index) => <option value={index}>seed {each.seed}</option>)}
          </select>
        </label>
        <Body weights={weights} data={data} own={set.seed} other={otherBody} setOther={setOtherBody} />
      </div>
      <form class="bar" onSubmit={(event) => event.preventDefault()}>
        <label>Prompt <input type="text" class="prompt" value={text} spellcheck={false} aria-invalid={Boolean(read.problem)} onInput={(event) => setText(event.target.value)} /></label>
        <button type="button" onClick={() => setText(inWords(task, task.items[Math.floor(Math.random() * task.items.length)].tokens))}>Another test item</button>
      </form>
      {read.problem && <p class="problem" role="alert">{read.problem}</p>}
      <div class="panels">
        <div>
          <Answer task={task} logits={logits} answer={known?.answer} />
          <Accuracy key={data.run} data={data} parameters={parameters} />
          <Embeddings data={data} weights={weights} setIndex={setIndex} parameters={parameters} />
        </div>
        {model.attention === "softmax" && <Heads task={task} tokens={tokens} maps={maps} goal={known?.answer ?? bestOf(logits)} />}
      </div>
      <Made made={data.made} />
    </div>
  );
}

const bestOf = (logits) => logits.indexOf(Math.max(...logits));
const longest = (items) => items.reduce((best, item) => (item.tokens.length > best.tokens.length ? item : best));

function Made({ made }) {
  if (!made?.command) return null;
  return (
    <p class="small quiet">
      Made by <code>{made.command}</code>, commit {made.commit}, on {made.device}
      {made.seconds === undefined ? "" : `, trained in ${duration(made.seconds)}`}.
    </p>
  );
}

function Steps({ set, snapshot, setSnapshot }) {
  const last = set.snapshots.length - 1;
  const [isPlaying, setPlaying] = useState(false);
  useEffect(() => {
    if (!isPlaying) return undefined;
    if (snapshot >= last) {
      setPlaying(false);
      return undefined;
    }
    const timer = setTimeout(() => setSnapshot(snapshot + 1), FRAME_MS);
    return () => clearTimeout(timer);
  }, [isPlaying, snapshot]);
  const { step, accuracy } = set.snapshots[snapshot];
  const play = () => {
    if (!isPlaying && snapshot >= last) setSnapshot(0);
    setPlaying(!isPlaying);
  };
  const words = `step ${short(step)} of ${short(set.snapshots[last].step)}${accuracy === null ? "" : `, test accuracy ${(100 * accuracy).toFixed(1)} %`}`;
  return (
    <div class="bar">
      <label>Training <input type="range" min="0" max={last} value={snapshot} aria-valuetext={words} disabled={last === 0} onInput={(event) => setSnapshot(Number(event.target.value))} /></label>
      <button type="button" onClick={play} disabled={last === 0}>{isPlaying ? "Stop" : "Play"}</button>
      <button type="button" onClick={() => setSnapshot(0)} disabled={last === 0}>Untrained</button>
      <button type="button" onClick={() => setSnapshot(Infinity)}>Trained</button>
      <output class="small wide-line">{words}</output>
    </div>
  );
}

function Body({ weights, data, own, other, setOther }) {
  const stored = Object.keys(data.bodies).map(Number).filter((seed) => seed !== own);
  if (!weights.isDrawn && stored.length === 0) return null;
  return (
    <>
      <label>
        around the body of{" "}
        <select value={other === null ? "own" : "other"} onChange={(event) => setOther(event.target.value === "own" ? null : weights.isDrawn ? own + 1 : stored[0])}>
          <option value="own">the same seed, as in training</option>
          <option value="other">another seed</option>
        </select>
      </label>
      {other !== null && weights.isDrawn && (
        <label>seed <input type="number" min="0" step="1" value={other} onInput={(event) => event.target.value !== "" && setOther(Math.max(0, Math.floor(Number(event.target.value))))} /></label>
      )}
    </>
  );
}

function Answer({ task, logits, answer }) {
  const each = probabilities(logits);
  const nameOf = (token) => task.answers[token].trim() || "padding";
  const best = [...each.keys()].sort((a, b) => each[b] - each[a]).slice(0, TOP);
  return (
    <div aria-live="polite">
      <table class="answer">
        <caption>Answer{answer === undefined ? "" : `; right is ${nameOf(answer)}`}</caption>
        <tbody>
          {best.map((token) => (
            <tr key={token}>
              <th scope="row">{nameOf(token)}{token === answer ? " ✓" : ""}</th>
              <td class="track"><span class={token === answer ? "right" : ""} style={{ width: `${100 * each[token]}%` }} /></td>
              <td class="right">{(100 * each[token]).toFixed(1)} %</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

// The accuracy on the test items that the page holds, computed a few at a time.
function Accuracy({ data, parameters }) {
  const [found, setFound] = useState({ done: 0, right: 0 });
  useEffect(() => {
    let [done, right, timer] = [0, 0, 0];
    const { items } = data.task;
    const go = () => {
      for (const item of items.slice(done, done + CHUNK)) {
        const { logits } = forward(parameters, data.model, item.tokens);
        right += logits[item.answer] === Math.max(...logits) ? 1 : 0;
        done += 1;
      }
      setFound({ done, right });
      if (done < items.length) timer = setTimeout(go, 0);
    };
    timer = setTimeout(go, 120); // not while the slider moves
    return () => clearTimeout(timer);
  }, [data, parameters]);
  const best = Math.max(0, ...Object.values(data.task.baselines));
  const share = found.done ? `${((100 * found.right) / found.done).toFixed(0)} %` : "…";
  return (
    <p>
      Accuracy computed here, on {counted(found.done, "test item")}: <b class="accuracy">{share}</b>
      {data.task.long ? ", first token of the answer" : ""}. Without learning, the best baseline has {(100 * best).toFixed(1)} %.
    </p>
  );
}

function Embeddings({ data, weights, setIndex, parameters }) {
  const { width } = data.model;
  const last = data.sets[setIndex].snapshots.length - 1;
  const [pair, setPair] = useState(data.picture.pair);
  const end = useMemo(() => weights.all(setIndex, last, data.sets[setIndex].seed).token, [weights, setIndex]);
  const base = useMemo(() => principal(end, width), [end]);
  const reach = useMemo(() => 1.15 * Math.max(...places(end, width, base, pair).flat().map(Math.abs)), [base, pair]);
  const spots = places(parameters.token, width, base, pair).map(([x, y], token) => ({ x, y, word: data.task.words[token], colour: colourOfToken(data, token) }));
  const choose = (index, value) => setPair(pair.map((each, place) => (place === index ? Number(value) : each)));
  return (
    <figure class="chart">
      <figcaption>Token embeddings, on components of the trained ones</figcaption>
      <div class="bar small">
        {[0, 1].map((index) => (
          <label>{index ? "vertical" : "horizontal"} <select value={pair[index]} onChange={(event) => choose(index, event.target.value)}>{[0, 1, 2, 3].map((each) => <option value={each}>component {each + 1}</option>)}</select></label>
        ))}
      </div>
      <Drawing label={`Embeddings of ${spots.length} tokens at this step`} draw={(size) => drawSpots(spots, reach, Math.min(size, 420))} parts={[parameters, base, pair]} />
      {data.picture.cyclic ? (
        <p class="small quiet">Colour: the number along its strongest frequency, once around a circle.</p>
      ) : (
        <ul class="legend small">
          {[...new Set(data.task.words.map((_, token) => kindOf(data.task, token)))].map((kind) => (
            <li><svg width="12" height="12" aria-hidden="true"><rect x="1.5" y="1.5" width="9" height="9" rx="4.5" fill={KINDS[kind]} /></svg> {kind}</li>
          ))}
        </ul>
      )}
    </figure>
  );
}

const KINDS = { numbers: colourOf("#0072B2"), "what ends a prompt": colourOf("#D55E00"), "other tokens": colourOf("#009E73") };

function kindOf(task, token) {
  if (task.ends.includes(token)) return "what ends a prompt";
  return /^-?\d+$/.test(task.words[token]) ? "numbers" : "other tokens";
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

// The share of each head's attention from the last token to the goal, the right answer or else ours, is beside its name.
function Heads({ task, tokens, maps, goal }) {
  const words = tokens.map((token) => task.words[token]);
  const isThere = tokens.slice(0, -1).filter((token) => token === goal).length === 1; // to be looked up
  const shares = maps.map((heads) => heads.map((rows) => rows.at(-1).reduce((sum, share, place) => sum + (tokens[place] === goal ? share : 0), 0)));
  const most = Math.max(...shares.flat());
  const size = Math.min(Math.max(130, 40 + 18 * tokens.length), 180); // pixels of a map, at least
  return (
    <figure class="chart">
      <figcaption>Attention of the prompt's tokens (rows) to earlier ones</figcaption>
      {isThere && <p class="small quiet">Beside a head's name: how much of the last token's attention goes to {task.words[goal]}.</p>}
      <div class="maps" style={{ "--map": `${size}px` }}>
        {maps.flatMap((heads, layer) =>
          heads.map((rows, head) => (
            <div class="panel" key={`${layer} ${head}`}>
              <h4>
                layer {layer + 1}, head {head + 1}
                {isThere && <span class={shares[layer][head] === most ? "goal most" : "goal"}> {(100 * shares[layer][head]).toFixed(0)} % to {task.words[goal]}</span>}
              </h4>
              <Drawing label={`Attention of layer ${layer + 1}, head ${head + 1}`} draw={(width) => drawMap(words, rows, Math.min(width, 1.4 * size))} parts={[maps]} />
            </div>
          )),
        )}
      </div>
    </figure>
  );
}

export function PlaygroundSection({ playgrounds }) {
  return (
    <section aria-labelledby="playground">
      <h2 id="playground">Playground</h2>
      <p class="quiet">
        Small runs that compute in this page. Move the slider and watch the embeddings; type a prompt; put the embeddings around
        another random body, which they do not know.
      </p>
      {playgrounds.map((data, index) => <Lazy key={data.run} data={data} isOpen={index === 0} />)}
    </section>
  );
}

function Lazy({ data, isOpen }) {
  const [isSeen, setSeen] = useState(isOpen); // weights are decoded when they are first needed
  return (
    <details class="one-run" id={idOf("playground", data.run)} open={isOpen} onToggle={(event) => event.currentTarget.open && setSeen(true)}>
      <summary>{data.task.name}, width {data.model.width}</summary>
      {isSeen && <Guard name={data.task.name}><Playground data={data} /></Guard>}
    </details>
  );
}

// For tests and the curious: the logits after a prompt of token ids.
export function logitsOf(data, { set = 0, snapshot, seed, tokens }) {
  const weights = new Weights(data);
  const index = snapshot ?? data.sets[set].snapshots.length - 1;
  return [...forward(weights.all(set, index, seed ?? data.sets[set].seed), data.model, tokens).logits];
}
