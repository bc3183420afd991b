// The page that plays the edits. Whatever comes from outside is put in as text, never as HTML.

const $ = (id) => document.getElementById(id);
const SLOW = 1100; // milliseconds between steps

const state = { models: [], shown: [], at: 0, steps: 0, timer: null };

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

const words = (text) => text.split(/\s+/).filter(Boolean);
const percent = (share) => (share >= 0.9995 ? "100 %" : share < 0.001 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`);

// What an action does, in words.
function told(action) {
  const place = action.position === null ? "" : ` at ${action.position + 1}`;
  if (action.operation === "done") return "done";
  if (action.operation === "insert") return `insert ${action.after}${place}`;
  if (action.operation === "delete") return `delete ${action.before}${place}`;
  if (action.operation === "swap") return `swap ${action.before}${place}`;
  if (action.operation === "skip") return "an action that does not fit the text";
  if (action.operation === "rewrite") return `write the whole text`;
  return `${action.operation} ${action.before} by ${action.after}${place}`;
}

// The tokens of a card at one moment: the text after `at` steps, what the last step changed drawn into it.
function tokensAt(result, at) {
  const step = at > 0 ? result.steps[at - 1] : null;
  const nodes = words(step ? step.text : result.source).map((word) => make("span", "", word));
  const next = result.steps[at];
  if (next && next.operation !== "rewrite") nodes[next.position]?.classList.add("here");
  if (!step || step.position === null) return nodes;
  const fresh = words(step.after).length;
  for (let i = step.position; i < step.position + fresh && i < nodes.length; i++) {
    const node = make("ins", nodes[i].className, nodes[i].textContent);
    nodes[i] = node;
  }
  const gone = words(step.before).map((word) => make("del", "", word));
  nodes.splice(step.position, 0, ...gone);
  return nodes;
}

function verdict(result, at) {
  const node = make("span", "verdict");
  if (at < result.steps.length) return node;
  const ending = result.finished ? "" : ", stopped at the limit";
  node.textContent = `${result.right ? "✓ holds" : "✗ does not hold"}${ending}`;
  node.classList.add(result.right ? "right" : "wrong");
  return node;
}

function consideredAt(result, at) {
  const next = result.steps[at];
  const list = make("ol", "considered");
  const options = next ? next.alternatives : result.last;
  const chosen = next ? told(next) : "done";
  for (const option of options) {
    const item = make("li", told(option) === chosen ? "chosen" : "");
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
  const tokens = make("div", "tokens");
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
  const held = $("cards").contains(document.activeElement); // a list of steps that is used by keyboard keeps its focus
  $("cards").replaceChildren(...state.shown.map((each) => card(each, state.at)));
  if (held) $("cards").querySelector("[aria-current]")?.focus();
  $("at").max = state.steps;
  $("at").value = state.at;
  $("count").textContent = `step ${state.at} of ${state.steps}`;
  $("first").disabled = $("back").disabled = state.at === 0;
  $("last").disabled = $("forth").disabled = state.at >= state.steps;
  const first = state.shown[0];
  const step = first && state.at > 0 ? first.result.steps[state.at - 1] : null;
  $("said").textContent = step ? `Step ${state.at}: ${told(step)}. The text is now: ${step.text}` : "";
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

function play() {
  if (state.timer) return pause();
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

async function edit(event) {
  event?.preventDefault();
  pause();
  complain(null);
  const text = $("text").value;
  const asked = $("compare").checked ? rivals() : [chosenModel()];
  $("edit").disabled = true;
  try {
    const answers = await Promise.all(asked.map((model) => {
      const ahead = model.method === "recurrence" ? { beam: Number($("beam").value), verify: $("verify").checked } : {};
      return ask("api/edit", { model: model.name, text, ...ahead });
    }));
    state.shown = answers.map((answer, index) => ({ model: asked[index], result: answer.results[0] }));
    state.steps = Math.max(...state.shown.map(({ result }) => result.steps.length));
    state.at = 0;
    $("stage").hidden = false;
    $("intro").hidden = true;
    draw();
    if (state.steps) play();
  } catch (error) {
    $("stage").hidden = true;
    complain(error);
  } finally {
    $("edit").disabled = false;
  }
}

async function random() {
  complain(null);
  try {
    const pair = await ask(`api/models/${encodeURIComponent($("model").value)}/example`);
    $("text").value = pair.source;
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
  const ahead = mine.method === "recurrence" || $("compare").checked;
  $("beam").disabled = $("verify").disabled = !ahead;
}

function keys(event) {
  if ($("stage").hidden || event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target instanceof HTMLElement && event.target.matches("input, select, button, a, textarea");
  const moves = { ArrowLeft: () => go(state.at - 1), ArrowRight: () => go(state.at + 1), Home: () => go(0), End: () => go(state.steps), " ": play };
  if (typing || !(event.key in moves)) return;
  event.preventDefault();
  if (event.key !== " ") pause();
  moves[event.key]();
}

async function start() {
  $("ask").addEventListener("submit", edit);
  $("random").addEventListener("click", random);
  $("model").addEventListener("change", offer);
  $("compare").addEventListener("change", offer);
  const moves = { first: () => go(0), back: () => go(state.at - 1), forth: () => go(state.at + 1), last: () => go(state.steps) };
  for (const [id, move] of Object.entries(moves)) $(id).addEventListener("click", () => { pause(); move(); });
  $("play").addEventListener("click", play);
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
  const first = tasks.find((task) => task.name === models[0].task);
  $("text").value = first ? first.source : "";
  offer();
}

start().catch(complain);
