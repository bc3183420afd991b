// The page that plays the edits. Whatever comes from outside is put in as text, never as HTML.

const $ = (id) => document.getElementById(id);
const SLOW = 1100; // milliseconds between steps

const state = { models: [], shown: [], at: 0, steps: 0, timer: null, asked: 0, sampled: null, placed: "" };

function make(name, className, text) {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

async function ask(path, body) {
  const sent = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(path, sent);
  const value = await answer.json().catch(() => ({ error: `the server said ${answer.status}` }));
  if (!answer.ok) throw new Error(value.error || `the server said ${answer.status}`);
  return value;
}

function complain(error) {
  $("message").textContent = error ? error.message : "";
  $("message").hidden = !error;
}

const percent = (share) => (share >= 0.9995 ? "100 %" : share < 0.001 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`);

// What an action does, in words.
function told(action) {
  const place = action.position === null ? "" : ` at ${action.position + 1}`;
  if (action.operation === "done") return "done";
  if (action.operation === "insert") return `insert ${action.after}${place}`;
  if (action.operation === "delete") return `delete ${action.before}${place}`;
  if (action.operation === "swap") return `swap ${action.before}${place}`;
  if (action.operation === "skip") return "an action that does not fit the text";
  if (action.operation === "rewrite") return "all at once";
  return `${action.operation} ${action.before} by ${action.after}${place}`;
}

// The tokens of a card at one moment: the text after `at` steps, what the last step changed drawn into it.
function tokensAt(result, at) {
  const step = at > 0 ? result.steps[at - 1] : null;
  const nodes = (step ?? result).tokens.map((word) => make("span", "", word));
  const next = result.steps[at];
  if (next && next.operation !== "rewrite" && next.position !== null) {
    const wide = next.gone.length;
    if (!wide) nodes.length > next.position ? nodes[next.position].classList.add("before") : nodes.at(-1)?.classList.add("behind");
    for (const node of nodes.slice(next.position, next.position + wide)) node.classList.add("here");
  }
  if (step?.operation === "rewrite") return compared(step.gone, step.came);
  if (!step || step.position === null) return nodes;
  const fresh = step.came.length;
  for (let i = step.position; i < step.position + fresh && i < nodes.length; i++) {
    const node = make("ins", nodes[i].className, nodes[i].textContent);
    nodes[i] = node;
  }
  const gone = step.gone.map((word) => make("del", "", word));
  nodes.splice(step.position, 0, ...gone);
  return nodes;
}

// Two texts with what they share, what went and what came, by a longest common subsequence.
function compared(old, fresh) {
  const table = Array.from({ length: old.length + 1 }, () => new Array(fresh.length + 1).fill(0));
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = fresh.length - 1; j >= 0; j--) {
      table[i][j] = old[i] === fresh[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
    }
  }
  const nodes = [];
  for (let i = 0, j = 0; i < old.length || j < fresh.length;) {
    if (i < old.length && j < fresh.length && old[i] === fresh[j]) { nodes.push(make("span", "", old[i])); i++; j++; }
    else if (j >= fresh.length || (i < old.length && table[i + 1][j] >= table[i][j + 1])) nodes.push(make("del", "", old[i++]));
    else nodes.push(make("ins", "", fresh[j++]));
  }
  return nodes;
}

function ending(result) {
  const end = result.finished ? "finished" : "stopped without DONE";
  return result.right === null ? end : `${result.right ? "✓ holds" : "✗ does not hold"}, ${end}`;
}

function verdict(result, at) {
  const node = make("span", "verdict");
  if (at < result.steps.length) return node;
  node.textContent = ending(result);
  if (result.right !== null) node.classList.add(result.right ? "right" : "wrong");
  return node;
}

function consideredAt(result, at) {
  const next = result.steps[at];
  const list = make("ol", "considered");
  for (const option of next ? next.alternatives : result.last) {
    const item = make("li", option.chosen ? "chosen" : "");
    item.style.setProperty("--share", `${(100 * option.probability).toFixed(1)}%`);
    item.append(make("span", "", told(option)), make("span", "", percent(option.probability)));
    list.append(item);
  }
  return list;
}

function card({ model, result }, moment) {
  const at = Math.min(moment, result.steps.length);
  const node = make("article", "card");
  const head = make("header");
  head.append(make("h2", "", `${model.name} · ${model.method}`), verdict(result, at));
  const tokens = make("div", model.glue ? "tokens" : "tokens tight");
  tokens.append(...tokensAt(result, at));
  const did = make("p", "did");
  const step = at > 0 ? result.steps[at - 1] : null;
  if (step) did.append(make("strong", "", told(step)), ` · ${percent(step.confidence)} sure`);
  else did.textContent = result.steps.length ? "As it came in." : "As it came in; no edit was made.";
  node.append(head, tokens, did);
  const next = result.steps[at];
  if (next ? next.alternatives.length : result.last.length) {
    node.append(make("h3", "", next ? "Considered next" : "Considered at the end"), consideredAt(result, at));
  }
  node.append(wayOf(result, at));
  return node;
}

// All texts on the way, to see at once and to jump to.
function wayOf(result, at) {
  const list = make("ol", "way");
  list.start = 0;
  [result.source, ...result.steps.map((step) => step.text)].forEach((text, index) => {
    const item = make("li");
    const button = make("button", "", text);
    button.type = "button";
    if (index === at) button.setAttribute("aria-current", "step");
    button.addEventListener("click", () => { pause(); go(index); });
    item.append(button);
    list.append(item);
  });
  return list;
}

function draw() {
  const held = [...$("cards").children].findIndex((node) => node.contains(document.activeElement));
  $("cards").replaceChildren(...state.shown.map((each) => card(each, state.at)));
  if (held >= 0) $("cards").children[held].querySelector("[aria-current]")?.focus(); // steps used by keyboard keep it
  $("at").max = state.steps;
  $("at").value = state.at;
  $("count").textContent = `step ${state.at} of ${state.steps}`;
  for (const id of ["first", "back"]) $(id).setAttribute("aria-disabled", state.at === 0);
  for (const id of ["last", "forth"]) $(id).setAttribute("aria-disabled", state.at >= state.steps);
  $("said").textContent = state.shown.map(spoken).filter(Boolean).join(" ");
}

// What a screen reader says of a card at this moment.
function spoken({ model, result }) {
  const who = state.shown.length > 1 ? `${model.method}: ` : "";
  const step = state.at > 0 ? result.steps[state.at - 1] : null;
  const now = step ? `step ${state.at}: ${told(step)}. The text is now: ${step.text}.` : "";
  const none = result.steps.length ? "" : "no edit was made.";
  const end = state.at >= result.steps.length ? ending(result).replace(/^. /, "") : "";
  return now || none || end ? `${who}${[now, none, end].filter(Boolean).join(" ")}` : "";
}

function go(at) {
  state.at = Math.max(0, Math.min(state.steps, at));
  if (state.at >= state.steps) pause();
  draw();
}

function pause() {
  clearInterval(state.timer);
  state.timer = null;
  $("play").textContent = "▶ Play";
  $("play").setAttribute("aria-label", "Play");
}

function toggle() {
  return state.timer ? pause() : play();
}

function play() {
  pause();
  if (state.at >= state.steps) go(0);
  $("play").textContent = "❚❚ Pause";
  $("play").setAttribute("aria-label", "Pause");
  state.timer = setInterval(() => go(state.at + 1), SLOW);
}

const chosenModel = () => state.models.find((model) => model.name === $("model").value);
const rivals = () => state.models.filter((model) => {
  const mine = chosenModel();
  return model.task === mine.task && JSON.stringify(model.setting) === JSON.stringify(mine.setting);
});

// How far ahead is looked; a least confidence goes with the likeliest action only.
function looking() {
  const beam = Number($("beam").value);
  const verify = $("verify").checked;
  if (beam > 1 || verify) return { beam, verify };
  return $("least").value === "" ? {} : { min_confidence: Number($("least").value) };
}

async function edit(event) {
  event?.preventDefault();
  pause();
  complain(null);
  const turn = ++state.asked; // an answer that comes after a later question is not shown
  const text = $("text").value;
  const asked = $("compare").checked ? rivals() : [chosenModel()];
  try {
    const answers = await Promise.all(asked.map((model) => {
      const ahead = model.method === "recurrence" ? looking() : {};
      return ask("api/edit", { model: model.name, text, ...ahead }).catch((error) => ({ error }));
    }));
    const wrong = answers.find((answer) => answer.error);
    if (wrong && answers.every((answer) => answer.error)) throw wrong.error;
    if (wrong) complain(wrong.error);
    if (turn !== state.asked) return;
    state.shown = answers.flatMap((answer, index) => (answer.error ? [] : [{ model: asked[index], result: answer.results[0] }]));
    state.steps = Math.max(...state.shown.map(({ result }) => result.steps.length));
    state.at = 0;
    $("stage").hidden = false;
    $("intro").hidden = true;
    draw();
    if (event) $("stage").focus(); // so that the keys work at once
    if (state.steps) play();
  } catch (error) {
    if (turn !== state.asked) return;
    $("stage").hidden = true;
    complain(error);
  }
}

async function random() {
  complain(null);
  const turn = ++state.asked;
  try {
    const pair = await ask(`api/models/${encodeURIComponent($("model").value)}/example`);
    if (turn !== state.asked) return;
    place(pair.source);
    await edit();
  } catch (error) {
    complain(error);
  }
}

function offer() {
  const mine = chosenModel();
  const several = rivals().length > 1;
  $("compare-label").hidden = !several;
  if (!several) $("compare").checked = false;
  const ahead = mine.method === "recurrence" || ($("compare").checked && rivals().some((model) => model.method === "recurrence"));
  $("beam").disabled = !ahead;
  $("verify").disabled = !ahead || !mine.examples; // whoever has no examples has no check, either
  if ($("verify").disabled) $("verify").checked = false;
  $("random").disabled = !mine.examples;
  $("least").disabled = !ahead || $("verify").checked || $("beam").value !== "1";
  const methods = [...new Set(rivals().map((model) => model.method))];
  $("method").replaceChildren(...methods.map((name) => make("option", "", name)));
  $("method").value = mine.method;
}

function keys(event) {
  if ($("stage").hidden || event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target instanceof HTMLElement && event.target.matches("input:not([type=checkbox]), select, textarea");
  const pressed = event.key === " " && event.target instanceof HTMLElement && event.target.matches("button, a, input");
  const moves = { ArrowLeft: () => go(state.at - 1), ArrowRight: () => go(state.at + 1), Home: () => go(0), End: () => go(state.steps), " ": toggle };
  if (typing || pressed || !(event.key in moves)) return;
  event.preventDefault();
  if (event.key !== " ") pause();
  moves[event.key]();
}

// A text of ours, which another one may replace; what the user has typed stays.
function place(text) {
  $("text").value = state.placed = text;
}

const untouched = () => ["", state.placed].includes($("text").value);

// A text that the chosen model can read, to begin with.
async function sample() {
  const mine = chosenModel();
  if (state.sampled === mine.task) return;
  state.sampled = mine.task;
  if (!mine.examples || !untouched()) return;
  const pair = await ask(`api/models/${encodeURIComponent(mine.name)}/example?seed=1`);
  if (chosenModel() === mine && untouched()) place(pair.source);
}

async function start() {
  $("ask").addEventListener("submit", edit);
  $("random").addEventListener("click", random);
  $("model").addEventListener("change", () => { offer(); sample(); });
  for (const id of ["compare", "beam", "verify"]) $(id).addEventListener("change", offer);
  $("method").addEventListener("change", () => {
    $("model").value = rivals().find((model) => model.method === $("method").value).name;
    offer();
  });
  const moves = { first: () => go(0), back: () => go(state.at - 1), forth: () => go(state.at + 1), last: () => go(state.steps) };
  for (const [id, move] of Object.entries(moves)) $(id).addEventListener("click", () => { pause(); move(); });
  $("play").addEventListener("click", toggle);
  $("at").addEventListener("input", () => { pause(); go(Number($("at").value)); });
  document.addEventListener("keydown", keys);
  const [models, tasks, runs] = await Promise.all([ask("api/models"), ask("api/tasks"), ask("api/runs")]);
  state.models = models;
  $("watch-link").hidden = !runs.length;
  for (const model of models) {
    const option = make("option", "", `${model.name} (${model.task}, ${model.method})`);
    option.value = model.name;
    $("model").append(option);
  }
  for (const task of tasks.filter((each) => models.some((model) => model.task === each.name))) {
    const block = make("div");
    block.append(make("dt", "", `${task.name}: ${task.title}`), make("dd", "", task.source), make("dd", "", `→ ${task.target}`));
    $("tasks").append(block);
  }
  if (!models.length) { $("ask").hidden = true; location.replace("watch.html"); return; }
  offer();
  await sample();
}

start().catch(complain);
