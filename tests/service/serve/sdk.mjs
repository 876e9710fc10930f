// What the official SDKs for Node show of a reply, of a stream and of a stream with tools, as JSON on stdout.
import { createRequire } from "node:module";

const [modules, api, url, session] = process.argv.slice(2);
const require = createRequire(`${modules}/package.json`);
const messages = [{ role: "user", content: "Say hello." }];
const options = { apiKey: "k", maxRetries: 0, defaultHeaders: { "x-ctxwrap-session": session } };
const schema = { type: "object", properties: { city: { type: "string" } } };
const shown = [];

async function readAll(stream) {
  for await (const event of stream) {
    const says = (event.choices ?? []).some((c) => c.finish_reason || Object.values(c.delta).some(Boolean));
    if (!event.choices || event.choices.length === 0 || says) shown.push(event);
  }
}

if (api === "openai") {
  const OpenAI = require("openai").default;
  const client = new OpenAI({ ...options, baseURL: `${url}/v1` });
  const tools = [{ type: "function", function: { name: "weather", parameters: schema } }];
  shown.push(await client.chat.completions.create({ model: "m", messages }));
  await readAll(await client.chat.completions.create({ model: "m", messages, stream: true }));
  await readAll(await client.chat.completions.create({ model: "m", messages, tools, stream: true }));
  shown.push((await client.responses.create({ model: "m", input: "Say hello." })).output_text);
} else {
  const Anthropic = require("@anthropic-ai/sdk").default;
  const client = new Anthropic({ ...options, baseURL: url });
  const tools = [{ name: "weather", input_schema: schema }];
  const asked = { model: "m", max_tokens: 64, messages };
  shown.push(await client.messages.create(asked));
  await readAll(await client.messages.create({ ...asked, stream: true }));
  shown.push(await client.messages.stream({ ...asked, tools }).finalMessage());
}
console.log(JSON.stringify(shown));
