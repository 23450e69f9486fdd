// Goal: programs written for the `openai` package work unchanged: what it gives is what the server
// said, of the same request without it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI, { toFile } from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { ask_state, document, is_over, key, messages, model, Place, place_schema, plain_chat, poll,
  sampling, url } from './common.mjs';

const client = new OpenAI({ apiKey: key, baseURL: `${url}/v1`, maxRetries: 0 });
const limits = { timeout: 60_000 };
const tool = { type: 'function', function: { name: 'weather', parameters: place_schema } };

test('chat: the answer is that of the plain request, usage adds up', limits, async () => {
  const options = { ...sampling, max_tokens: 16 };
  const answer = await client.chat.completions.create({ model, messages, ...options });
  const expected = await plain_chat(options);
  assert.equal(answer.choices[0].message.content, expected.text);
  assert.equal(answer.choices[0].finish_reason, 'length');
  assert.deepEqual(answer.usage, expected.usage);
  assert.equal(answer.usage.completion_tokens, 16);
  assert.equal(answer.usage.prompt_tokens + 16, answer.usage.total_tokens);
  assert.ok(answer.id.endsWith(answer._request_id), 'the SDK finds X-Request-Id');
});

test('stream: joined it is the answer, usage comes last', limits, async () => {
  const options = { ...sampling, max_tokens: 24 };
  const stream = await client.chat.completions.create(
    { model, messages, ...options, stream: true, stream_options: { include_usage: true } });
  let text = '', last, reason;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? '';
    reason = chunk.choices[0]?.finish_reason ?? reason;
    last = chunk;
  }
  const expected = await plain_chat(options);
  assert.equal(text, expected.text);
  assert.equal(reason, 'length');
  assert.deepEqual(last.choices, []);
  assert.deepEqual(last.usage, expected.usage);
});

test('stream helper: events, final content', limits, async () => {
  const options = { ...sampling, max_tokens: 24 };
  const runner = client.chat.completions.stream({ model, messages, ...options });
  let heard = '';
  runner.on('content', (delta) => { heard += delta; });
  const answer = await runner.finalChatCompletion();
  const expected = await plain_chat(options);
  assert.equal(heard, expected.text);
  assert.equal(answer.choices[0].message.content, expected.text);
});

test('stop, max_completion_tokens, logit_bias', limits, async () => {
  const whole = await plain_chat({ ...sampling, max_tokens: 24 });
  const stop = whole.text.slice(5, 8);
  const stopped = await client.chat.completions.create(
    { model, messages, ...sampling, max_completion_tokens: 24, stop });
  assert.equal(stopped.choices[0].message.content, whole.text.slice(0, whole.text.indexOf(stop)));
  assert.equal(stopped.choices[0].finish_reason, 'stop');
  const biased = await client.chat.completions.create(
    { model, messages, max_tokens: 6, temperature: 0, logit_bias: { 300: 100 }, logprobs: true });
  assert.equal(new Set(biased.choices[0].logprobs.content.map((entry) => entry.token)).size, 1);
});

test('tools: a required call fits its schema, streamed or not, and can be answered', limits,
  async () => {
    const request = { model, messages, seed: 5, tools: [tool], tool_choice: 'required',
      parallel_tool_calls: false };
    const answer = await client.chat.completions.create(request);
    const [choice] = answer.choices;
    assert.equal(choice.finish_reason, 'tool_calls');
    assert.equal(choice.message.tool_calls.length, 1);
    const [call] = choice.message.tool_calls;
    assert.equal(call.function.name, 'weather');
    Place.strict().parse(JSON.parse(call.function.arguments));

    let name = '', text = '', reason;
    for await (const chunk of await client.chat.completions.create({ ...request, stream: true })) {
      const delta = chunk.choices[0]?.delta?.tool_calls?.[0];
      name += delta?.function?.name ?? '';
      text += delta?.function?.arguments ?? '';
      reason = chunk.choices[0]?.finish_reason ?? reason;
    }
    assert.equal(name, 'weather');
    assert.equal(text, call.function.arguments);
    assert.equal(reason, 'tool_calls');

    const next = await client.chat.completions.create({ model, ...sampling, max_tokens: 8,
      tools: [tool],
      messages: [...messages, choice.message,
        { role: 'tool', tool_call_id: call.id, content: 'rain' }] });
    assert.ok(next.usage.prompt_tokens > answer.usage.prompt_tokens);
    assert.equal(next.choices[0].finish_reason, 'length');
  });

