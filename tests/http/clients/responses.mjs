// Goal: the Responses half of the `openai` package works unchanged: turns, typed events, work in
// the background, structured output and calls.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import { zodTextFormat } from 'openai/helpers/zod';
import { key, messages, model, Place, place_schema, plain_chat, poll, sampling, url }
  from './common.mjs';

const client = new OpenAI({ apiKey: key, baseURL: `${url}/v1`, maxRetries: 0 });
const limits = { timeout: 60_000 };
const input = messages[0].content;
const length = { ...sampling, max_output_tokens: 20 };

test('a response says what the chat says; a second turn knows the first', limits, async () => {
  const first = await client.responses.create({ model, input, ...length });
  const expected = await plain_chat({ ...sampling, max_tokens: 20 });
  assert.equal(first.output_text, expected.text);
  assert.equal(first.status, 'incomplete');
  assert.equal(first.usage.input_tokens, expected.usage.prompt_tokens);
  assert.equal(first.usage.input_tokens + first.usage.output_tokens, first.usage.total_tokens);
  const second = await client.responses.create(
    { model, input: 'And you?', previous_response_id: first.id, ...length });
  const turns = [...messages, { role: 'assistant', content: first.output_text },
    { role: 'user', content: 'And you?' }];
  assert.equal(second.output_text,
    (await plain_chat({ ...sampling, max_tokens: 20, messages: turns })).text);
  const found = await client.responses.retrieve(first.id);
  assert.deepEqual(found.output, first.output);
  const items = [];
  for await (const item of client.responses.inputItems.list(first.id)) items.push(item);
  assert.equal(items.length, 1);
  await client.responses.delete(first.id);
  await assert.rejects(client.responses.retrieve(first.id), OpenAI.NotFoundError);
});

test('events: typed, numbered, and together the response', limits, async () => {
  let text = '', last, count = 0;
  const stream = await client.responses.create({ model, input, ...length, stream: true });
  for await (const event of stream) {
    assert.equal(event.sequence_number, count++);
    if (event.type === 'response.output_text.delta') text += event.delta;
    last = event;
  }
  assert.equal(last.type, 'response.incomplete');
  assert.equal(text, (await plain_chat({ ...sampling, max_tokens: 20 })).text);
  assert.equal(last.response.output[0].content[0].text, text);
  const final = await client.responses.stream({ model, input, ...length }).finalResponse();
  assert.equal(final.output[0].content[0].text, text);
  // From the middle on, by the SDK's own means.
  let rest = 0;
  const again = await client.responses.retrieve(last.response.id,
    { stream: true, starting_after: count - 4 });
  for await (const _ of again) ++rest;
  assert.equal(rest, 3);
});

test('background: accepted, then found; a cancelled one ends', limits, async () => {
  const made = await client.responses.create({ model, input, ...length, background: true });
  assert.ok(['queued', 'in_progress'].includes(made.status), made.status);
  const end = await poll(() => client.responses.retrieve(made.id),
    (now) => !['queued', 'in_progress'].includes(now.status));
  assert.equal(end.status, 'incomplete');
  assert.equal(end.output_text, (await plain_chat({ ...sampling, max_tokens: 20 })).text);
  const long = await client.responses.create(
    { model, input, ...sampling, max_output_tokens: 480, background: true });
  const told = await client.responses.cancel(long.id);
  assert.equal(told.status, 'cancelled');
});

test('structured output: .parse', limits, async () => {
  const request = { model, input, seed: 4, text: { format: zodTextFormat(Place, 'place') } };
  const answer = await client.responses.parse(request);
  Place.strict().parse(answer.output_parsed);
  assert.equal(answer.status, 'completed');
  const streamed = await client.responses.stream(request).finalResponse();
  assert.equal(streamed.output_text, answer.output_text);
  assert.deepEqual(streamed.output_parsed, answer.output_parsed);
});

test('calls: arguments fit, and their outputs go into the next turn', limits, async () => {
  const tools = [{ type: 'function', name: 'weather', parameters: place_schema, strict: true }];
  const answer = await client.responses.create({ model, input, seed: 5, tools,
    tool_choice: 'required', parallel_tool_calls: false });
  const [call] = answer.output.filter((item) => item.type === 'function_call');
  assert.equal(call.name, 'weather');
  Place.strict().parse(JSON.parse(call.arguments));
  const next = await client.responses.create({ model, ...length, tools, previous_response_id: answer.id,
    input: [{ type: 'function_call_output', call_id: call.call_id, output: 'rain' }] });
  assert.ok(next.output_text.length > 0);
  assert.ok(next.usage.input_tokens > answer.usage.input_tokens);
});

test('errors', limits, async () => {
  await assert.rejects(client.responses.create({ model: 'nobody', input }), OpenAI.NotFoundError);
  await assert.rejects(client.responses.create({ model, input, temperature: 9 }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.param, 'temperature');
    return true;
  });
});
