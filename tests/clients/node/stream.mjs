// openai-node's responses.stream(): the strictest of the clients. Prints what it saw as one JSON document.
// Usage: node stream.mjs BASE_URL REQUEST_JSON
import OpenAI from "openai";

const [baseURL, request] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
const stream = client.responses.stream(JSON.parse(request));
const events = [];
stream.on("event", (event) => events.push(event));
const final = await stream.finalResponse();
console.log(JSON.stringify({ events, final, output_text: final.output_text }));
