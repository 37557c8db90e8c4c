// What a reader chooses: the step of training, and the body.
import { useEffect, useState } from "preact/hooks";
import { short } from "../words.js";

const FRAME_MS = 350;

export function Steps({ set, snapshot, setSnapshot, isOwnBody }) {
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
  const measured = typeof accuracy === "number" ? `, test accuracy ${(100 * accuracy).toFixed(1)} %${isOwnBody ? "" : " around its own body"}` : "";
  const few = last === 1 ? "; of this seed the page holds only the untrained and the trained state" : "";
  const words = `step ${short(step)} of ${short(set.snapshots[last].step)}${measured}`;
  return (
    <div class="bar steps">
      <label>Training <input type="range" min="0" max={last} value={snapshot} aria-valuetext={words} disabled={last === 0} onInput={(event) => setSnapshot(Number(event.target.value))} /></label>
      <button type="button" onClick={play} disabled={last === 0}>{isPlaying ? "Stop" : "Play"}</button>
      <button type="button" onClick={() => setSnapshot(0)} disabled={last === 0}>Untrained</button>
      <button type="button" onClick={() => setSnapshot(Infinity)}>Trained</button>
      <output class="small wide-line">{words}{few}</output>
    </div>
  );
}

export function Body({ weights, data, own, other, setOther }) {
  const stored = Object.keys(data.bodies).map(Number).filter((seed) => seed !== own);
  if (!weights.hasBody || (!weights.isDrawn && stored.length === 0)) return null;
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
