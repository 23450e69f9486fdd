// As resuming_client.c, by the Node package: resuming_client.mjs STATE MODEL PROMPT TOKENS KEY FILE.
import { closeSync, existsSync, openSync, readFileSync, truncateSync, writeSync } from 'node:fs';

import { open } from 'holdfast';

const END = '9223372036854775807'; // what a record says after the end, as in C

/** Returns the next token that is wanted, and cuts off a record that is not whole. */
function readNext(path) {
  if (!existsSync(path)) return 0;
  const records = readFileSync(path);
  const whole = records.lastIndexOf('\n') + 1;
  truncateSync(path, whole);
  const lines = records.subarray(0, whole).toString().split('\n');
  return lines.length > 1 ? Number(lines.at(-2).split(' ')[0]) : 0;
}

const [state, model, prompt, tokens, key, path] = process.argv.slice(2);
const client = await open(state);
const next = [readNext(path)];
const file = openSync(path, 'a');
const options = { max_tokens: Number(tokens), ignore_eos: true, seed: 1, key, next };
for await (const piece of client.stream(model, prompt, options)) {
  writeSync(file, `${piece.finish ? END : piece.next} ${Buffer.from(piece.text).toString('hex')}\n`);
}
closeSync(file);
await client.close();
console.log('ended');