test('runTools: the function is called with what the model wrote', limits, async () => {
  let called;
  const runner = client.chat.completions.runTools({ model, messages, seed: 9,
    tool_choice: { type: 'function', function: { name: 'weather' } },
    tools: [{ type: 'function', function: { name: 'weather', parameters: place_schema,
      parse: JSON.parse, function: (args) => { called = args; return 'rain'; } } }] });
  await runner.done();
  Place.strict().parse(called);
});

test('structured output: .parse gives an object of the schema, streamed too', limits, async () => {
  const request = { model, messages, seed: 11, response_format: zodResponseFormat(Place, 'place') };
  const answer = await client.chat.completions.parse(request);
  Place.strict().parse(answer.choices[0].message.parsed);
  assert.equal(answer.choices[0].finish_reason, 'stop');
  const streamed = await client.chat.completions.stream(request).finalChatCompletion();
  assert.deepEqual(streamed.choices[0].message.parsed, answer.choices[0].message.parsed);
  const any = await client.chat.completions.create({ model, messages, seed: 2, max_tokens: 400,
    response_format: { type: 'json_object' } });
  if (any.choices[0].finish_reason === 'stop') JSON.parse(any.choices[0].message.content);
});

test('logprobs: one entry for each token, the chosen one first when greedy', limits, async () => {
  const answer = await client.chat.completions.create({ model, messages, max_tokens: 10,
    temperature: 0, ignore_eos: true, logprobs: true, top_logprobs: 3 });
  const { content } = answer.choices[0].logprobs;
  assert.equal(content.length, 10);
  const bytes = content.flatMap((entry) => entry.bytes);
  assert.equal(Buffer.from(bytes).toString(), answer.choices[0].message.content);
  for (const entry of content) {
    assert.equal(entry.top_logprobs.length, 3);
    assert.equal(entry.top_logprobs[0].token, entry.token);
    assert.equal(entry.top_logprobs[0].logprob, entry.logprob);
    const values = entry.top_logprobs.map((top) => top.logprob);
    assert.deepEqual(values, [...values].sort((a, b) => b - a));
    assert.ok(values.reduce((sum, value) => sum + Math.exp(value), 0) <= 1.0001);
  }
});

test('n: every choice is the same streamed', limits, async () => {
  const request = { model, messages, ...sampling, n: 3, max_tokens: 12 };
  const answer = await client.chat.completions.create(request);
  assert.deepEqual(answer.choices.map((choice) => choice.index), [0, 1, 2]);
  assert.equal(answer.usage.completion_tokens, 36);
  const texts = ['', '', ''];
  for await (const chunk of await client.chat.completions.create({ ...request, stream: true })) {
    for (const choice of chunk.choices) texts[choice.index] += choice.delta.content ?? '';
  }
  assert.deepEqual(texts, answer.choices.map((choice) => choice.message.content));
  assert.equal(new Set(texts).size, 3);
});

test('completions: the prompt alone, as evaluation harnesses ask for it', limits, async () => {
  const request = { model, prompt: [[5, 4, 3], [9, 8, 7, 6]], echo: true, max_tokens: 0,
    logprobs: 1 };
  const answer = await client.completions.create(request);
  assert.equal(answer.usage.completion_tokens, 0);
  assert.equal(answer.choices[1].finish_reason, 'length');
  assert.equal(answer.choices[1].logprobs.tokens.length, 4);
  const streamed = [[], []];
  for await (const chunk of await client.completions.create({ ...request, stream: true })) {
    for (const choice of chunk.choices) {
      streamed[choice.index].push(...(choice.logprobs?.token_logprobs ?? []));
    }
  }
  assert.deepEqual(streamed, answer.choices.map((choice) => choice.logprobs.token_logprobs));
});

test('completions: several prompts, echo, log probabilities', limits, async () => {
  const answer = await client.completions.create({ model, prompt: ['To be', 'Never'], echo: true,
    max_tokens: 4, logprobs: 2, ...sampling });
  assert.equal(answer.choices.length, 2);
  assert.ok(answer.choices[0].text.startsWith('To be'));
  assert.ok(answer.choices[1].text.startsWith('Never'));
  for (const { text, logprobs } of answer.choices) {
    assert.equal(logprobs.tokens.length, logprobs.token_logprobs.length);
    assert.equal(logprobs.text_offset.length, logprobs.tokens.length);
    assert.ok(text.endsWith(logprobs.tokens.slice(-4).join('')));
    assert.ok(logprobs.tokens.length > 5, 'those of the prompt too');
    assert.deepEqual([logprobs.token_logprobs[0], logprobs.top_logprobs[0]], [null, null]);
    logprobs.tokens.forEach((token, i) => {
      const offset = logprobs.text_offset[i];
      if (i > 0) assert.equal(text.slice(offset, offset + token.length), token);
      if (i > 0) assert.ok(logprobs.token_logprobs[i] < 0);
    });
  }
  assert.equal(answer.usage.completion_tokens, 8);
});

