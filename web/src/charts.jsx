// Charts with their controls: lines and seeds can be hidden, axes changed, and figures saved.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { colourOf, dashOf, drawPanel, lookOfRule, panelsOf, rowsOf } from "./draw.js";
import { saveCsv, savePng, saveSvg, svgOf } from "./save.js";

// Holds an SVG that `draw(width)` makes, again whenever the width or `parts` change.
export function Drawing({ draw, parts, label, onPick }) {
  const place = useRef(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => setWidth(Math.floor(place.current.clientWidth)), []); // before the first picture, so nothing moves
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(place.current);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (width < 40) return;
    const svg = draw(width);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
    if (onPick) svg.addEventListener("click", () => svg.value && onPick(svg.value));
    place.current.replaceChildren(svg);
  }, [width, ...parts]);
  return <div ref={place} />;
}

// Buttons that save a figure: `whole` returns the text of its SVG, `rows` the rows of its CSV.
export function SaveFigure({ title, whole, headings, rows }) {
  const kinds = [["SVG", () => saveSvg(title, whole())], ["PNG", () => savePng(title, whole())], ["CSV", rows && (() => saveCsv(title, headings, rows()))]];
  return (
    <span class="tools">
      {kinds.filter(([, save]) => save).map(([kind, save]) => <button type="button" aria-label={`${kind} of ${title}`} onClick={save}>{kind}</button>)}
    </span>
  );
}

function Swatch({ line }) {
  return (
    <svg width="24" height="10" aria-hidden="true">
      <line x1="1" x2="23" y1="5" y2="5" stroke={line.stroke ?? colourOf(line.colour)} stroke-width="2.2" stroke-dasharray={line.dash ?? dashOf(line)} />
    </svg>
  );
}

const MOST_LINES = 12;

export function Chart({ chart, name, onPick, heading }) {
  const names = [...new Map(chart.lines.map((line) => [line.name, line])).values()];
  const rules = [...new Map(chart.rules.map((rule) => [rule.name, rule])).values()]; // one entry of the legend each
  const [hidden, setHidden] = useState(() => new Set(names.slice(MOST_LINES).map((line) => line.name)));
  const [withSeeds, setSeeds] = useState(true);
  const [isLog, setLog] = useState(false);
  const toggle = (name) => setHidden((before) => new Set(before.has(name) ? [...before].filter((each) => each !== name) : [...before, name]));
  const panels = panelsOf(chart);
  const hasSeeds = chart.kind !== "band" && chart.lines.some((line) => line.dots.some((dot) => dot.values.length > 1));
  const canLog = chart.kind === "line" && chart.y.most === null;
  const options = { hidden, withSeeds, isLog };
  const whole = () =>
    svgOf(
      name,
      panels.map((name) => ({ name, svg: drawPanel(chart, name, { ...options, width: 400, height: 270 }) })),
      [
        ...names.filter((line) => !hidden.has(line.name)).map((line) => ({ name: line.name, colour: line.colour, dash: dashOf(line) })),
        ...rules.filter((rule) => !hidden.has(rule.name)).map((rule) => ({ name: rule.name, ...lookOfRule(chart, rule) })),
      ],
    );
  return (
    <figure class="chart">
      {chart.title !== heading && <figcaption>{chart.title}</figcaption>}
      <ul class="legend">
        {[...names, ...rules.map((rule) => ({ name: rule.name, stroke: lookOfRule(chart, rule).colour, dash: lookOfRule(chart, rule).dash }))].map((line) => (
          <li key={line.name}>
            <button type="button" aria-pressed={!hidden.has(line.name)} onClick={() => toggle(line.name)}>
              <Swatch line={line} /> {line.name}
            </button>
          </li>
        ))}
      </ul>
      <div class={`panels${panels.length === 1 ? " one" : ""}`}>
        {panels.map((panel) => (
          <div class="panel" key={panel}>
            {panels.length > 1 && <h4>{panel}</h4>}
            <Drawing
              label={`${chart.title}${panel && `, ${panel}`}. The numbers are in the table.`}
              draw={(width) => drawPanel(chart, panel, { ...options, width, height: panels.length === 1 ? 310 : 240 })}
              parts={[chart, hidden, withSeeds, isLog]}
              onPick={onPick}
            />
          </div>
        ))}
      </div>
      <div class="bar small">
        {hasSeeds && <label><input type="checkbox" checked={withSeeds} onChange={() => setSeeds(!withSeeds)} /> single seeds</label>}
        {canLog && <label><input type="checkbox" checked={isLog} onChange={() => setLog(!isLog)} /> logarithmic</label>}
        <span class="space" />
        <SaveFigure title={name} whole={whole} headings={["panel", "line", chart.x.label || "x", "seed", "run", chart.y.label]} rows={() => rowsOf(chart)} />
      </div>
    </figure>
  );
}
