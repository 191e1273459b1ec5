// The AI SDK: ai_sdk.mjs BASE_URL SIZE; prints what its functions return, as JSON.
import { createOpenAI } from "@ai-sdk/openai";
import { generateObject, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const [baseURL, size] = process.argv.slice(2);
const openai = createOpenAI({ baseURL, apiKey: "none" });

const asked = [];
const errors = [];
const streamed = streamText({
  model: openai.responses(`weather-${size}`),
  prompt: "How is Oslo?",
  stopWhen: stepCountIs(3),
  maxRetries: 0,
  tools: {
    get_weather: tool({
      description: "Current weather in a city.",
      inputSchema: z.object({ city: z.string() }),
      execute: async ({ city }) => {
        asked.push(city);
        return "sunny";
      },
    }),
  },
  onError: ({ error }) => errors.push(String(error)),
});
const kinds = new Set();
for await (const part of streamed.fullStream) kinds.add(part.type);

const generated = await generateObject({
  model: openai.responses(`person-${size}`),
  schema: z.object({ name: z.string(), age: z.number().int() }),
  prompt: "Ann is 5.",
  maxRetries: 0,
});

console.log(
  JSON.stringify({
    asked,
    errors,
    kinds: [...kinds],
    text: await streamed.text,
    steps: (await streamed.steps).length,
    finishReason: await streamed.finishReason,
    usage: await streamed.totalUsage,
    object: generated.object,
  }),
);
