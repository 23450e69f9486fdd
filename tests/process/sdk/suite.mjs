// The Node package against a server of its own: suite.mjs STATE MODEL_FILE.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';

import { DONE, HoldfastError, open, version } from 'holdfast';

const [state, file] = process.argv.slice(2);
process.chdir(fileURLToPath(new URL('.', import.meta.url))); // where programs given as texts find the package
const asked = { max_tokens: 16, seed: 1, ignore_eos: true };
const prompt = 'To be, or not';
let client;

before(async () => {
  client = await open(state);
  await client.add('demo', file);
  await client.load('demo');
});

after(async () => {
  await client.stopServer();
  await client.close();
});

async function all(stream) {
  const pieces = [];
  for await (const piece of stream) pieces.push(piece);
  return pieces;
}
const range = (count) => [...Array(count).keys()];
const fails = (promise, code) =>
  assert.rejects(promise, (error) => {
    assert.ok(error instanceof HoldfastError, String(error));
    assert.equal(error.code, code, error.message);
    return true;
  });

test('a stream gives each token once', async () => {
  const pieces = await all(client.stream('demo', prompt, asked));
  assert.deepEqual(pieces.flatMap((piece) => piece.ids.map((_, i) => piece.index + i)), range(16));
  assert.equal(pieces.at(-1).finish, 'length');
  assert.equal(pieces.at(-1).next, DONE);
  assert.equal(pieces.map((piece) => piece.text).join(''), await client.complete('demo', prompt, asked));
});

test('a stream goes on from an index', async () => {
  const id = await client.submit('demo', prompt, asked);
  const whole = (await all(client.attach(id))).flatMap((piece) => piece.ids);
  const rest = (await all(client.attach(id, { next: [10] }))).flatMap((piece) => piece.ids);
  assert.deepEqual(rest, whole.slice(10));
  assert.deepEqual(await all(client.attach(id, { next: [DONE] })), []);
});

test('a piece says where the next begins', async () => {
  const key = 'pieces';
  const whole = await client.complete('demo', prompt, { ...asked, key });
  let text = '', next = 0;
  while (next !== DONE) {
    for await (const piece of client.stream('demo', prompt, { ...asked, key, next: [next] })) {
      text += piece.text;
      next = piece.next;
      break; // as if the program had died
    }
  }
  assert.equal(text, whole);
});

test('a prompt is a text, ids or messages', async () => {
  const byIds = await client.complete('demo', [1, 2, 3], asked);
  assert.equal(typeof byIds, 'string');
  const chat = client.complete('demo', [{ role: 'user', content: 'a' }], asked);
  await chat.then((text) => assert.equal(typeof text, 'string'), (error) => assert.equal(error.code, 'no_chat_template'));
  await assert.rejects(client.submit('demo', 7), TypeError);
});

test('the same key is the same request', async () => {
  const first = await client.submit('demo', prompt, { ...asked, key: 'once' });
  assert.equal(await client.submit('demo', prompt, { ...asked, key: 'once' }), first);
  await fails(client.submit('demo', prompt, { ...asked, max_tokens: 17, key: 'once' }), 'idempotency_mismatch');
});

test('choices end each for itself', async () => {
  const ends = {};
  for await (const piece of client.stream('demo', prompt, { ...asked, n: 3, temperature: 1 })) {
    if (piece.finish) ends[piece.choice] = piece.finish;
  }
  assert.deepEqual(ends, { 0: 'length', 1: 'length', 2: 'length' });
});

test('leaving the loop leaves the stream, and the request goes on', async () => {
  const stream = client.stream('demo', prompt, { ...asked, max_tokens: 60 });
  for await (const piece of stream) if (piece.index >= 0) break;
  const id = await stream.id;
  assert.equal((await all(client.attach(id))).at(-1).finish, 'length');
  assert.equal((await client.status(id)).state, 'succeeded');
});

test('an abort cancels what it made, and the loop throws its reason', async () => {
  const abort = new AbortController();
  const stream = client.stream('demo', prompt, { ...asked, max_tokens: 400, n: 8, signal: abort.signal });
  const reason = new Error('enough');
  const reading = assert.rejects(all(stream), reason);
  await stream.id; // hundreds of milliseconds before its end
  abort.abort(reason);
  await reading;
  await all(client.attach(await stream.id));
  assert.equal((await client.status(await stream.id)).state, 'cancelled');
});

test('an abort before the start submits nothing', async () => {
  const signal = AbortSignal.abort(new Error('never'));
  const before = (await client.models()).length;
  await assert.rejects(client.stream('demo', prompt, { ...asked, key: 'never', signal }).text(), /never/);
  await assert.rejects(client.submit('demo', prompt, { ...asked, key: 'never', signal }), /never/);
  // Another request may still have that key.
  await client.submit('demo', prompt, { ...asked, max_tokens: 3, key: 'never' });
  assert.equal((await client.models()).length, before);
});

test('an abort of attach leaves the stream alone', async () => {
  const id = await client.submit('demo', prompt, { ...asked, max_tokens: 400 });
  const abort = new AbortController();
  await assert.rejects(async () => {
    for await (const piece of client.attach(id, { signal: abort.signal })) if (piece.ids) abort.abort();
  }, { name: 'AbortError' });
  assert.equal((await all(client.attach(id))).at(-1).finish, 'length');
});

