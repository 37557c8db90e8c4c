// A user's own runs: accuracy against width, and a grid per task.
import { Runs } from "./cell.jsx";
import { AnyChart } from "./charts.jsx";
import { Grid } from "./grid.jsx";
import { counted, idOf } from "./words.js";

const FEW = 3; // cells whose runs are shown without a click

export function Own({ groups, pick, hasPaper, data }) {
  const settings = groups.reduce((sum, group) => sum + group.cells.length, 0);
  return (
    <section aria-labelledby="runs">
      <h2 id="runs">Runs</h2>
      <p class="quiet">
        {counted(settings, "configuration")}{hasPaper ? " that the paper does not have" : ""}. In %: the median over seeds, with their range.
        Only accuracy above the baseline, a rule that needs no learning, is evidence of learning.
      </p>
      {groups.map((group) => <Group key={group.task} group={group} pick={pick} data={data} />)}
    </section>
  );
}

function Group({ group, pick, data }) {
  const pickDot = (dot) => {
    const rows = [dot.line, `${dot.panel}, ${dot.line}`];
    const cell = group.cells.find((each) => each.column === String(dot.x) && rows.includes(each.row));
    if (cell) pick(cell, group.task);
  };
  return (
    <section aria-labelledby={idOf("runs", group.task)}>
      <h3 id={idOf("runs", group.task)}>{group.task}</h3>
      {group.charts.map((chart) => <AnyChart chart={chart} onPick={pickDot} />)}
      <Grid claims={group.cells} pick={pick} name={group.task} />
      {group.cells.length <= FEW &&
        group.cells.map((cell) => (
          <section key={cell.setting} aria-label={cell.cell}>
            {group.cells.length > 1 && <h3>{cell.cell}</h3>}
            <Runs setting={data.settings[cell.setting]} curves={data.curves} />
          </section>
        ))}
    </section>
  );
}
