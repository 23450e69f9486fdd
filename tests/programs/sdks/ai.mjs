import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { embedMany, generateText, Output, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';
import {
  answers, check, checkPlace, description, model, place, questions, third, url, weather,
} from './weather.mjs';

const provider = createOpenAICompatible({ name: 'holdfast', baseURL: `${url}/v1`, includeUsage: true, supportsStructuredOutputs: true });
const tools = {
  weather: tool({ description, inputSchema: z.object({ city: z.string() }), execute: async (input) => weather(input) }),
};

for (const stream of [false, true]) {
  const messages = [];
  const texts = [];
  for (const content of questions) {
    messages.push({ role: 'user', content });
    const wish = { model: provider(model), system: 'You are brief.', messages, tools, stopWhen: stepCountIs(4) };
    const answer = stream ? streamText(wish) : await generateText(wish);
    texts.push((await answer.text).trim());
    messages.push(...(await answer.response).messages);
  }
  check(texts, stream ? 'streamText' : 'generateText');
}
const object = await generateText({ model: provider(model), prompt: third, output: Output.object({ schema: place }) });
checkPlace(object.output, 'generateText, object');
const { partialOutputStream, output } = streamText({
  model: provider(model), prompt: third, output: Output.object({ schema: place }),
});
let partial;
for await (partial of partialOutputStream);
checkPlace(partial, 'streamText, partial object');
checkPlace(await output, 'streamText, object');
const { embeddings } = await embedMany({ model: provider.embeddingModel(model), values: questions });
if (embeddings.length !== 3) throw new Error('no vectors');
console.log(answers.at(-1));