test('embeddings: what the SDK decodes is what the server computed', limits, async () => {
  const input = ['To be', 'or not to be'];
  const answer = await client.embeddings.create({ model, input });  // asks for base64
  const floats = await document('POST', '/v1/embeddings', { model, input });
  assert.deepEqual(answer.data.map((item) => item.index), [0, 1]);
  for (const [i, item] of answer.data.entries()) {
    const expected = floats.data[i].embedding;
    assert.equal(item.embedding.length, expected.length);
    let length = 0;
    for (const [at, value] of item.embedding.entries()) {
      assert.ok(Math.abs(value - expected[at]) < 1e-6);
      length += value * value;
    }
    assert.ok(Math.abs(length - 1) < 1e-4);
  }
  assert.deepEqual(answer.usage, floats.usage);
});

test('models: list and one', limits, async () => {
  const names = [];
  for await (const found of client.models.list()) names.push(found.id);
  assert.deepEqual(names, [model]);
  assert.equal((await client.models.retrieve(model)).id, model);
  await assert.rejects(client.models.retrieve('nobody'), OpenAI.NotFoundError);
});

test('errors: the class, code and parameter of each', limits, async () => {
  const chat = (body, options) => client.chat.completions.create(
    { model, messages, max_tokens: 4, ...body }, options);
  await assert.rejects(chat({ model: 'nobody' }), (error) => {
    assert.ok(error instanceof OpenAI.NotFoundError);
    assert.deepEqual([error.status, error.code, error.param], [404, 'model_not_found', null]);
    return true;
  });
  for (const [param, body] of Object.entries({
    temperature: { temperature: 9 }, messages: { messages: 'no' }, n: { n: 0 },
    stop: { stop: [1] }, max_tokens: { max_tokens: 'many' } })) {
    await assert.rejects(chat(body), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError, `${param}: ${error}`);
      assert.deepEqual([error.param, error.type], [param, 'invalid_request_error']);
      return true;
    });
  }
  const headers = { 'Idempotency-Key': 'clash' };
  await chat({}, { headers });
  await assert.rejects(chat({ seed: 99 }, { headers }), OpenAI.UnprocessableEntityError);
  const stranger = new OpenAI({ apiKey: 'hf_wrong', baseURL: `${url}/v1`, maxRetries: 0 });
  await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
  await assert.rejects(chat({ max_tokens: 300, ignore_eos: true }, { timeout: 1 }),
    OpenAI.APIConnectionTimeoutError);
});

// The server gives a client 600 ms to come back (requests.disconnect_grace_ms).
test('abort: the request is cancelled, or goes on if it was asked to', limits, async () => {
  // The one that is cancelled has work for seconds.
  for (const [wish, state, n] of [['cancel', 'cancelled', 64], ['continue', 'succeeded', 2]]) {
    const request = { model, messages, ...sampling, n, max_tokens: 400, stream: true };
    const { data: stream, response } = await client.chat.completions
      .create(request, { headers: { 'X-On-Disconnect': wish } }).withResponse();
    let chunks = 0;
    for await (const _ of stream) {
      if (++chunks === 5) stream.controller.abort();
    }
    const id = response.headers.get('x-request-id');
    const end = await poll(() => ask_state(id), is_over);
    assert.equal(end.state, state);
    const whole = end.usage.completion_tokens === 400 * n;
    assert.equal(whole, wish === 'continue', `${end.usage.completion_tokens} tokens`);
    assert.ok(chunks < 400 * n);
  }
  const controller = new AbortController();
  const waiting = client.chat.completions.create(
    { model, messages, ...sampling, max_tokens: 400 }, { signal: controller.signal });
  setTimeout(() => controller.abort(), 20);
  await assert.rejects(waiting, OpenAI.APIUserAbortError);
});

