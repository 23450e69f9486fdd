import OpenAI from 'openai';
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod';
import {
  answers, check, checkPlace, description, model, parameters, place, questions, third, url, weather,
} from './weather.mjs';

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none' });

async function chat(stream) {
  const tools = [{ type: 'function', function: { name: 'weather', description, parameters, parse: JSON.parse, function: weather } }];
  let messages = [{ role: 'system', content: 'You are brief.' }];
  const texts = [];
  for (const content of questions) {
    const runner = client.chat.completions.runTools({ model, messages: [...messages, { role: 'user', content }], tools, stream });
    let streamed = '';
    if (stream) runner.on('content', (delta) => (streamed += delta));
    const text = await runner.finalContent();
    if (stream && !streamed.endsWith(text)) throw new Error(`streamed ${streamed}, whole ${text}`);
    texts.push(text.trim());
    messages = runner.messages;
  }
  check(texts, stream ? 'chat, streamed' : 'chat');
}

/// One turn of the responses API: what is said, and the calls, whole or from the events.
async function respond(body, stream) {
  if (!stream) return client.responses.create(body);
  let last;
  let text = '';
  for await (const event of await client.responses.create({ ...body, stream: true })) {
    if (event.type === 'response.output_text.delta') text += event.delta;
    if (event.type === 'response.completed') last = event.response;
  }
  last.output_text = text;
  return last;
}

async function responses(stream) {
  const tools = [{ type: 'function', name: 'weather', description, parameters, strict: false }];
  const texts = [];
  let previous;
  for (const content of questions) {
    let input = [{ role: 'user', content }];
    for (;;) {
      const answer = await respond({ model, input, tools, instructions: 'You are brief.', previous_response_id: previous }, stream);
      previous = answer.id;
      const calls = answer.output.filter((item) => item.type === 'function_call');
      if (calls.length === 0) {
        texts.push(answer.output_text.trim());
        break;
      }
      input = calls.map((call) => ({
        type: 'function_call_output', call_id: call.call_id, output: weather(JSON.parse(call.arguments)),
      }));
    }
  }
  check(texts, stream ? 'responses, streamed' : 'responses');
}

for (const stream of [false, true]) {
  await chat(stream);
  await responses(stream);
}

const said = await client.chat.completions.parse({
  model, messages: [{ role: 'user', content: third }], response_format: zodResponseFormat(place, 'place'),
});
checkPlace(said.choices[0].message.parsed, 'chat, parsed');
const responded = await client.responses.parse({ model, input: third, text: { format: zodTextFormat(place, 'place') } });
checkPlace(responded.output_parsed, 'responses, parsed');
const vectors = await client.embeddings.create({ model, input: questions });
if (vectors.data.length !== 3 || !(vectors.data[0].embedding.length > 0)) throw new Error('no vectors');
const listed = [];
for await (const one of client.models.list()) listed.push(one.id);
if (!listed.includes(model)) throw new Error(`models: ${listed}`);
console.log(answers.at(-1));
