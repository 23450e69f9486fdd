import { HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { z } from 'zod';
import {
  answers, check, checkPlace, description, model, place, questions, third, thirdByCall, url, weather,
} from './weather.mjs';

const ask = tool(async (input) => weather(input), { name: 'weather', description, schema: z.object({ city: z.string() }) });

for (const useResponsesApi of [false, true]) {
  const bound = new ChatOpenAI({ model, apiKey: 'none', useResponsesApi, configuration: { baseURL: `${url}/v1` } }).bindTools([ask]);
  for (const stream of [false, true]) {
    const messages = [new SystemMessage('You are brief.')];
    const texts = [];
    for (const content of questions) {
      messages.push(new HumanMessage(content));
      for (;;) {
        let answer;
        if (stream) {
          for await (const chunk of await bound.stream(messages)) answer = answer ? answer.concat(chunk) : chunk;
        } else {
          answer = await bound.invoke(messages);
        }
        messages.push(answer);
        if (!answer.tool_calls?.length) {
          texts.push(answer.text.trim());
          break;
        }
        for (const call of answer.tool_calls) {
          messages.push(new ToolMessage({ content: await ask.invoke(call.args), tool_call_id: call.id }));
        }
      }
    }
    check(texts, `${useResponsesApi ? 'responses' : 'chat'}${stream ? ', streamed' : ''}`);
  }
}

const plain = new ChatOpenAI({ model, apiKey: 'none', configuration: { baseURL: `${url}/v1` } });
checkPlace(await plain.withStructuredOutput(place, { method: 'jsonSchema' }).invoke(third), 'by its schema');
checkPlace(await plain.withStructuredOutput(place, { method: 'jsonMode' }).invoke(third), 'as JSON');
checkPlace(await plain.withStructuredOutput(place, { method: 'functionCalling', name: 'place' }).invoke(thirdByCall), 'by a call');
const vectors = await new OpenAIEmbeddings({ model, apiKey: 'none', configuration: { baseURL: `${url}/v1` } }).embedDocuments(questions);
if (vectors.length !== 3 || !(vectors[0].length > 0)) throw new Error('no vectors');
console.log(answers.at(-1));
