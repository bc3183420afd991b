// The API's own description, made readable.

const api = await (await fetch("openapi.json")).json();

function make(name, className, text) {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

const resolved = (schema) => (schema?.$ref ? api.components.schemas[schema.$ref.split("/").pop()] : schema);

// A schema in short: the type of each field.
function brief(schema, deep = 0) {
  const value = resolved(schema) ?? {};
  if (value.anyOf) return value.anyOf.map((each) => brief(each, deep)).join(" or ");
  if (value.type === "array") return `[${brief(value.items, deep)}, ...]`;
  if (!value.properties) return value.type ?? "anything";
  const gap = "  ".repeat(deep + 1);
  const fields = Object.entries(value.properties).map(([name, field]) => {
    const note = field.description ? `  // ${field.description}` : "";
    return `${gap}${name}: ${brief(field, deep + 1)}${note}`;
  });
  return `{\n${fields.join("\n")}\n${"  ".repeat(deep)}}`;
}

function block(path, method, call) {
  const node = make("section", "calls");
  node.append(make("h2", "", `${method.toUpperCase()} ${path}`), make("p", "", call.description ?? ""));
  const body = call.requestBody?.content["application/json"]?.schema;
  if (body) node.append(make("h3", "", "request"), make("pre", "", brief(body)));
  const good = call.responses["200"]?.content?.["application/json"]?.schema;
  if (good) node.append(make("h3", "", "answer"), make("pre", "", brief(good)));
  const codes = Object.keys(call.responses).filter((code) => code !== "200");
  if (codes.length) node.append(make("p", "aside", `What is wrong is said as {"error": reason}: ${codes.join(", ")}`));
  return node;
}

for (const [path, calls] of Object.entries(api.paths)) {
  for (const [method, call] of Object.entries(calls)) document.getElementById("calls").append(block(path, method, call));
}