test('retries: the SDK sends its key again and the text is generated once', limits, async () => {
  const answers = [];
  class Careful extends OpenAI {
    idempotencyHeader = 'Idempotency-Key';
  }
  const careful = new Careful({ apiKey: key, baseURL: `${url}/v1`, maxRetries: 2,
    fetch: async (...args) => {
      const answer = await fetch(...args);
      answers.push({ key: new Headers(args[1].headers).get('Idempotency-Key'),
        body: await answer.clone().json(),
        duplicate: answer.headers.get('x-holdfast-duplicate') });
      if (answers.length < 3) throw new TypeError('the answer was lost on its way');
      return answer;
    } });
  const answer = await careful.chat.completions.create(
    { model, messages, max_tokens: 20, temperature: 1 });
  assert.equal(answers.length, 3);
  assert.ok(answers[0].key);
  for (const again of answers) {
    assert.equal(again.key, answers[0].key);
    assert.deepEqual(again.body, answers[0].body);
  }
  assert.deepEqual(answers.map((given) => given.duplicate), [null, 'true', 'true']);
  assert.equal(answer.id, answers[0].body.id);
});

test('files: upload, content, pages, removal', limits, async () => {
  const made = [];
  for (let i = 0; i < 3; ++i) {
    const bytes = Buffer.from(`{"line": ${i}, "text": "Grüße \u2028 ${'x'.repeat(1000 * i)}"}\n`);
    const file = await client.files.create(
      { file: await toFile(bytes, `lines ${i}.jsonl`), purpose: 'batch' });
    assert.equal(file.bytes, bytes.length);
    assert.equal(file.filename, `lines ${i}.jsonl`);
    const content = await client.files.content(file.id);
    assert.deepEqual(Buffer.from(await content.arrayBuffer()), bytes);
    made.push(file.id);
  }
  const listed = [];
  for await (const file of client.files.list({ limit: 2, order: 'asc' })) listed.push(file.id);
  assert.deepEqual(listed, made);
  assert.equal((await client.files.retrieve(made[1])).id, made[1]);
  for (const id of made) assert.equal((await client.files.delete(id)).deleted, true);
  await assert.rejects(client.files.retrieve(made[1]), OpenAI.NotFoundError);
});

test('batches: results in the order of the lines, each as the request alone', limits, async () => {
  const bodies = [4, 20, 8, 1, 12].map(
    (tokens) => ({ model, messages, ...sampling, max_tokens: tokens }));
  const lines = bodies.map((body, i) => JSON.stringify(
    { custom_id: `line ${i}`, method: 'POST', url: '/v1/chat/completions', body }));
  lines.push(JSON.stringify({ custom_id: 'bad', method: 'POST', url: '/v1/chat/completions',
    body: { model, messages, temperature: 9 } }));
  const file = await client.files.create(
    { file: await toFile(Buffer.from(lines.join('\n')), 'batch.jsonl'), purpose: 'batch' });
  const batch = await client.batches.create({ input_file_id: file.id,
    endpoint: '/v1/chat/completions', completion_window: '24h', metadata: { who: 'me' } });
  const end = await poll(() => client.batches.retrieve(batch.id),
    (now) => !['validating', 'in_progress', 'finalizing'].includes(now.status));
  assert.equal(end.status, 'completed');
  assert.deepEqual(end.request_counts, { total: 6, completed: 5, failed: 1 });
  assert.deepEqual(end.metadata, { who: 'me' });
  const read = async (id) => (await (await client.files.content(id)).text()).trim().split('\n')
    .map((line) => JSON.parse(line));
  const results = await read(end.output_file_id);
  assert.deepEqual(results.map((line) => line.custom_id), lines.slice(0, 5).map((_, i) => `line ${i}`));
  for (const [i, line] of results.entries()) {
    assert.equal(line.response.status_code, 200);
    assert.equal(line.response.body.choices[0].message.content, (await plain_chat(bodies[i])).text);
  }
  const [failed] = await read(end.error_file_id);
  assert.equal(failed.custom_id, 'bad');
  assert.equal(failed.response.status_code, 400);
  const listed = [];
  for await (const found of client.batches.list({ limit: 1 })) listed.push(found.id);
  assert.deepEqual(listed, [batch.id]);
});

test('batches: one that is cancelled ends', limits, async () => {
  const lines = Array.from({ length: 200 }, (_, i) => JSON.stringify({ custom_id: `${i}`,
    method: 'POST', url: '/v1/completions',
    body: { model, prompt: 'a', max_tokens: 400, ignore_eos: true } }));
  const file = await client.files.create(
    { file: await toFile(Buffer.from(lines.join('\n')), 'long.jsonl'), purpose: 'batch' });
  const batch = await client.batches.create({ input_file_id: file.id,
    endpoint: '/v1/completions', completion_window: '24h' });
  const told = await client.batches.cancel(batch.id);
  assert.ok(['cancelling', 'cancelled'].includes(told.status), told.status);
  const end = await poll(() => client.batches.retrieve(batch.id), (now) => now.status === 'cancelled');
  assert.ok(end.request_counts.completed < 200);
});
