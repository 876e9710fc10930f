// Calls tools with the official Node clients: one JSON line in for every call, one out for its answer.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const { modules, client: which, command, args, env, url, token } = JSON.parse(process.argv[2]);
const require = createRequire(`${modules}/package.json`);

function doors() {
  if (which === "sdk") {
    const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
    const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
    return { Client, StdioClientTransport, StreamableHTTPClientTransport };
  }
  const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
  const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");
  return { Client, StdioClientTransport, StreamableHTTPClientTransport };
}

const { Client, StdioClientTransport, StreamableHTTPClientTransport } = doors();
// for a class of our own the newer client does not start a second server only to ask for its version
class OneServer extends StdioClientTransport {}
const transport = url
  ? new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { authorization: `Bearer ${token}` } } })
  : new OneServer({ command, args, env: { ...process.env, ...env }, stderr: "inherit" });
// the newer client speaks the newest protocol, the older one does not know this option
const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode: { pin: "2026-07-28" } } });
await client.connect(transport);

for await (const line of createInterface({ input: process.stdin })) {
  const { tool, arguments: given } = JSON.parse(line);
  const answer = tool ? await client.callTool({ name: tool, arguments: given }) : await client.listTools();
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await client.close();
