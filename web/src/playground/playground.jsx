// A small run that computes in the browser: a frozen body from its seed, and embeddings on their way.
import { useMemo, useState } from "preact/hooks";
import { Command } from "../command.jsx";
import { Guard } from "../guard.jsx";
import { duration, idOf } from "../words.js";
import { Accuracy, Answer } from "./answer.jsx";
import { Body, Steps } from "./controls.jsx";
import { Embeddings } from "./embeddings.jsx";
import { forward } from "./forward.js";
import { Heads } from "./heads.jsx";
import { inWords, readPrompt } from "./prompts.js";
import { hasBody, Weights } from "./weights.js";

export function Playground({ data }) {
  const { model, task } = data;
  const weights = useMemo(() => new Weights(data), [data]);
  const [setIndex, setSet] = useState(0);
  const set = data.sets[setIndex];
  const [wanted, setSnapshot] = useState(Infinity);
  const snapshot = Math.min(wanted, set.snapshots.length - 1);
  const [otherBody, setOtherBody] = useState(null); // a seed, or null for the embeddings' own
  const bodySeed = otherBody ?? set.seed;
  const [{ text, tokens, problem }, setPrompt] = useState(() => promptOf(task, longest(task.items).tokens));
  const parameters = useMemo(() => weights.all(setIndex, snapshot, bodySeed), [weights, setIndex, snapshot, bodySeed]);
  const { logits, maps } = useMemo(() => forward(parameters, model, tokens), [parameters, tokens.join()]);
  const answer = task.items.find((item) => item.tokens.join() === tokens.join())?.answer;
  const prompt = `${problem ? "the last whole prompt, " : ""}“${inWords(task, tokens)}”`;
  const read = (words) => {
    const { tokens: found = tokens, problem: wrong } = readPrompt(task, words);
    setPrompt({ text: words, tokens: found, problem: wrong }); // what is shown stays with the last prompt that is whole
  };
  return (
    <div class="playground">
      <p>
        {model.layers} layers of width {model.width}, {model.heads} heads, trained: {data.trainable}. {aboutBody(data)}{" "}
        <span class="small quiet">{task.settings}.</span>
      </p>
      <div class="bar">
        <label>
          {hasBody(data) ? "Embeddings of" : "Weights of"}{" "}
          <select value={setIndex} onChange={(event) => setSet(Number(event.target.value))}>
            {data.sets.map((each, index) => <option value={index}>seed {each.seed}</option>)}
          </select>
        </label>
        <Body weights={weights} data={data} own={set.seed} other={otherBody} setOther={setOtherBody} />
      </div>
      <form class="bar" onSubmit={(event) => event.preventDefault()}>
        <label>Prompt <input type="text" class="prompt" value={text} spellcheck={false} aria-invalid={Boolean(problem)} onInput={(event) => read(event.target.value)} /></label>
        <button type="button" onClick={() => setPrompt(promptOf(task, task.items[Math.floor(Math.random() * task.items.length)].tokens))}>Another test item</button>
      </form>
      {problem && <p class="problem" role="alert">{problem}</p>}
      <Steps set={set} snapshot={snapshot} setSnapshot={setSnapshot} isOwnBody={bodySeed === set.seed} />
      <div class="stage">
        <Embeddings data={data} weights={weights} setIndex={setIndex} snapshot={snapshot} parameters={parameters} />
        <div>
          {model.attention === "softmax" && <Heads task={task} tokens={tokens} maps={maps} goal={answer ?? bestOf(logits)} isRight={answer !== undefined} prompt={prompt} />}
          <Answer task={task} logits={logits} answer={answer} prompt={prompt} />
          <Accuracy key={data.run} data={data} parameters={parameters} />
        </div>
      </div>
      <Made made={data.made} />
    </div>
  );
}

const promptOf = (task, tokens) => ({ text: inWords(task, tokens), tokens, problem: undefined });
const bestOf = (logits) => logits.indexOf(Math.max(...logits));
const longest = (items) => items.reduce((best, item) => (item.tokens.length > best.tokens.length ? item : best));

function aboutBody(data) {
  if (data.parameters.every((parameter) => parameter.from === "snapshot")) return "Everything trained; there is no frozen body.";
  if (!hasBody(data)) return "What is frozen is the same for every seed.";
  const isStored = data.parameters.some((parameter) => parameter.from === "body");
  return isStored ? "The frozen body is stored in 16 bits." : "The frozen body is drawn here from its seed.";
}

function Made({ made }) {
  if (!made?.command) return null;
  return (
    <p class="small quiet">
      Made by <Command text={made.command} />, commit {made.commit}, on {made.device}
      {made.seconds === undefined ? "" : `, trained in ${duration(made.seconds)}`}.
    </p>
  );
}

export function PlaygroundSection({ playgrounds }) {
  return (
    <section aria-labelledby="playground">
      <h2 id="playground">Playground</h2>
      <p class="quiet">
        Small runs that compute in this page. Move the slider and watch the embeddings; type a prompt
        {playgrounds.some(hasBody) ? "; put the embeddings around another random body, which they do not know" : ""}.
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
