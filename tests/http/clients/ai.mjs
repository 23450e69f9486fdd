// Goal: programs written for `ai` (Vercel's) work unchanged, through its provider for compatible
// servers and through the one for OpenAI (chat and responses).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, embedMany, generateObject, generateText, stepCountIs, streamObject,
  streamText, tool } from 'ai';
import { document, key, messages, model, Place, plain_chat, url } from './common.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;
const compatible = createOpenAICompatible(
  { name: 'holdfast', baseURL: `${url}/v1`, apiKey: key, supportsStructuredOutputs: true });
const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: key });
const limits = { timeout: 60_000 };
const prompt = messages[0].content;
const common = { prompt, seed: 7, temperature: 0.8, maxRetries: 0 };

for (const [name, chosen] of Object.entries({ 'compatible provider': compatible(model),
  'openai provider, chat': openai.chat(model),
  'openai provider, responses': openai.responses(model) })) {
  // Responses of OpenAI know no seed: the SDK leaves it out, and greedy needs none.
  const setting = { ...common, temperature: 0 };
  const expected = async (tokens) =>
    plain_chat({ temperature: 0, seed: 7, max_tokens: tokens });

  test(`${name}: generateText`, limits, async () => {
    const answer = await generateText({ ...setting, model: chosen, maxOutputTokens: 16 });
    const { text, usage } = await expected(16);
    assert.equal(answer.text, text);
    assert.equal(answer.usage.inputTokens, usage.prompt_tokens);
    assert.equal(answer.usage.outputTokens, usage.completion_tokens);
    assert.equal(answer.finishReason, 'length');
  });

  test(`${name}: streamText`, limits, async () => {
    const stream = streamText({ ...setting, model: chosen, maxOutputTokens: 24 });
    let text = '';
    for await (const piece of stream.textStream) text += piece;
    assert.equal(text, (await expected(24)).text);
    assert.equal(await stream.finishReason, 'length');
  });

  test(`${name}: generateObject and streamObject`, limits, async () => {
    const answer = await generateObject({ ...setting, model: chosen, schema: Place });
    Place.strict().parse(answer.object);
    const stream = streamObject({ ...setting, model: chosen, schema: Place });
    for await (const part of stream.partialObjectStream) assert.equal(typeof part, 'object');
    assert.deepEqual(await stream.object, answer.object);
  });

  test(`${name}: a tool is run and its result goes back`, limits, async () => {
    const runs = [];
    const weather = tool({ inputSchema: Place,
      execute: async (place) => { runs.push(place); return 'rain'; } });
    const answer = await generateText({ ...setting, model: chosen, tools: { weather },
      stopWhen: stepCountIs(2),
      prepareStep: ({ stepNumber }) =>
        ({ toolChoice: stepNumber === 0 ? { type: 'tool', toolName: 'weather' } : 'none' }) });
    assert.equal(answer.steps.length, 2);
    assert.equal(answer.steps[0].finishReason, 'tool-calls');
    assert.equal(runs.length, 1);
    Place.strict().parse(runs[0]);
  });

  test(`${name}: errors`, limits, async () => {
    const nobody = name.startsWith('compatible') ? compatible('nobody')
      : name.endsWith('chat') ? openai.chat('nobody') : openai.responses('nobody');
    await assert.rejects(generateText({ ...setting, model: nobody }), (error) => {
      assert.ok(APICallError.isInstance(error), String(error));
      assert.equal(error.statusCode, 404);
      assert.match(error.message, /nobody/);
      return true;
    });
  });
}

test('seeded sampling goes through', limits, async () => {
  const answer = await generateText({ ...common, model: compatible(model), maxOutputTokens: 16 });
  const { text } = await plain_chat({ seed: 7, temperature: 0.8, max_tokens: 16 });
  assert.equal(answer.text, text);
});

test('embedMany', limits, async () => {
  const values = ['To be', 'or not to be'];
  const { embeddings } = await embedMany({ model: compatible.embeddingModel(model), values });
  const plain = await document('POST', '/v1/embeddings', { model, input: values });
  assert.deepEqual(embeddings, plain.data.map((item) => item.embedding));
});
