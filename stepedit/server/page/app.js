// The page that plays the edits. Text from users and from the server is inserted as text, never as HTML.

const $ = (id) => document.getElementById(id);
const STEP_INTERVAL = 1100; // milliseconds
const STOPPED = { confidence: "stopped: low confidence", limit: "stopped: step limit", cycle: "stopped: cycle" };

const state = {
  models: [],
  results: [], // {model, result, states} of each card; states: the tokens before and after each step
  step: 0, // steps applied in the shown text
  numSteps: 0, // of the longest result
  timer: null, // while playing
  requestId: 0, // of the latest request; responses to earlier ones are dropped
  exampleTask: null, // task whose first example was loaded
  exampleText: "", // text that the page filled in, so it may be replaced
};

function make(name, className, text) {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

async function request(path, body) {
  const options = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(path, options);
  const value = await response.json().catch(() => ({ error: `the server returned status ${response.status}` }));
  if (!response.ok) throw new Error(value.error || `the server returned status ${response.status}`);
  return value;
}

const getExample = (model, query = "") => request(`api/models/${encodeURIComponent(model.name)}/example${query}`);

function showError(error) {
  $("message").textContent = error ? error.message : "";
  $("message").hidden = !error;
}

// A probability; with no-break spaces.
const percent = (share) => (share >= 0.9995 ? "100\u00a0%" : share < 0.001 ? "<\u00a00.1\u00a0%" : `${(100 * share).toFixed(1)}\u00a0%`);

// A step or a candidate in words.
function describe(action) {
  const where = action.position === null ? "" : ` at ${action.position}`;
  if (action.operation === "done") return "done";
  if (action.operation === "insert") return `insert ${action.after}${where}`;
  if (action.operation === "delete") return `delete ${action.before}${where}`;
  if (action.operation === "swap") return `swap ${action.before}${where}`;
  if (action.operation === "skip") return "skip an action that does not fit the text";
  if (action.operation === "rewrite") return "rewrite in one pass";
  return `${action.operation} ${action.before} with ${action.after}${where}`;
}

// The tokens of the source and after each step; the response has the changes only.
function replay(result) {
  const states = [result.tokens];
  for (const step of result.steps) {
    const tokens = [...states.at(-1)];
    if (step.position !== null) tokens.splice(step.position, step.deleted.length, ...step.inserted);
    states.push(tokens);
  }
  return states;
}

// The tokens after so many steps, with the last step's changes and the position of the next edit marked.
function tokenNodes({ result, states }, step) {
  const last = step > 0 ? result.steps[step - 1] : null;
  const nodes = states[step].map((token) => make("span", "", token));
  markNextEdit(nodes, result.steps[step]);
  if (last?.operation === "rewrite") return diffNodes(last.deleted, last.inserted);
  if (!last || last.position === null) return nodes;
  for (let i = last.position; i < last.position + last.inserted.length && i < nodes.length; i++) {
    nodes[i] = make("ins", nodes[i].className, nodes[i].textContent);
  }
  nodes.splice(last.position, 0, ...last.deleted.map((token) => make("del", "", token)));
  return nodes;
}

function markNextEdit(nodes, next) {
  if (!next || next.operation === "rewrite" || next.position === null) return;
  const stop = next.position + next.deleted.length;
  if (stop > next.position) for (const node of nodes.slice(next.position, stop)) node.classList.add("next-edit");
  else if (next.position < nodes.length) nodes[next.position].classList.add("insert-before");
  else nodes.at(-1)?.classList.add("insert-after");
}

// The differences between two lists of tokens, by their longest common subsequence.
function diffNodes(before, after) {
  const lengths = Array.from({ length: before.length + 1 }, () => new Array(after.length + 1).fill(0));
  for (let i = before.length - 1; i >= 0; i--) {
    for (let j = after.length - 1; j >= 0; j--) {
      lengths[i][j] = before[i] === after[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const nodes = [];
  for (let i = 0, j = 0; i < before.length || j < after.length;) {
    if (i < before.length && j < after.length && before[i] === after[j]) { nodes.push(make("span", "", before[i])); i++; j++; }
    else if (j >= after.length || (i < before.length && lengths[i + 1][j] >= lengths[i][j + 1])) nodes.push(make("del", "", before[i++]));
    else nodes.push(make("ins", "", after[j++]));
  }
  return nodes;
}

function describeOutcome(result) {
  const end = STOPPED[result.stop_reason] ?? "finished";
  return result.valid === null ? end : `${result.valid ? "valid" : "not valid"}, ${end}`;
}

function outcomeNode(result, step) {
  const node = make("span", "outcome");
  if (step < result.steps.length) return node;
  const mark = result.valid === null ? "" : result.valid ? "✓ " : "✗ ";
  node.textContent = mark + describeOutcome(result);
  if (result.valid !== null) node.classList.add(result.valid ? "valid" : "invalid");
  return node;
}

function candidateList(candidates) {
  const list = make("ol", "candidates");
  for (const candidate of candidates) {
    const item = make("li", candidate.chosen ? "chosen" : "");
    item.style.setProperty("--probability", `${(100 * candidate.probability).toFixed(1)}%`);
    item.append(make("span", "", describe(candidate)), make("span", "", percent(candidate.probability)));
    list.append(item);
  }
  return list;
}

function card(shown) {
  const { model, result } = shown;
  const step = Math.min(state.step, result.steps.length); // results may have fewer steps than the longest
  const node = make("article", "card");
  const header = make("header");
  header.append(make("h2", "", `${model.name} · ${model.method}`), outcomeNode(result, step));
  const tokens = make("div", model.separator ? "tokens" : "tokens characters");
  tokens.append(...tokenNodes(shown, step));
  const action = make("p", "action");
  const last = step > 0 ? result.steps[step - 1] : null;
  if (last) action.append(make("strong", "", describe(last)), ` · confidence ${percent(last.confidence)}`);
  else action.textContent = result.steps.length ? "Source text." : "Source text; no edit was made.";
  node.append(header, tokens, action);
  const next = result.steps[step];
  const candidates = next ? next.candidates : result.final_candidates;
  if (candidates.length) node.append(make("h3", "", next ? "Candidates" : "Final candidates"), candidateList(candidates));
  node.append(stepList(shown, step));
  return node;
}

// The text of some tokens. In own text by word, case is a token of its own and the first word loses its space.
function join(tokens, model) {
  if (model.task_args.level !== "word") return tokens.join(model.separator);
  const pieces = [];
  let sign = "";
  for (const token of tokens) {
    if (sign === "<CAPS>") pieces.push(token.toUpperCase());
    else pieces.push(sign ? token.replace(/^ ?./u, (start) => start.toUpperCase()) : token);
    sign = token === "<Cap>" || token === "<CAPS>" ? token : "";
    if (sign) pieces.pop();
  }
  return pieces.join("").replace(/^ /, "");
}

// The text after so many steps.
function textAfter({ model, result, states }, step) {
  if (step === 0) return result.source;
  return step === result.steps.length ? result.text : join(states[step], model);
}

// The text after each step; a click goes there.
function stepList(shown, step) {
  const list = make("ol", "steps");
  list.start = 0;
  shown.states.forEach((_, index) => {
    const item = make("li");
    const button = make("button", "", textAfter(shown, index));
    button.type = "button";
    if (index === step) button.setAttribute("aria-current", "step");
    button.addEventListener("click", () => { pause(); goTo(index); });
    item.append(button);
    list.append(item);
  });
  return list;
}

function render() {
  const focused = [...$("cards").children].findIndex((node) => node.contains(document.activeElement));
  $("cards").replaceChildren(...state.results.map(card));
  if (focused >= 0) $("cards").children[focused].querySelector("[aria-current]")?.focus(); // it was in the replaced card
  $("step").max = state.numSteps;
  $("step").value = state.step;
  $("step-count").textContent = `step ${state.step} of ${state.numSteps}`;
  for (const id of ["first", "previous"]) $(id).setAttribute("aria-disabled", state.step === 0);
  for (const id of ["last", "next"]) $(id).setAttribute("aria-disabled", state.step >= state.numSteps);
  $("announcement").textContent = state.results.map(announcement).filter(Boolean).join(" ");
}

// What screen readers announce of a result at the current step.
function announcement(shown) {
  const { model, result } = shown;
  const method = state.results.length > 1 ? `${model.method}: ` : "";
  const step = state.step > 0 ? result.steps[state.step - 1] : null;
  const parts = [
    step ? `step ${state.step}: ${describe(step)}. The text is now: ${textAfter(shown, state.step)}.` : "",
    result.steps.length ? "" : "no edit was made.",
    state.step >= result.steps.length ? `${describeOutcome(result)}.` : "",
  ].filter(Boolean);
  return parts.length ? method + parts.join(" ") : "";
}

function goTo(step) {
  state.step = Math.max(0, Math.min(state.numSteps, step));
  if (state.step >= state.numSteps) pause();
  render();
}

function pause() {
  clearInterval(state.timer);
  state.timer = null;
  $("play").textContent = "▶ Play";
  $("play").setAttribute("aria-label", "Play");
}

function togglePlay() {
  return state.timer ? pause() : play();
}

function play() {
  pause();
  if (state.step >= state.numSteps) goTo(0);
  $("play").textContent = "❚❚ Pause";
  $("play").setAttribute("aria-label", "Pause");
  state.timer = setInterval(() => goTo(state.step + 1), STEP_INTERVAL);
}

const selectedModel = () => state.models.find((model) => model.name === $("model").value);

// Models of the same task with the same arguments, the selected one included.
function comparableModels() {
  const selected = selectedModel();
  const args = JSON.stringify(selected.task_args);
  return state.models.filter((model) => model.task === selected.task && JSON.stringify(model.task_args) === args);
}

// The decoding options of a request.
function decoding(model) {
  if (!model.iterative) return {};
  const beamSize = Number($("beam-size").value);
  const verify = $("verify").checked;
  const search = model.can_search && (beamSize > 1 || verify) ? { beam_size: beamSize, verify } : {};
  const threshold = $("min-confidence").value;
  const words = model.keeps ? $("keep").value.split(",").map((word) => word.trim()).filter(Boolean) : [];
  return { ...search, ...(threshold === "" ? {} : { min_confidence: Number(threshold) }), ...(words.length ? { keep: words } : {}) };
}

const shownResult = (model, result) => ({ model, result, states: replay(result) });

async function edit(event) {
  event?.preventDefault();
  pause();
  showError(null);
  const requestId = ++state.requestId;
  const text = $("text").value;
  const models = $("compare").checked ? comparableModels() : [selectedModel()];
  try {
    const responses = await Promise.all(models.map((model) =>
      request("api/edit", { model: model.name, text, trace: true, ...decoding(model) }).catch((error) => ({ error }))));
    if (requestId !== state.requestId) return;
    const failed = responses.find((response) => response.error);
    if (failed && responses.every((response) => response.error)) throw failed.error;
    if (failed) showError(failed.error);
    state.results = responses.flatMap((response, index) => (response.error ? [] : [shownResult(models[index], response.results[0])]));
    state.numSteps = Math.max(...state.results.map(({ result }) => result.steps.length));
    state.step = 0;
    $("player").hidden = false;
    $("intro").hidden = true;
    render();
    if (event) $("player").focus(); // for the keyboard
    if (state.numSteps) play();
  } catch (error) {
    if (requestId !== state.requestId) return;
    $("player").hidden = true;
    showError(error);
  }
}

async function editRandomExample() {
  showError(null);
  const requestId = ++state.requestId;
  try {
    const example = await getExample(selectedModel());
    if (requestId !== state.requestId) return;
    fillIn(example.source);
    await edit();
  } catch (error) {
    if (requestId === state.requestId) showError(error);
  }
}

// Enable the options that the selected models support.
function updateOptions() {
  const selected = selectedModel();
  const comparable = comparableModels();
  $("compare-label").hidden = comparable.length < 2;
  if (comparable.length < 2) $("compare").checked = false;
  const some = (feature) => ($("compare").checked ? comparable : [selected]).some((model) => model[feature]);
  $("beam-size").disabled = !some("can_search");
  $("verify").disabled = !some("can_search") || !selected.verifiable;
  if ($("verify").disabled) $("verify").checked = false;
  $("min-confidence").disabled = !some("iterative");
  $("keep").disabled = !some("keeps");
  $("random").disabled = !selected.has_examples;
  const methods = [...new Set(comparable.map((model) => model.method))];
  $("method").replaceChildren(...methods.map((name) => make("option", "", name)));
  $("method").value = selected.method;
}

function onKeyDown(event) {
  if ($("player").hidden || event.ctrlKey || event.metaKey || event.altKey) return;
  const onElement = (selector) => event.target instanceof HTMLElement && event.target.matches(selector);
  const typing = onElement("input:not([type=checkbox]), select, textarea");
  const pressing = event.key === " " && onElement("button, a, input"); // Space activates the element itself
  const actions = {
    ArrowLeft: () => goTo(state.step - 1),
    ArrowRight: () => goTo(state.step + 1),
    Home: () => goTo(0),
    End: () => goTo(state.numSteps),
    " ": togglePlay,
  };
  if (typing || pressing || !(event.key in actions)) return;
  event.preventDefault();
  if (event.key !== " ") pause();
  actions[event.key]();
}

function fillIn(text) {
  $("text").value = state.exampleText = text;
}

// Whether the text field holds nothing that the user has typed.
const isReplaceable = () => ["", state.exampleText].includes($("text").value);

const isTyping = () => document.activeElement === $("text");

// Fill in an example when a task is selected for the first time, unless the user is in the text field.
async function loadFirstExample() {
  const selected = selectedModel();
  if (state.exampleTask === selected.task) return;
  state.exampleTask = selected.task;
  if (!selected.has_examples || !isReplaceable()) return;
  const example = await getExample(selected, "?seed=1");
  if (selectedModel() === selected && isReplaceable() && !isTyping()) fillIn(example.source);
}

function addListeners() {
  $("edit-form").addEventListener("submit", edit);
  $("random").addEventListener("click", editRandomExample);
  $("model").addEventListener("change", () => { updateOptions(); loadFirstExample().catch(showError); });
  for (const id of ["compare", "beam-size", "verify"]) $(id).addEventListener("change", updateOptions);
  $("method").addEventListener("change", () => {
    $("model").value = comparableModels().find((model) => model.method === $("method").value).name;
    updateOptions();
  });
  const steps = { first: () => 0, previous: () => state.step - 1, next: () => state.step + 1, last: () => state.numSteps };
  for (const [id, target] of Object.entries(steps)) $(id).addEventListener("click", () => { pause(); goTo(target()); });
  $("play").addEventListener("click", togglePlay);
  $("step").addEventListener("input", () => { pause(); goTo(Number($("step").value)); });
  document.addEventListener("keydown", onKeyDown);
}

async function start() {
  addListeners();
  const [models, tasks, runs] = await Promise.all([request("api/models"), request("api/tasks"), request("api/runs")]);
  state.models = models;
  $("watch-link").hidden = !runs.length;
  for (const model of models) {
    const option = make("option", "", `${model.name} (${model.task}, ${model.method})`);
    option.value = model.name;
    $("model").append(option);
  }
  for (const task of tasks.filter((each) => models.some((model) => model.task === each.name))) {
    const item = make("div");
    item.append(make("dt", "", `${task.name}: ${task.title}`), make("dd", "", task.source), make("dd", "", `→ ${task.target}`));
    $("tasks").append(item);
  }
  if (!models.length) { $("edit-form").hidden = true; location.replace("watch.html"); return; }
  updateOptions();
  await loadFirstExample();
}

start().catch(showError);
