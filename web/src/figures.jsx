// Any figure of the data: a chart, a drawing made elsewhere, or maps of attention.
import { Chart, SaveFigure } from "./charts.jsx";
import { HeadMaps } from "./maps.jsx";

// `of` names what the figure is of, where several have the same title.
export function AnyChart({ chart, onPick, heading, of = "" }) {
  const name = of ? `${of}: ${chart.title}` : chart.title;
  if (chart.drawing) {
    const whole = () => new TextDecoder().decode(Uint8Array.from(atob(chart.drawing), (letter) => letter.charCodeAt(0)));
    return ( // with its title inside
      <figure class="chart">
        <img class="drawing" alt={chart.title} src={`data:image/svg+xml;base64,${chart.drawing}`} />
        <div class="bar small"><span class="space" /><SaveFigure title={name} whole={whole} /></div>
      </figure>
    );
  }
  if (chart.words) return <HeadMaps title={name} caption={chart.title} words={chart.words} layers={layersOf(chart.panels)} />;
  return <Chart chart={chart} name={name} onPick={onPick} heading={heading} />;
}

// Maps named "layer 1, head 2", by layer.
function layersOf(panels) {
  const found = new Map();
  for (const [name, rows] of Object.entries(panels)) {
    const [layer] = name.split(",");
    found.set(layer, [...(found.get(layer) ?? []), rows]);
  }
  return [...found.values()];
}
