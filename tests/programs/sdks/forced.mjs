// Calls that a real model is made to do: each library names the tool that must be called, twice,
// whole and streamed, and gets arguments that the tool's schema allows. The model is told not to
// reason before.
import Anthropic from '@anthropic-ai/sdk';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { HumanMessage } from '@langchain/core/messages';
import { tool as langchainTool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { generateText, streamText, tool } from 'ai';
import OpenAI from 'openai';
import assert from 'node:assert/strict';
import { z } from 'zod';
import { description, first, model, url } from './weather.mjs';

const parameters = {
  type: 'object',
  properties: { city: { type: 'string', maxLength: 12 }, days: { type: 'integer', minimum: 1, maximum: 7 } },
  required: ['city', 'days'],
  additionalProperties: false,
};
const schema = z.object({ city: z.string().max(12), days: z.number().int().min(1).max(7) }).strict();
const max_tokens = 200;

function check(name, input, how) {
  assert.equal(name, 'weather', how);
  schema.parse(input);
  console.log(`${how}: ${JSON.stringify(input)}`);
}

async function byOpenAI(stream) {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none' });
  const body = {
    model, max_tokens, seed: 1, reasoning_effort: 'none', messages: [{ role: 'user', content: first }],
    tools: [{ type: 'function', function: { name: 'weather', description, parameters } }],
    tool_choice: { type: 'function', function: { name: 'weather' } },
  };
  const answer = stream ? await client.chat.completions.stream(body).finalChatCompletion() : await client.chat.completions.create(body);
  const [{ message, finish_reason }] = answer.choices;
  assert.equal(finish_reason, 'tool_calls');
  check(message.tool_calls[0].function.name, JSON.parse(message.tool_calls[0].function.arguments), `openai, chat${stream ? ', streamed' : ''}`);
  const wish = {
    model, max_output_tokens: max_tokens, reasoning: { effort: 'none' }, input: first, tools: [{ type: 'function', name: 'weather', description, parameters, strict: false }],
    tool_choice: { type: 'function', name: 'weather' },
  };
  const response = stream ? await client.responses.stream(wish).finalResponse() : await client.responses.create(wish);
  const called = response.output.find((item) => item.type === 'function_call');
  check(called.name, JSON.parse(called.arguments), `openai, responses${stream ? ', streamed' : ''}`);
  // The conversation goes on with what the tool said.
  const next = await client.responses.create({
    model, max_output_tokens: 20, reasoning: { effort: 'none' }, previous_response_id: response.id,
    input: [{ type: 'function_call_output', call_id: called.call_id, output: '18 degrees' }],
  });
  assert.ok(next.output_text.length > 0);
}

async function byAnthropic(stream) {
  const client = new Anthropic({ baseURL: url, apiKey: 'none' });
  const body = {
    model, max_tokens, thinking: { type: 'disabled' }, messages: [{ role: 'user', content: first }],
    tools: [{ name: 'weather', description, input_schema: parameters }], tool_choice: { type: 'tool', name: 'weather' },
  };
  const answer = stream ? await client.messages.stream(body).finalMessage() : await client.messages.create(body);
  assert.equal(answer.stop_reason, 'tool_use');
  const used = answer.content.find((block) => block.type === 'tool_use');
  check(used.name, used.input, `anthropic${stream ? ', streamed' : ''}`);
}

async function byAi(stream) {
  const provider = createOpenAICompatible({ name: 'holdfast', baseURL: `${url}/v1` });
  const wish = {
    model: provider(model), prompt: first, maxOutputTokens: max_tokens, providerOptions: { holdfast: { reasoningEffort: 'none' } }, toolChoice: { type: 'tool', toolName: 'weather' },
    tools: { weather: tool({ description, inputSchema: schema }) },
  };
  const answer = stream ? streamText(wish) : await generateText(wish);
  const [called] = await answer.toolCalls;
  check(called.toolName, called.input, `ai${stream ? ', streamed' : ''}`);
}

async function byLangChain(stream) {
  const ask = langchainTool(async () => '18 degrees', { name: 'weather', description, schema });
  const bound = new ChatOpenAI({ model, apiKey: 'none', maxTokens: max_tokens, modelKwargs: { reasoning_effort: 'none' }, configuration: { baseURL: `${url}/v1` } })
    .bindTools([ask], { tool_choice: 'weather' });
  let answer;
  if (stream) {
    for await (const chunk of await bound.stream([new HumanMessage(first)])) answer = answer ? answer.concat(chunk) : chunk;
  } else {
    answer = await bound.invoke([new HumanMessage(first)]);
  }
  check(answer.tool_calls[0].name, answer.tool_calls[0].args, `langchain${stream ? ', streamed' : ''}`);
}

for (const stream of [false, true]) {
  for (const library of [byOpenAI, byAnthropic, byAi, byLangChain]) await library(stream);
}
console.log('All were called.');
