// Learning curves of watched runs, refreshed while they train.

const REFRESH_INTERVAL = 2000; // milliseconds
const SIZE = { width: 800, height: 300, left: 44, right: 46, top: 14, bottom: 34 };
const SVG = "http://www.w3.org/2000/svg";

function svgNode(name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

const xOf = (epoch, maxEpochs) => SIZE.left + ((SIZE.width - SIZE.left - SIZE.right) * epoch) / Math.max(maxEpochs, 1);
const yOf = (share) => SIZE.height - SIZE.bottom - (SIZE.height - SIZE.top - SIZE.bottom) * share;

function pathData(points) {
  return points.map(([x, y], index) => `${index ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
}

function chart(run) {
  const svg = svgNode("svg", { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: "img", "aria-label": `${run.metric} accuracy on validation and training loss by epoch` });
  const maxLoss = Math.max(...run.reports.map((report) => report.loss ?? 0), 0.001);
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(svgNode("line", { class: "axis", x1: SIZE.left, x2: SIZE.width - SIZE.right, y1: yOf(share), y2: yOf(share) }));
    svg.append(svgNode("text", { x: SIZE.left - 8, y: yOf(share) + 4, "text-anchor": "end" }, `${100 * share}`));
    svg.append(svgNode("text", { x: SIZE.width - SIZE.right + 8, y: yOf(share) + 4 }, (maxLoss * share).toFixed(2)));
  }
  for (const share of [0, 0.5, 1]) {
    const epoch = Math.round(run.max_epochs * share);
    svg.append(svgNode("text", { x: xOf(epoch, run.max_epochs), y: SIZE.height - 10, "text-anchor": "middle" }, share ? `epoch ${epoch}` : "0"));
  }
  const scores = run.reports.map((report) => [xOf(report.epoch, run.max_epochs), yOf(report.metrics[run.metric])]);
  const losses = run.reports.filter((report) => report.loss !== null).map((report) => [xOf(report.epoch, run.max_epochs), yOf(report.loss / maxLoss)]);
  svg.append(svgNode("path", { class: "line loss", d: pathData(losses) }), svgNode("path", { class: "line", d: pathData(scores) }));
  return svg;
}

function runSection(run) {
  const node = document.createElement("section");
  node.className = "curves";
  const title = document.createElement("h2");
  title.textContent = `${run.name}: ${run.title}`;
  const summary = document.createElement("p");
  const last = run.reports.at(-1);
  summary.textContent = last
    ? `epoch ${+last.epoch.toFixed(1)} of ${run.max_epochs} · ${run.metric} ${(100 * last.metrics[run.metric]).toFixed(2)} % · best ${(100 * last.best).toFixed(2)} % · ${last.steps_per_second.toFixed(1)} steps/s · ${(last.seconds / 60).toFixed(1)} min · solid: ${run.metric} accuracy on validation, % (left axis); dashed: training loss (right axis)`
    : "no validation yet";
  node.append(title, summary);
  if (last) node.append(chart(run));
  return node;
}

async function refresh() {
  const message = document.getElementById("message");
  try {
    const names = await (await fetch("api/runs")).json();
    const models = await (await fetch("api/models")).json();
    document.getElementById("edit-link").hidden = !models.length;
    const runs = await Promise.all(names.map(async (name) => {
      const response = await fetch(`api/runs/${encodeURIComponent(name)}`);
      const value = await response.json();
      if (!response.ok) throw new Error(value.error);
      return value;
    }));
    message.hidden = names.length > 0;
    message.textContent = names.length ? "" : "No run is watched; start the server with: stepedit serve --watch runs/x";
    document.getElementById("runs").replaceChildren(message, ...runs.map(runSection));
  } catch (error) {
    message.textContent = error.message;
    message.hidden = false;
  }
  setTimeout(refresh, REFRESH_INTERVAL);
}

refresh();
