// Holdfast's client: durable requests to a language-model server on this machine.
//
//   import { open } from 'holdfast';
//   const client = await open();
//   for await (const piece of client.stream('demo', 'To be', { max_tokens: 40, key: 'k1' })) {
//     process.stdout.write(piece.text);
//   }
//   await client.close();
//
// A stream goes on by itself over the death of the daemon and of workers. A program that died itself
// calls the same again with the same key, and says by `next` from which token on it wants the stream.
// index.d.ts says what each function does; the addon never blocks the event loop.
import { createRequire } from 'node:module';

const addon = createRequire(import.meta.url)('./holdfast.node');

/** Stands in `next` for a choice whose end was seen: nothing more of it is given. */
export const DONE = Number.MAX_SAFE_INTEGER;

/** A refusal or a failure, with a typed code. */
export class HoldfastError extends Error {
  constructor(code, message, retryAfterMs) {
    super(message);
    this.name = 'HoldfastError';
    this.code = code;
    if (retryAfterMs !== undefined) this.retryAfterMs = retryAfterMs;
  }
}

/** Waits for a call of the addon; its errors become HoldfastError. */
async function called(call) {
  try {
    return await call();
  } catch (error) {
    throw new HoldfastError(error.code ?? 'internal', error.message, error.retryAfterMs);
  }
}

/** Waits for a promise, but not after the signal: then rejects with its reason. */
function until(promise, signal) {
  if (signal === undefined || signal === null) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

/** The member of a request that a prompt is: a text, token ids, or a conversation. */
function prompted(prompt) {
  if (typeof prompt === 'string') return { prompt };
  if (!Array.isArray(prompt)) throw new TypeError('prompt: a text, a list of token ids or of messages is wanted');
  return typeof prompt[0] === 'number' ? { ids: prompt } : { messages: prompt };
}

/** Divides options into the members of the request and what is said to this package. */
function divided(options = {}) {
  const { signal, next, ...members } = options;
  return { signal, next, members };
}

/** The pieces of a request, in order, each once. */
class Stream {
  #client;
  #handle;
  #pieces;
  #interrupt;
  #signal;
  #onAbort;

  /** `made`: an abort cancels the request; else it only leaves the stream. */
  constructor(client, id, { next, signal, made }) {
    this.#client = client;
    this.#signal = signal;
    this.id = id;
    this.#handle = id.then((known) => client._call('attach', known, next ?? []));
    this.id.catch(() => {}); // the iterator says it
    this.#handle.catch(() => {});
    this.#pieces = this.#read();
    if (signal) this.#listen(signal, made);
  }

  #listen(signal, made) {
    this.#onAbort = () => {
      this.#interrupt?.(signal.reason);
      if (made) this.id.then((id) => this.#client.cancel(id)).catch(() => {}); // it may have ended
      this.#leave();
    };
    if (signal.aborted) this.#onAbort();
    else signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  /** Waits for a promise; an abort ends the wait. */
  #wait(promise) {
    return new Promise((resolve, reject) => {
      this.#interrupt = reject;
      promise.then(resolve, reject);
    });
  }

  async *#read() {
    try {
      this.#signal?.throwIfAborted();
      const handle = await this.#wait(this.#handle);
      for (;;) {
        const pieces = await this.#wait(called(() => addon.next(handle)));
        this.#signal?.throwIfAborted();
        if (pieces === undefined) return;
        for (const piece of pieces) {
          this.#signal?.throwIfAborted();
          yield piece;
        }
      }
    } finally {
      await this.#leave();
    }
  }

  async #leave() {
    this.#signal?.removeEventListener('abort', this.#onAbort);
    const handle = await this.#handle.catch(() => undefined);
    if (handle !== undefined) addon.leave(handle);
    this.#client._streams.delete(this);
  }

  [Symbol.asyncIterator]() {
    return this.#pieces;
  }

  async text() {
    let text = '';
    for await (const piece of this) if (piece.choice === 0) text += piece.text;
    return text;
  }

  async close() {
    await this.#leave(); // a read that waits returns
    await this.#pieces.return();
  }
}

/** A server of this machine. */
class Client {
  #handle;
  _streams = new Set();

  constructor(handle) {
    this.#handle = handle;
  }

  /** A call of the addon, for streams too. */
  _call(name, ...words) {
    return called(() => {
      if (this.#handle === undefined) throw new HoldfastError('usage', 'the client is closed');
      return addon[name](this.#handle, ...words);
    });
  }

  async submit(model, prompt, options) {
    const { signal, members } = divided(options);
    signal?.throwIfAborted();
    const accepted = this._call('submit', JSON.stringify({ model, ...prompted(prompt), ...members }));
    const cancel = () => accepted.then((id) => this.cancel(id)).catch(() => {});
    signal?.addEventListener('abort', cancel, { once: true });
    return until(accepted, signal).finally(() => signal?.removeEventListener('abort', cancel));
  }

  stream(model, prompt, options) {
    const { signal, next, members } = divided(options);
    const accepted = signal?.aborted ? Promise.reject(signal.reason) : this.submit(model, prompt, members);
    return this.#follow(accepted, { next, signal, made: true });
  }

  attach(id, options) {
    const { signal, next } = divided(options);
    return this.#follow(Promise.resolve(String(id)), { next, signal, made: false });
  }

  #follow(id, how) {
    const stream = new Stream(this, id, how);
    this._streams.add(stream);
    return stream;
  }

  complete(model, prompt, options) {
    return this.stream(model, prompt, options).text();
  }

  async status(id, options) {
    return JSON.parse(await until(this._call('status', String(id)), options?.signal));
  }

  async cancel(id, options) {
    return JSON.parse(await until(this._call('cancel', String(id)), options?.signal));
  }

  async models(options) {
    return JSON.parse(await until(this._call('models'), options?.signal));
  }

  async add(name, path, options) {
    await until(this._call('add', String(name), String(path)), options?.signal);
  }

  async load(name, options) {
    await until(this._call('load', String(name)), options?.signal);
  }

  async unload(name, options) {
    await until(this._call('unload', String(name)), options?.signal);
  }

  async remove(name, options) {
    await until(this._call('remove', String(name)), options?.signal);
  }

  async stopServer() {
    await this._call('stopServer');
  }

  async close() {
    if (this.#handle === undefined) return;
    const handle = this.#handle;
    this.#handle = undefined;
    await Promise.all([...this._streams].map((stream) => stream.close()));
    await called(() => addon.close(handle));
  }

  async [Symbol.asyncDispose ?? Symbol.for('holdfast.dispose')]() {
    await this.close();
  }
}

export async function open(where) {
  const options = typeof where === 'object' && where !== null && !(where instanceof URL) ? where : { state: where };
  const named = options.url ?? options.state ?? null;
  const text = named instanceof URL && named.protocol === 'file:' ? decodeURIComponent(named.pathname) : named;
  return new Client(await called(() => addon.open(text === null ? null : String(text), options.start ?? true)));
}

export function version() {
  try {
    return addon.version();
  } catch (error) {
    throw new HoldfastError(error.code, error.message);
  }
}
