// A user's own runs: accuracy against width, and a grid per task.
import { Sources } from "./cell.jsx";
import { AnyChart } from "./figures.jsx";
import { Grid } from "./grid.jsx";
import { claimOfDot } from "./library.js";
import { counted, idOf } from "./words.js";

const nameOf = (cell) => `${cell.row}, ${/^\d+$/.test(cell.column) ? "width " : ""}${cell.column}`; // its place in the table
const FEW = 3; // cells whose runs are shown without a click

export function Own({ groups, pick, hasPaper, data, library }) {
  const settings = groups.reduce((sum, group) => sum + group.cells.length, 0);
  return (
    <section aria-labelledby="runs">
      <h2 id="runs">Runs</h2>
      <p class="quiet">
        {counted(settings, "configuration")}{hasPaper ? " that the paper does not have" : ""}. In %: the median over seeds, with their range.
        Only accuracy above the baseline, a rule that needs no learning, is evidence of learning.
      </p>
      {groups.map((group) => <Group key={group.task} group={group} pick={pick} data={data} library={library} />)}
    </section>
  );
}

function Group({ group, pick, data, library }) {
  const pickDot = (dot) => pick(claimOfDot(group.cells, dot), group.task);
  return (
    <section aria-labelledby={idOf("runs", group.task)}>
      <h3 id={idOf("runs", group.task)}>{group.task}</h3>
      {group.charts.map((chart) => <AnyChart chart={chart} onPick={pickDot} />)}
      <Grid claims={group.cells} pick={pick} name={group.task} />
      {group.cells.length <= FEW &&
        group.cells.map((cell) => (
          <section key={cell.setting} aria-label={nameOf(cell)}>
            {group.cells.length > 1 && <h3>{nameOf(cell)}</h3>}
            <Sources claim={cell} data={data} library={library} />
          </section>
        ))}
    </section>
  );
}
