// A host on the official SDK in TypeScript: typescript_host.mjs SDK COMMAND, both as JSON. Reads a list of
// [method of its client, parameters, schema or null]; writes what each returned or raised, and what the server asked and told.
import { text } from "node:stream/consumers";

const [sdk, command, environ] = process.argv.slice(2).map((word) => JSON.parse(word));
const { Client } = await import(sdk + "/dist/esm/client/index.js");
const { StdioClientTransport } = await import(sdk + "/dist/esm/client/stdio.js");
const types = await import(sdk + "/dist/esm/types.js");
const asked = [], told = [], answers = [];
const client = new Client({ name: "host", version: "1" }, { capabilities: { elicitation: { form: {}, url: {} } } });
client.setRequestHandler(types.ElicitRequestSchema, ({ params }) => {
  asked.push(params);
  return { action: "accept", content: {} };
});
client.setNotificationHandler(types.LoggingMessageNotificationSchema, ({ params }) => void told.push(params));
await client.connect(new StdioClientTransport({ command: command[0], args: command.slice(1), env: environ, stderr: "ignore" }));
for (const [method, params] of JSON.parse(await text(process.stdin))) {
  const heard = { onprogress: (progress) => told.push(progress) };
  try {
    answers.push({ result: method === "callTool" ? await client.callTool(params, undefined, heard) : await client[method](params) });
  } catch (error) {
    answers.push({ raised: error.message, code: error.code });
  }
}
console.log(JSON.stringify({ answers, asked, told }));
await client.close();