test('cancel ends a request', async () => {
  const id = await client.submit('demo', prompt, { ...asked, max_tokens: 400 });
  assert.equal((await client.cancel(id)).id, id);
  await all(client.attach(id));
  assert.ok(['cancelled', 'succeeded'].includes((await client.status(id)).state));
});

test('wrong requests are typed errors', async () => {
  await fails(client.submit('nobody', 'a'), 'model_not_found');
  for (const wrong of [{ temperature: -1 }, { temprature: 1 }, { ids: [1] }, { top_k: 'many' }]) {
    await fails(client.submit('demo', prompt, { ...asked, ...wrong }), 'invalid_request');
    await fails(client.complete('demo', prompt, { ...asked, ...wrong }), 'invalid_request');
  }
  await fails(all(client.attach('0'.repeat(26))), 'not_found');
  await fails(client.status('0'.repeat(26)), 'not_found');
});

test('models are added, loaded, unloaded and removed', async () => {
  const [model] = await client.models();
  assert.deepEqual([model.name, model.state], ['demo', 'ready']);
  await client.unload('demo');
  assert.ok(await client.complete('demo', prompt, asked));
  await client.add('other', file);
  await client.remove('other');
  await assert.rejects(client.add('broken', '/no/such/file'), HoldfastError);
  assert.equal((await client.models()).length, 1);
});

test('many streams at once are the same text', async () => {
  const texts = await Promise.all(range(24).map(() => client.complete('demo', prompt, asked)));
  assert.equal(new Set(texts).size, 1);
});

test('calls that wait stop neither the loop nor files, and an exit', { timeout: 20_000 }, () => {
  const empty = mkdtempSync(join(tmpdir(), 'hf-node-'));
  const script = `
    import assert from 'node:assert/strict';
    import { readFile } from 'node:fs/promises';
    import { open } from 'holdfast';
    const client = await open({ state: ${JSON.stringify(empty)}, start: false });
    const begin = performance.now();
    const waits = Array.from({ length: 12 }, () => client.status('x', { signal: AbortSignal.timeout(300) }));
    const open_stream = client.attach('x').text().catch(() => {});
    let turns = 0;
    const timer = setInterval(() => { turns += 1; }, 10);
    await readFile(process.argv[1] ?? '/dev/null');
    assert.ok(performance.now() - begin < 250, 'a file waits for calls');
    for (const wait of waits) await assert.rejects(wait, { name: 'TimeoutError' });
    assert.ok(performance.now() - begin < 2000);
    assert.ok(turns > 10, 'the loop stood still: ' + turns);
    console.log('exits');
    process.exit(0);`;
  const begin = performance.now();
  const ended = spawnSync(process.execPath, ['--input-type=module', '-e', script],
    { encoding: 'utf8', timeout: 15_000 });
  rmSync(empty, { recursive: true });
  assert.equal(ended.status, 0, ended.stderr);
  assert.equal(ended.stdout, 'exits\n');
  assert.ok(performance.now() - begin < 5_000, 'the exit waits for calls');
});

test('a program ends by itself with a client open', () => {
  const script = `
    import { open } from 'holdfast';
    const client = await open(${JSON.stringify(state)});
    for await (const piece of client.stream('demo', 'a', { max_tokens: 4, seed: 1 })) break;
    console.log('ends');`;
  const ended = spawnSync(process.execPath, ['--input-type=module', '-e', script],
    { encoding: 'utf8', timeout: 15_000 });
  assert.deepEqual([ended.status, ended.stdout], [0, 'ends\n'], ended.stderr);
});

test('worker threads have clients of their own, and may be ended', async () => {
  const script = `
    const { parentPort, workerData } = require('node:worker_threads');
    import('holdfast').then(async ({ open }) => {
      const client = await open(workerData.state);
      for (;;) {
        for await (const piece of client.stream('demo', 'To be', { max_tokens: 200, ignore_eos: true })) {
          parentPort.postMessage(piece.text);
        }
      }
    });`;
  for (const _ of range(3)) {
    const worker = new Worker(script, { eval: true, workerData: { state } });
    await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject));
    await worker.terminate();
  }
  assert.ok(await client.complete('demo', prompt, asked));
});

test('a closed client says so, and closing waits for its calls', async () => {
  const other = await open(state);
  const id = other.submit('demo', prompt, { ...asked, key: 'closing' });
  const stream = other.stream('demo', prompt, { ...asked, max_tokens: 400 });
  const reading = all(stream);
  await id;
  await stream.id;
  await other.close();
  await other.close();
  await reading;
  await fails(other.models(), 'usage');
  await fails(other.stream('demo', prompt, asked).text(), 'usage');
  assert.equal(await client.submit('demo', prompt, { ...asked, key: 'closing' }), await id);
});

test('without the C library it is said', () => {
  const script = "import { open } from 'holdfast'; await open().catch((e) => console.log(e.code, e.message));";
  const ended = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    encoding: 'utf8',
    env: { ...process.env, HOLDFAST_LIBRARY: '/no/such/library.so' },
  });
  assert.match(ended.stdout, /^library_missing .*\/no\/such\/library.so.*HOLDFAST_LIBRARY/);
});

test('the library has the version of the package', async () => {
  const here = new URL('package.json', import.meta.resolve?.('holdfast') ?? new URL('node_modules/holdfast/index.js', import.meta.url));
  assert.equal(JSON.parse(await readFile(here, 'utf8')).version, version());
});
