// What the SDKs' programs have in common: where the server is, a tool, and the words of the script
// (tests/programs/run has what the model says).
import assert from 'node:assert/strict';
import { z } from 'zod';

export const url = process.env.HOLDFAST_URL;
export const model = 'm';
export const first = 'What is the weather in Paris?';
export const questions = [first, 'And in Rome?', 'Compare Oslo and Bern.'];
export const answers = ['It has 18 degrees in Paris.', 'Rome is warmer: 25 degrees.', 'Bern is warmer than Oslo.'];
export const description = 'The weather of a city';
export const parameters = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
};

/// A question for an object, and what must come of it.
export const third = 'Name a city.';
export const thirdByCall = 'Call for a city.';
export const place = z.object({ city: z.string(), people: z.number() });
export function checkPlace(object, how) {
  assert.deepEqual(object, { city: 'Paris', people: 2100000 }, how);
  console.log(`${how}: ${JSON.stringify(object)}`);
}

export const asked = [];
export function weather({ city }) {
  asked.push(city);
  return { Paris: '18 degrees', Rome: '25 degrees', Oslo: '3 degrees', Bern: '9 degrees' }[city];
}

/// The end of a session of the questions, or of the first of them, each with a call of the tool, the
/// last one with two.
export function check(texts, how) {
  assert.deepEqual(texts, answers.slice(0, texts.length), how);
  assert.deepEqual(asked.splice(0), texts.length < 3 ? ['Paris', 'Rome'] : ['Paris', 'Rome', 'Oslo', 'Bern'], how);
  console.log(`${how}: ${texts.join(' ')}`);
}
