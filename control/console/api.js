// The gateway: the operator's verbs, the history, and the key that opens them. The key is kept for
// this tab alone and leaves it in one header.

const kStored = 'holdfast.key';

/// What went wrong, as the server says it. status 0: nobody answered.
export class ApiError extends Error {
  constructor(status, error) {
    super(error.message ?? `HTTP ${status}`);
    this.status = status;
    this.code = error.code ?? '';
    this.details = error;
  }
  get away() {
    return this.status === 0 || this.code === 'unreachable';
  }
  /// "conflict: …", and the numbers that came with it.
  describe() {
    const numbers = ['needed', 'free', 'largest', 'retry_after_ms', 'queue_position', 'eta_ms']
      .filter((name) => this.details[name] !== undefined)
      .map((name) => `${name} ${this.details[name]}`);
    return (
      (this.code ? `${this.code}: ` : '') +
      this.message +
      (numbers.length > 0 ? ` (${numbers.join(', ')})` : '')
    );
  }
}

export const key = {
  get: () => sessionStorage.getItem(kStored) ?? '',
  set: (text) => sessionStorage.setItem(kStored, text),
  forget: () => sessionStorage.removeItem(kStored),
};

export function headers(more = {}) {
  return key.get() ? {...more, Authorization: `Bearer ${key.get()}`} : more;
}

/// Throws ApiError for whatever is not an answer of the kind 2xx.
export async function send(path, options) {
  let response;
  try {
    response = await fetch(path, {
      cache: 'no-store',
      credentials: 'omit',
      redirect: 'error',
      ...options,
    });
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    throw new ApiError(0, {code: '', message: 'the gateway cannot be reached'});
  }
  if (response.ok) return response;
  let body = {};
  try {
    body = await response.json();
  } catch {
    /* an answer of a proxy */
  }
  throw new ApiError(response.status, body.error ?? {});
}

/// An operator's verb (schema/protocol.md) with its arguments; the daemon's document.
export async function call(verb, args = {}) {
  const response = await send(`/console/api/${verb}`, {
    method: 'POST',
    headers: headers({'Content-Type': 'application/json'}),
    body: JSON.stringify(args),
  });
  return response.json();
}

export async function fetchHistory(sinceMs) {
  return (await send(`/console/api/history?since=${sinceMs}`, {headers: headers()})).json();
}
