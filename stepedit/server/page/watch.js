// Learning curves of runs that are being trained, looked at again every two seconds.

const PAUSE = 2000;
const SIZE = { width: 800, height: 300, left: 44, right: 46, top: 14, bottom: 34 };
const SVG = "http://www.w3.org/2000/svg";

function drawn(name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

const across = (epoch, last) => SIZE.left + ((SIZE.width - SIZE.left - SIZE.right) * epoch) / Math.max(last, 1);
const up = (share) => SIZE.height - SIZE.bottom - (SIZE.height - SIZE.top - SIZE.bottom) * share;

function path(points) {
  return points.map(([x, y], index) => `${index ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
}

function chart(run) {
  const svg = drawn("svg", { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: "img", "aria-label": `${run.metric} accuracy on validation and training loss against epochs` });
  const worst = Math.max(...run.reports.map((report) => report.loss ?? 0), 0.001);
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(drawn("line", { class: "axis", x1: SIZE.left, x2: SIZE.width - SIZE.right, y1: up(share), y2: up(share) }));
    svg.append(drawn("text", { x: SIZE.left - 8, y: up(share) + 4, "text-anchor": "end" }, `${100 * share}`));
    svg.append(drawn("text", { x: SIZE.width - SIZE.right + 8, y: up(share) + 4 }, (worst * share).toFixed(2)));
  }
  for (const share of [0, 0.5, 1]) {
    const epoch = Math.round(run.epochs * share);
    svg.append(drawn("text", { x: across(epoch, run.epochs), y: SIZE.height - 10, "text-anchor": "middle" }, share ? `epoch ${epoch}` : "0"));
  }
  const scores = run.reports.map((report) => [across(report.epoch, run.epochs), up(report.metrics[run.metric])]);
  const losses = run.reports.filter((report) => report.loss !== null).map((report) => [across(report.epoch, run.epochs), up(report.loss / worst)]);
  svg.append(drawn("path", { class: "line loss", d: path(losses) }), drawn("path", { class: "line", d: path(scores) }));
  return svg;
}

function block(run) {
  const node = document.createElement("section");
  node.className = "curves";
  const title = document.createElement("h2");
  title.textContent = `${run.name}: ${run.title}`;
  const line = document.createElement("p");
  const last = run.reports.at(-1);
  line.textContent = last
    ? `epoch ${last.epoch} of ${run.epochs} · ${run.metric} ${(100 * last.metrics[run.metric]).toFixed(2)} % · best ${(100 * last.best).toFixed(2)} % · ${last.steps_per_second.toFixed(1)} steps/s · ${(last.seconds / 60).toFixed(1)} min · solid: ${run.metric} accuracy on validation, in per cent (left); dashed: loss (right)`
    : "no validation yet";
  node.append(title, line);
  if (last) node.append(chart(run));
  return node;
}

async function look() {
  const message = document.getElementById("message");
  try {
    const names = await (await fetch("api/runs")).json();
    const models = await (await fetch("api/models")).json();
    document.getElementById("edit-link").hidden = !models.length;
    const answers = await Promise.all(names.map(async (name) => {
      const answer = await fetch(`api/runs/${encodeURIComponent(name)}`);
      const value = await answer.json();
      if (!answer.ok) throw new Error(value.error);
      return value;
    }));
    message.hidden = names.length > 0;
    message.textContent = names.length ? "" : "No run is watched; start with: stepedit serve --watch runs/x";
    document.getElementById("runs").replaceChildren(message, ...answers.map(block));
  } catch (error) {
    message.textContent = error.message;
    message.hidden = false;
  }
  setTimeout(look, PAUSE);
}

look();
