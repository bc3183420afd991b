// The API's OpenAPI schema in readable form.

const api = await (await fetch("openapi.json")).json();

function make(name, className, text) {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

const dereference = (schema) => (schema?.$ref ? api.components.schemas[schema.$ref.split("/").pop()] : schema);

// A schema as fields with their types and descriptions.
function formatSchema(schema, depth = 0) {
  const value = dereference(schema) ?? {};
  if (value.anyOf) return value.anyOf.map((each) => formatSchema(each, depth)).join(" or ");
  if (value.type === "array") return `[${formatSchema(value.items, depth)}, ...]`;
  if (!value.properties) return value.type ?? "any";
  const indent = "  ".repeat(depth + 1);
  const fields = Object.entries(value.properties).map(([name, field]) => {
    const comment = field.description ? `  // ${field.description}` : "";
    return `${indent}${name}: ${formatSchema(field, depth + 1)}${comment}`;
  });
  return `{\n${fields.join("\n")}\n${"  ".repeat(depth)}}`;
}

function endpointSection(path, method, operation) {
  const node = make("section", "endpoint");
  node.append(make("h2", "", `${method.toUpperCase()} ${path}`), make("p", "", operation.description ?? ""));
  const request = operation.requestBody?.content["application/json"]?.schema;
  if (request) node.append(make("h3", "", "Request"), make("pre", "", formatSchema(request)));
  const response = operation.responses["200"]?.content?.["application/json"]?.schema;
  if (response) node.append(make("h3", "", "Response"), make("pre", "", formatSchema(response)));
  const codes = Object.keys(operation.responses).filter((code) => code !== "200");
  if (codes.length) node.append(make("p", "aside", `Errors, as {"error": message}: ${codes.join(", ")}`));
  return node;
}

for (const [path, operations] of Object.entries(api.paths)) {
  for (const [method, operation] of Object.entries(operations)) document.getElementById("endpoints").append(endpointSection(path, method, operation));
}
