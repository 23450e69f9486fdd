import { tool } from '@llamaindex/core/tools';
import { openai, OpenAIEmbedding } from '@llamaindex/openai';
import { agent, agentStreamEvent } from '@llamaindex/workflow';
import { z } from 'zod';
import { answers, check, description, first, model, questions, url, weather } from './weather.mjs';

const llm = openai({ model, apiKey: 'none', baseURL: `${url}/v1`, supportToolCall: true });
const ask = tool({ name: 'weather', description, parameters: z.object({ city: z.string() }), execute: (input) => weather(input) });

// Its agents always stream.
const bot = agent({ llm, tools: [ask], systemPrompt: 'You are brief.' });
const chatHistory = [];
const texts = [];
// Two calls in one streamed answer it makes again for each piece that comes, whatever the server.
for (const content of questions.slice(0, 2)) {
  const events = bot.runStream(content, { chatHistory });
  let text = '';
  for await (const event of events) {
    if (agentStreamEvent.include(event)) text += event.data.delta;
  }
  texts.push(text.trim());
  chatHistory.push({ role: 'user', content }, { role: 'assistant', content: text });
}
check(texts, 'agent, streamed');

const plain = await llm.chat({ messages: [{ role: 'user', content: first }], tools: [ask] });
const [called] = plain.message.options.toolCall;
if (JSON.parse(called.input).city !== 'Paris') throw new Error(JSON.stringify(called));
console.log('chat: called');
const vectors = await new OpenAIEmbedding({ model, apiKey: 'none', baseURL: `${url}/v1` }).getTextEmbeddings(questions);
if (vectors.length !== 3 || !(vectors[0].length > 0)) throw new Error('no vectors');
console.log(answers.at(-1));
