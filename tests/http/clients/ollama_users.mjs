// Goal: libraries that speak Ollama's API for their users work unchanged: LangChain's, LlamaIndex' and the
// provider of the AI SDK.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HumanMessage, SystemMessage } from '@langchain/core/messages';
import { ChatOllama, OllamaEmbeddings } from '@langchain/ollama';
import { Ollama as LlamaIndexOllama, OllamaEmbedding } from '@llamaindex/ollama';
import { embedMany, generateText, streamText } from 'ai';
import { createOllama } from 'ollama-ai-provider-v2';
import { key, messages, model, plain, url } from './common.mjs';

const limits = { timeout: 60_000 };
const headers = { Authorization: `Bearer ${key}` };
const options = { seed: 7, temperature: 0.8, num_predict: 16 };

async function expected_text() {
  const answer = await plain('POST', '/api/chat', { model, messages, options, stream: false });
  return (await answer.json()).message.content;
}

test('LangChain: invoke, stream, embeddings', limits, async () => {
  const chat = new ChatOllama({
    baseUrl: url, headers, model, seed: 7, temperature: 0.8, numPredict: 16 });
  const answer = await chat.invoke([new HumanMessage(messages[0].content)]);
  const text = await expected_text();
  assert.equal(answer.content, text);
  assert.ok(answer.usage_metadata.output_tokens > 0);
  let joined = '';
  for await (const chunk of await chat.stream([new HumanMessage(messages[0].content)])) {
    joined += chunk.content;
  }
  assert.equal(joined, text);
  await chat.invoke([new SystemMessage('Be brief'), new HumanMessage('Speak')]);
  const vectors = new OllamaEmbeddings({ baseUrl: url, headers, model });
  const [one, two] = await vectors.embedDocuments(['one', 'two']);
  assert.equal(one.length, two.length);
});

test('LlamaIndex: chat, stream, embeddings', limits, async () => {
  const settings = { model, config: { host: url, headers }, options };
  const chat = new LlamaIndexOllama(settings);
  const answer = await chat.chat({ messages });
  const text = await expected_text();
  assert.equal(answer.message.content, text);
  let joined = '';
  for await (const chunk of await chat.chat({ messages, stream: true })) joined += chunk.delta;
  assert.equal(joined, text);
  const vector = await new OllamaEmbedding(settings).getTextEmbedding('one');
  assert.ok(vector.length > 0);
});

test('AI SDK: generateText, streamText, embedMany', limits, async () => {
  const provider = createOllama({ baseURL: `${url}/api`, headers });
  const settings = { model: provider(model), messages, providerOptions: { ollama: { options } } };
  const whole = await generateText(settings);
  assert.equal(whole.text, await expected_text());
  const stream = streamText(settings);
  let joined = '';
  for await (const part of stream.textStream) joined += part;
  assert.equal(joined, whole.text);
  const { embeddings } = await embedMany({
    model: provider.embedding(model), values: ['one', 'two'] });
  assert.equal(embeddings.length, 2);
});
