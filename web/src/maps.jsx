// Square maps of attention: a row per layer, a map per head.
import { Drawing, SaveFigure } from "./charts.jsx";
import { drawMap } from "./draw.js";
import { svgOf } from "./save.js";

// `layers` holds each head's rows; `beside(layer, head)` is shown beside a head's name.
export function HeadMaps({ title, caption = title, words, layers, beside = () => null, children }) {
  const each = layers.flatMap((heads, layer) => heads.map((rows, head) => ({ name: `layer ${layer + 1}, head ${head + 1}`, rows })));
  const whole = () => svgOf(title, each.map(({ name, rows }) => ({ name, svg: drawMap(words, rows, 200) })), [], layers[0].length);
  const rowsOf = () =>
    each.flatMap(({ name, rows }) => rows.flatMap((row, from) => row.slice(0, from + 1).map((share, to) => [...name.split(", "), from + 1, words[from], to + 1, words[to], share])));
  return (
    <figure class="chart heads">
      <figcaption>{caption}</figcaption>
      {children}
      {layers.map((heads, layer) => (
        <div key={layer}>
          <h4>layer {layer + 1}</h4>
          <div class="head-row" style={{ "--heads": heads.length }}>
            {heads.map((rows, head) => (
              <div key={head}>
                <p class="head-name">head {head + 1} {beside(layer, head)}</p>
                <Drawing label={`${caption}, layer ${layer + 1}, head ${head + 1}: a stronger colour is more`} draw={(width) => drawMap(words, rows, Math.min(width, 260))} parts={[rows]} />
              </div>
            ))}
          </div>
        </div>
      ))}
      <div class="bar small">
        <span class="quiet">Rows attend to columns; a stronger colour is more.</span>
        <span class="space" />
        <SaveFigure title={title} whole={whole} headings={["layer", "head", "from", "from token", "to", "to token", "attention"]} rows={rowsOf} />
      </div>
    </figure>
  );
}
