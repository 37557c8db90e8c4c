// The attention of each head on the prompt, and how much of it goes to the answer.
import { HeadMaps } from "../maps.jsx";

// The goal is the right answer or, where that is not known, the run's own. Only the right one is marked as good.
export function Heads({ task, tokens, maps, goal, isRight, prompt }) {
  const words = tokens.map((token) => task.words[token]);
  const isThere = tokens.slice(0, -1).filter((token) => token === goal).length === 1; // to be looked up
  const shares = maps.map((heads) => heads.map((rows) => rows.at(-1).reduce((sum, share, place) => sum + (tokens[place] === goal ? share : 0), 0)));
  const most = Math.max(...shares.flat());
  const word = task.words[goal];
  const beside = (layer, head) =>
    isThere && <span class={`goal${shares[layer][head] === most ? (isRight ? " most good" : " most") : ""}`}>{(100 * shares[layer][head]).toFixed(0)} % to {word}</span>;
  return (
    <HeadMaps title={`${task.name}, attention on ${prompt}`} caption={`Attention on ${prompt}`} words={words} layers={maps} beside={beside}>
      {isThere && (
        <p class="small quiet">
          Beside a head's name: how much of the last token's attention goes to {word}, {isRight ? "the right answer" : "its own answer; whether that is right is not known here"}.
        </p>
      )}
    </HeadMaps>
  );
}
