import Anthropic from '@anthropic-ai/sdk';
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod';
import {
  answers, check, checkPlace, description, first, model, parameters, place, questions, third, url, weather,
} from './weather.mjs';

const client = new Anthropic({ baseURL: url, apiKey: 'none' });
const tools = [{ name: 'weather', description, input_schema: parameters }];

async function say(messages, stream) {
  const body = { model, max_tokens: 500, system: [{ type: 'text', text: 'You are brief.', cache_control: { type: 'ephemeral' } }], tools, messages };
  if (!stream) return client.messages.create(body);
  let text = '';
  const running = client.messages.stream(body).on('text', (delta) => (text += delta));
  const whole = await running.finalMessage();
  const said = whole.content.filter((block) => block.type === 'text').map((block) => block.text).join('');
  if (said !== text) throw new Error(`streamed ${text}, whole ${said}`);
  return whole;
}

for (const stream of [false, true]) {
  const messages = [];
  const texts = [];
  for (const content of questions) {
    messages.push({ role: 'user', content });
    for (;;) {
      const answer = await say(messages, stream);
      messages.push({ role: 'assistant', content: answer.content });
      const calls = answer.content.filter((block) => block.type === 'tool_use');
      if (calls.length === 0) {
        texts.push(answer.content.findLast((block) => block.type === 'text').text.trim());
        break;
      }
      messages.push({
        role: 'user',
        content: calls.map((call) => ({ type: 'tool_result', tool_use_id: call.id, content: weather(call.input) })),
      });
    }
  }
  check(texts, stream ? 'messages, streamed' : 'messages');
}
const parsed = await client.messages.parse({
  model, max_tokens: 500, messages: [{ role: 'user', content: third }], output_config: { format: zodOutputFormat(place) },
});
checkPlace(parsed.parsed_output, 'messages, parsed');
const counted = await client.messages.countTokens({ model, tools, messages: [{ role: 'user', content: first }] });
if (!(counted.input_tokens > 0)) throw new Error('no tokens counted');
console.log(answers.at(-1));
