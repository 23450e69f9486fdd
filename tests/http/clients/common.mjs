// Shared parts of the suites: the server's address, the same requests without any library, and the
// tools and shapes that they ask for. tests/process/clients_test.cpp starts the server and sets the
// environment.
import assert from 'node:assert/strict';
import { File } from 'node:buffer';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';

globalThis.File ??= File;  // what `openai` asks users of Node 18 to do

export const url = process.env.HOLDFAST_URL;
export const key = process.env.HOLDFAST_API_KEY;
export const model = 'm';
export const messages = [{ role: 'user', content: 'Who is there?' }];
/// The demo model ends by itself now and then: answers of a known length are easier to compare.
export const sampling = { seed: 7, temperature: 0.8, ignore_eos: true };

/// One request by the platform's own fetch.
export function plain(method, path, body, headers = {}) {
  return fetch(url + path, {
    method,
    headers: {
      authorization: `Bearer ${key}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
}

export async function document(method, path, body) {
  const answer = await plain(method, path, body);
  const text = await answer.text();
  assert.equal(answer.status, 200, text);
  return JSON.parse(text);
}

/// The text and the usage of a chat request without any library.
export async function plain_chat(options) {
  const answer = await document('POST', '/v1/chat/completions', { model, messages, ...options });
  return { text: answer.choices[0].message.content, usage: answer.usage };
}

/// Asks until `done` accepts the answer; the test's own limit ends a wait that never succeeds.
export async function poll(ask, done) {
  for (;;) {
    const answer = await ask();
    if (done(answer)) return answer;
    await sleep(20);
  }
}

export const ask_state = (id) => document('GET', `/v1/requests/${id}`);
export const is_over = (request) => !['queued', 'running', 'accepted'].includes(request.state);

// Schemas that any output of an untrained model fits.
export const Place = z.object({
  city: z.string().max(12),
  days: z.number().int().min(1).max(9),
});
export const place_schema = {
  type: 'object',
  properties: {
    city: { type: 'string', maxLength: 12 },
    days: { type: 'integer', minimum: 1, maximum: 9 },
  },
  required: ['city', 'days'],
  additionalProperties: false,
};
