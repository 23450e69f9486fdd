// Goal: programs written for `@anthropic-ai/sdk` work unchanged.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { key, messages, model, Place, place_schema, plain_chat, sampling, url } from './common.mjs';

const client = new Anthropic({ apiKey: key, baseURL: url, maxRetries: 0 });
const limits = { timeout: 60_000 };
const tools = [{ name: 'weather', input_schema: place_schema }];

test('messages: the text is that of the chat', limits, async () => {
  const answer = await client.messages.create({ model, messages, max_tokens: 16, ...sampling });
  const expected = await plain_chat({ ...sampling, max_tokens: 16 });
  assert.equal(answer.type, 'message');
  assert.deepEqual(answer.content.map((block) => block.type), ['text']);
  assert.equal(answer.content[0].text, expected.text);
  assert.equal(answer.stop_reason, 'max_tokens');
  assert.equal(answer.usage.input_tokens, expected.usage.prompt_tokens);
  assert.equal(answer.usage.output_tokens, 16);
});

test('system and parts: the prompt is the chat\'s', limits, async () => {
  const answer = await client.messages.create({ model, max_tokens: 12, ...sampling,
    system: 'Be brief.',
    messages: [{ role: 'user', content: [{ type: 'text', text: 'Who is there?' }] }] });
  const expected = await plain_chat({ ...sampling, max_tokens: 12,
    messages: [{ role: 'system', content: 'Be brief.' }, ...messages] });
  assert.equal(answer.content[0].text, expected.text);
});

test('stream: events joined are the message', limits, async () => {
  const stream = client.messages.stream({ model, messages, max_tokens: 20, ...sampling });
  let text = '';
  const types = [];
  stream.on('text', (delta) => { text += delta; });
  stream.on('streamEvent', (event) => { types.push(event.type); });
  const final = await stream.finalMessage();
  assert.equal(text, (await plain_chat({ ...sampling, max_tokens: 20 })).text);
  assert.equal(final.content[0].text, text);
  assert.equal(final.usage.output_tokens, 20);
  assert.deepEqual([types[0], types[1]], ['message_start', 'content_block_start']);
  assert.deepEqual(types.slice(-3), ['content_block_stop', 'message_delta', 'message_stop']);
});

test('tools: the input fits, streamed or not, and a result goes back', limits, async () => {
  const request = { model, messages, max_tokens: 200, seed: 5, tools,
    tool_choice: { type: 'tool', name: 'weather', disable_parallel_tool_use: true } };
  const answer = await client.messages.create(request);
  assert.equal(answer.stop_reason, 'tool_use');
  const [call] = answer.content.filter((block) => block.type === 'tool_use');
  assert.equal(call.name, 'weather');
  Place.strict().parse(call.input);
  const streamed = await client.messages.stream(request).finalMessage();
  assert.deepEqual(streamed.content.find((block) => block.type === 'tool_use').input, call.input);
  const next = await client.messages.create({ model, max_tokens: 8, tools, ...sampling,
    messages: [...messages, { role: 'assistant', content: answer.content },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: 'rain' }] }],
  });
  assert.ok(next.usage.input_tokens > answer.usage.input_tokens);
});

test('errors: their classes', limits, async () => {
  const ask = (more) => client.messages.create({ model, messages, max_tokens: 4, ...more });
  await assert.rejects(ask({ model: 'nobody' }), Anthropic.NotFoundError);
  await assert.rejects(ask({ temperature: 9 }), (error) => {
    assert.ok(error instanceof Anthropic.BadRequestError);
    assert.equal(error.error.error.type, 'invalid_request_error');
    return true;
  });
  const stranger = new Anthropic({ apiKey: 'hf_wrong', baseURL: url, maxRetries: 0 });
  await assert.rejects(stranger.messages.create({ model, messages, max_tokens: 4 }),
    Anthropic.AuthenticationError);
});
