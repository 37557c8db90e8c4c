// The answer to a prompt with its probabilities, and the accuracy on test items.
import { useEffect, useState } from "preact/hooks";
import { counted } from "../words.js";
import { forward, probabilities } from "./forward.js";

const [TOP, CHUNK] = [5, 5];

export function Answer({ task, logits, answer, prompt }) {
  const each = probabilities(logits);
  const nameOf = (token) => task.answers[token].trim() || "padding";
  const best = [...each.keys()].sort((a, b) => each[b] - each[a]).slice(0, TOP);
  return (
    <div aria-live="polite">
      <table class="answer">
        <caption>Answer to {prompt}{answer === undefined ? "" : `; right is ${nameOf(answer)}`}</caption>
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
export function Accuracy({ data, parameters }) {
  const [found, setFound] = useState({ done: 0, right: 0, of: null });
  useEffect(() => {
    let [done, right, timer] = [0, 0, 0];
    const { items } = data.task;
    const go = () => {
      for (const item of items.slice(done, done + CHUNK)) {
        const { logits } = forward(parameters, data.model, item.tokens);
        right += logits[item.answer] === Math.max(...logits) ? 1 : 0;
        done += 1;
      }
      setFound({ done, right, of: parameters });
      if (done < items.length) timer = setTimeout(go, 0);
    };
    timer = setTimeout(go, 120); // not while the slider moves
    return () => clearTimeout(timer);
  }, [data, parameters]);
  const isCurrent = found.of === parameters; // else it belongs to another step or body
  const best = Math.max(0, ...Object.values(data.task.baselines));
  return (
    <p>
      Accuracy computed here, on {counted(isCurrent ? found.done : data.task.items.length, "test item")}:{" "}
      <b class="accuracy">{isCurrent ? `${((100 * found.right) / found.done).toFixed(0)} %` : "…"}</b>
      {data.task.long ? ", first token of the answer. The test accuracy and the baselines are of all tokens." : `. Without learning, the best baseline has ${(100 * best).toFixed(1)} %.`}
    </p>
  );
}
