// Saving what is shown: tables as CSV and Markdown, figures as SVG and PNG.

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export const fileName = (title) => title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "table";

const quoted = (cell) => (/[",\n\r]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
const inMarkdown = (cell) => cell.replaceAll("\n", " ").replaceAll("|", "\\|");

export function csvOf(headings, rows) {
  return [headings, ...rows].map((row) => row.map((cell) => quoted(String(cell ?? ""))).join(",")).join("\n") + "\n";
}

export function markdownOf(headings, rows) {
  const lines = [headings, headings.map(() => "---"), ...rows];
  return lines.map((row) => `| ${row.map((cell) => inMarkdown(String(cell ?? ""))).join(" | ")} |`).join("\n") + "\n";
}

export const saveCsv = (title, headings, rows) => save(new Blob([csvOf(headings, rows)], { type: "text/csv" }), `${fileName(title)}.csv`);
export const saveMarkdown = (title, headings, rows) =>
  save(new Blob([markdownOf(headings, rows)], { type: "text/markdown" }), `${fileName(title)}.md`);

// Returns the text of one SVG with the title, the legend and every panel, in the light colours.
export function svgOf(title, panels, legend, columns = panels.length > 1 ? 2 : 1) {
  const [width, height] = [Math.max(...panels.map(({ svg }) => +svg.getAttribute("width"))), Math.max(...panels.map(({ svg }) => +svg.getAttribute("height")))];
  const top = 34;
  const rows = Math.ceil(panels.length / columns);
  const legendTop = top + rows * (height + 24) + 8;
  const total = [columns * (width + 16), legendTop + 18 * Math.ceil(legend.length / 2) + 6];
  const parts = panels.map(({ name, svg }, index) => {
    const copy = svg.cloneNode(true);
    copy.querySelectorAll('[aria-label="tip"]').forEach((tip) => tip.remove());
    const [x, y] = [(index % columns) * (width + 16), top + Math.floor(index / columns) * (height + 24)];
    copy.setAttribute("x", x);
    copy.setAttribute("y", y + 16);
    return `<text x="${x + 4}" y="${y + 10}" font-size="12" font-weight="600">${escaped(name)}</text>${new XMLSerializer().serializeToString(copy)}`;
  });
  const entries = legend.map(({ name, colour, dash }, index) => {
    const [x, y] = [8 + (index % 2) * (total[0] / 2), legendTop + 18 * Math.floor(index / 2)];
    return `<line x1="${x}" x2="${x + 22}" y1="${y}" y2="${y}" stroke="${colour}" stroke-width="2"${dash ? ` stroke-dasharray="${dash}"` : ""}/><text x="${x + 28}" y="${y + 4}" font-size="12">${escaped(name)}</text>`;
  });
  const text = `<svg xmlns="http://www.w3.org/2000/svg" width="${total[0]}" height="${total[1]}" viewBox="0 0 ${total[0]} ${total[1]}" font-family="system-ui, sans-serif" color="#1b1e24"><rect width="100%" height="100%" fill="#ffffff"/><text x="4" y="18" font-size="14" font-weight="600">${escaped(title)}</text>${parts.join("")}${entries.join("")}</svg>`;
  return text.replaceAll(/var\(--[\w-]+, (#\w+)\)/g, "$1").replaceAll("var(--text)", "#1b1e24").replaceAll("var(--quiet)", "#565d6b").replaceAll("var(--back)", "#ffffff").replaceAll("var(--line)", "#d5d9e0");
}

export const saveSvg = (title, text) => save(new Blob([text], { type: "image/svg+xml" }), `${fileName(title)}.svg`);

export function savePng(title, text) {
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * image.width, 2 * image.height];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(blob, `${fileName(title)}.png`));
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
}

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
