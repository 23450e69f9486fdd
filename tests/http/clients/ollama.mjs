// Goal: programs written for the `ollama` package work unchanged: what it gives is what the server said,
// of the same request without it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Ollama } from 'ollama';
import { key, messages, model, Place, place_schema, plain, poll, url } from './common.mjs';

const client = new Ollama({ host: url, headers: { Authorization: `Bearer ${key}` } });
const limits = { timeout: 60_000 };
const options = { seed: 7, temperature: 0.8, num_predict: 16 };

/// The same chat without the library, in one document.
async function whole_chat(more = {}) {
  const answer = await plain('POST', '/api/chat',
    { model, messages, options, stream: false, ...more });
  assert.equal(answer.status, 200);
  return answer.json();
}

test('list, show, ps, version: the models as the server has them', limits, async () => {
  const { models } = await client.list();
  assert.deepEqual(models.map((one) => one.name), [model]);
  const details = await client.show({ model });
  assert.ok(details.capabilities.includes('completion'));
  assert.ok(details.capabilities.includes('tools'));
  assert.ok(Number.isInteger(details.model_info[`${details.details.family}.context_length`]));
  await client.generate({ model, prompt: '', keep_alive: -1 });
  const { models: running } = await client.ps();
  assert.deepEqual(running.map((one) => one.model), [model]);
  assert.match((await client.version()).version, /^\d+\.\d+/);
});

test('chat: the answer is that of the plain request, counts add up', limits, async () => {
  const answer = await client.chat({ model, messages, options });
  const expected = await whole_chat();
  assert.equal(answer.message.role, 'assistant');
  assert.equal(answer.message.content, expected.message.content);
  assert.equal(answer.done, true);
  assert.equal(answer.eval_count, expected.eval_count);
  assert.ok(answer.total_duration > 0);
});

test('chat stream: joined it is the answer, the last part has the counts', limits, async () => {
  let text = '', last;
  for await (const part of await client.chat({ model, messages, options, stream: true })) {
    text += part.message.content;
    last = part;
  }
  const expected = await whole_chat();
  assert.equal(text, expected.message.content);
  assert.equal(last.done, true);
  assert.equal(last.done_reason, expected.done_reason);
  assert.equal(last.eval_count, expected.eval_count);
});

test('generate: raw and with a system, streamed and whole', limits, async () => {
  const asked = { model, prompt: 'To be, or not', raw: true, options };
  const whole = await client.generate(asked);
  let text = '';
  for await (const part of await client.generate({ ...asked, stream: true })) text += part.response;
  assert.equal(text, whole.response);
  assert.ok(whole.response.length > 0);
  const told = await client.generate({ model, prompt: 'Speak', system: 'Be brief', options });
  assert.equal(told.done, true);
});

test('format: an answer by a schema', limits, async () => {
  const answer = await client.chat({
    model, messages, format: place_schema, options: { ...options, num_predict: 200 } });
  Place.parse(JSON.parse(answer.message.content));
  const any = await client.generate({
    model, prompt: 'Speak', format: 'json', options: { ...options, num_predict: 200 } });
  if (any.done_reason === 'stop') JSON.parse(any.response);
});

test('tools: they are offered, and a call comes back as an object', limits, async () => {
  const tools = [{ type: 'function', function: {
    name: 'weather', description: 'Of a place', parameters: place_schema } }];
  const answer = await client.chat({ model, messages, tools, options });
  for (const call of answer.message.tool_calls ?? []) {
    assert.equal(call.function.name, 'weather');
    assert.equal(typeof call.function.arguments, 'object');
  }
  const history = [...messages,
    { role: 'assistant', content: '', tool_calls: [
      { function: { name: 'weather', arguments: { city: 'Bern', days: 2 } } }] },
    { role: 'tool', tool_name: 'weather', content: 'rain' }];
  const next = await client.chat({ model, messages: history, tools, options });
  assert.equal(next.done, true);
});

test('embed, embeddings: vectors of one length', limits, async () => {
  const { embeddings } = await client.embed({ model, input: ['one', 'two'] });
  assert.equal(embeddings.length, 2);
  assert.equal(embeddings[0].length, embeddings[1].length);
  const { embedding } = await client.embeddings({ model, prompt: 'one' });
  assert.equal(embedding.length, embeddings[0].length);
});

test('abort: the client stops reading, the server goes on', limits, async () => {
  const stream = await client.generate({
    model, prompt: 'To be', raw: true, stream: true, options: { ...options, num_predict: 400 } });
  let parts = 0;
  await assert.rejects(async () => {
    for await (const part of stream) {
      if (++parts === 3) stream.abort();
      assert.equal(part.done, false);
    }
  }, { name: 'AbortError' });
  const answer = await client.chat({ model, messages, options });
  assert.equal(answer.done, true);
});

test('keep_alive: 0 unloads, a request loads again, a time is told', limits, async () => {
  const before = await whole_chat();
  await client.generate({ model, prompt: '', keep_alive: 0 });
  await poll(() => client.ps(), ({ models }) => models.length === 0);
  const after = await client.chat({ model, messages, options, keep_alive: '10m' });
  assert.equal(after.message.content, before.message.content);
  const { models } = await client.ps();
  const left = new Date(models[0].expires_at).getTime() - Date.now();
  assert.ok(left > 500_000 && left < 601_000, `${left} ms`);
  await client.generate({ model, prompt: '', keep_alive: -1 });
});

test('errors: the message is the server\'s, the status too', limits, async () => {
  await assert.rejects(client.chat({ model: 'nobody', messages }),
    (error) => error.status_code === 404 && /nobody/.test(error.message));
  await assert.rejects(client.show({ model: 'nobody' }), { status_code: 404 });
  await assert.rejects(client.generate({ model, prompt: 'a', options: { temperature: -1 } }),
    { status_code: 400 });
  await assert.rejects(client.copy({ source: model, destination: 'mine' }), { status_code: 403 });
  await assert.rejects(client.delete({ model }), { status_code: 403 });
  await assert.rejects(client.pull({ model: 'llama3' }), { status_code: 403 });
  await assert.rejects(new Ollama({ host: url }).list(), { status_code: 401 });
});

test('pull: an operator\'s client follows a download to its end', limits, async () => {
  const operator = new Ollama({ host: url,
    headers: { Authorization: `Bearer ${process.env.HOLDFAST_OPERATOR_KEY}` } });
  const name = `${process.env.HOLDFAST_TEST_HUB}/org/demo`;
  const parts = [];
  for await (const part of await operator.pull({ model: name, stream: true })) parts.push(part);
  assert.equal(parts.at(-1).status, 'success');
  assert.ok(parts.some((part) => /^(pulling|verifying|writing)/.test(part.status)));
  const { models } = await operator.list();
  assert.ok(models.some((one) => one.name === name), JSON.stringify(models));
});
