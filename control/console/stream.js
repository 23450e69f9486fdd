// An answer as it comes, over whatever happens to the connection: the POST is repeated under its
// Idempotency-Key until the request's id is known, then the stream of that id goes on after the
// last event that came.

import {ApiError, headers, send} from './api.js';

const kWaitMost = 4000;
const kQuiet = 3000; // without an event: worth saying
const kDead = 30000; // without a byte: there is a comment each 10 s, so this connection is gone

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function randomKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))]
    .map((b) => b.toString(16).padStart(2, '0'))
    .join('');
}

/// Events {id, data} of a response's body. `onBytes` whenever something comes, comments too.
async function* events(response, onBytes) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = '';
  let event = {id: null, data: null};
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    onBytes();
    buffer += value;
    const lines = buffer.split('\n');
    buffer = lines.pop();
    for (const line of lines) {
      if (line.startsWith('id: ')) event.id = line.slice(4);
      else if (line.startsWith('data: ')) event.data = line.slice(6);
      else if (line === '' && event.data !== null) {
        yield event;
        event = {id: null, data: null};
      }
    }
  }
}

/// One request's stream. on: {begin(id), restart(), data(object, index), state(text)}; restart says
/// that the text comes from its beginning. Ends when the stream has; throws ApiError for a refusal.
export class Answer {
  constructor(on) {
    this.on = on;
    this.id = null;
    this.last = null;
    this.stopping = false;
  }

  /// A new request: POST `path` with `body`.
  async post(path, body) {
    const key = randomKey();
    await this.run((signal) =>
      send(path, {
        method: 'POST',
        signal,
        body: JSON.stringify(body),
        headers: headers({'Content-Type': 'application/json', 'Idempotency-Key': key}),
      }),
    );
  }

  /// One that was begun before this page was loaded.
  async resume(id) {
    this.id = id;
    await this.run();
  }

  get(signal) {
    return send(`/v1/requests/${encodeURIComponent(this.id)}/stream`, {
      signal,
      headers: headers(this.last ? {'Last-Event-ID': this.last} : {}),
    });
  }

  async run(begin) {
    for (let failures = 0; ; ++failures) {
      const abort = new AbortController();
      this.watch(abort);
      try {
        const response = await (this.id ? this.get(abort.signal) : begin(abort.signal));
        this.id ??= response.headers.get('X-Request-Id');
        this.on.begin(this.id);
        if (this.stopping) this.cancel();
        if (this.last === null) this.on.restart();
        for await (const event of events(response, () => {
          this.bytesAt = Date.now();
        })) {
          this.eventAt = Date.now();
          failures = 0;
          if (event.data === '[DONE]') return;
          if (event.id) this.last = event.id;
          const index = event.id
            ? Number(event.id.slice(event.id.lastIndexOf('.') + 1).split(',')[0])
            : null;
          this.on.data(JSON.parse(event.data), index);
          this.on.state('streaming');
        }
      } catch (e) {
        // A request that exists is waited for; a new one that is refused is the user's to know.
        const waits = e.away || (this.id !== null && [429, 503, 504].includes(e.status));
        if (e instanceof ApiError && !waits) throw e;
      } finally {
        clearInterval(this.watcher);
      }
      this.on.state('reconnecting');
      await sleep(Math.min(100 * 2 ** failures, kWaitMost));
    }
  }

  /// Says when nothing comes: the gateway holds a stream while the daemon is away, so a silent one
  /// is not broken. One without even a comment is, and is begun again.
  watch(abort) {
    this.eventAt = this.bytesAt = Date.now();
    this.watcher = setInterval(() => {
      if (Date.now() - this.bytesAt > kDead) abort.abort();
      else if (Date.now() - this.eventAt > kQuiet) this.on.state('waiting');
    }, 500);
  }

  /// Ends the request itself. Before its id is known: as soon as it is.
  async cancel() {
    this.stopping = true;
    for (let i = 0; this.id && i < 20; ++i) {
      try {
        await send(`/v1/requests/${encodeURIComponent(this.id)}`, {
          method: 'DELETE',
          headers: headers(),
        });
        return;
      } catch (e) {
        if (!(e instanceof ApiError) || !e.away) throw e;
        await sleep(1000);
      }
    }
  }
}
