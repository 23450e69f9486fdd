/**
 * Durable requests to a language-model server on this machine. A request is durable when its id is
 * there; a stream gives each token once, in order, and goes on by itself over the death of the daemon
 * and of workers. Every call that waits does so on a thread of its own.
 */

/** Stands in `next` for a choice whose end was seen: nothing more of it is given. */
export const DONE: number;

/** A refusal or a failure. */
export class HoldfastError extends Error {
  constructor(code: string, message: string, retryAfterMs?: number);
  /**
   * The typed code: `model_not_found`, `queue_full`, `invalid_request`, … ; `usage`: the client is
   * closed; `library_missing`: no C library on this machine.
   */
  readonly code: string;
  /** Milliseconds after which the same call may succeed, where waiting may help. */
  readonly retryAfterMs?: number;
}

/** A message of a conversation, as over HTTP. */
export interface Message {
  role: string;
  content?: unknown;
  [member: string]: unknown;
}

/** A text, token ids, or a conversation. */
export type Prompt = string | readonly number[] | readonly Message[];

/** A call that waits: when the signal is aborted it is rejected with the signal's reason. */
export interface Waiting {
  signal?: AbortSignal;
}

/** Members of a request: these and every sampling parameter, by its name. An unknown one is refused. */
export interface RequestOptions extends Waiting {
  max_tokens?: number;
  n?: number;
  stop?: string | readonly string[];
  seed?: number;
  temperature?: number;
  top_p?: number;
  top_k?: number;
  min_p?: number;
  ignore_eos?: boolean;
  tools?: readonly unknown[];
  /** The idempotency key: the same key and request is the same request, also after this process died. */
  key?: string;
  tenant?: string;
  session?: string;
  priority?: 'interactive' | 'normal' | 'batch';
  queue_timeout_ms?: number;
  total_timeout_ms?: number;
  keep_alive_ms?: number;
  /** `continue` (the default), or `cancel`: the request ends with its last reader. */
  on_disconnect?: 'continue' | 'cancel';
  [member: string]: unknown;
}

/** Where a stream begins: the first token that is wanted of each choice; without it all are given. */
export interface From {
  next?: readonly number[];
}

/** The text that has become final with some tokens of a choice. */
export interface Piece {
  choice: number;
  /** Index of the first token. */
  index: number;
  ids: number[];
  /** Whole characters; may be empty. */
  text: string;
  /** `stop`, `length`, …: the choice has ended with this piece; else null. */
  finish: string | null;
  /** What to give as `next` of this choice to go on after this piece; DONE after its end. */
  next: number;
}

/** The pieces of a request, in order, each once. Leaving the loop leaves the stream; the request goes on. */
export interface Stream extends AsyncIterable<Piece> {
  /** The request's id; rejected if it was not accepted. */
  readonly id: Promise<string>;
  [Symbol.asyncIterator](): AsyncIterator<Piece, void, void>;
  /** Reads to the end; returns the text of choice 0. */
  text(): Promise<string>;
  /** Leaves the stream; the request goes on unless its on_disconnect is `cancel`. */
  close(): Promise<void>;
}

/** The state of a request. */
export interface RequestState {
  id: string;
  state: string;
  model: string;
  choices: { index: number; tokens: number; finish_reason: string | null; [member: string]: unknown }[];
  [member: string]: unknown;
}

/** A model or an alias. */
export interface Model {
  name: string;
  state: string;
  [member: string]: unknown;
}

/** A server. Made by open(). Several calls may run at once. */
export interface Client {
  /** Accepts a request; returns its id when it is durable. An abort cancels the request. */
  submit(model: string, prompt: Prompt, options?: RequestOptions): Promise<string>;
  /** Submits a request and attaches to it. An abort cancels the request, and the loop throws its reason. */
  stream(model: string, prompt: Prompt, options?: RequestOptions & From): Stream;
  /** Attaches to a request. An abort leaves the stream, and the loop throws its reason. */
  attach(id: string, options?: Waiting & From): Stream;
  /** Submits a request, waits for its end, returns the text of choice 0. */
  complete(model: string, prompt: Prompt, options?: RequestOptions): Promise<string>;
  /** Returns the state of a request. */
  status(id: string, options?: Waiting): Promise<RequestState>;
  /** Cancels a request; returns its state. */
  cancel(id: string, options?: Waiting): Promise<RequestState>;
  /** Returns models and aliases. */
  models(options?: Waiting): Promise<Model[]>;
  /** Registers a file under a name. */
  add(name: string, path: string, options?: Waiting): Promise<void>;
  /** Loads a model; returns when it is ready. */
  load(name: string, options?: Waiting): Promise<void>;
  /** Unloads a model. A request that asks for it loads it again. */
  unload(name: string, options?: Waiting): Promise<void>;
  /** Removes the name of a model that is not loaded. */
  remove(name: string, options?: Waiting): Promise<void>;
  /** Stops the server, whoever started it. What is queued goes on with its next start. */
  stopServer(): Promise<void>;
  /** Leaves all streams and closes the client when its calls have ended. Requests go on. */
  close(): Promise<void>;
}

export interface OpenOptions {
  /** The state directory; by default that of HOLDFAST_STATE or of this user. */
  state?: string | URL;
  /** A server elsewhere, as "http://HOST:PORT"; HOLDFAST_URL counts where neither is given. Its key is in
   * HOLDFAST_API_KEY, or in the file of HOLDFAST_API_KEY_FILE. */
  url?: string | URL;
  /** Start the server if none runs on the state directory (the default). */
  start?: boolean;
}

/** Opens the server of a state directory, or one elsewhere by its URL. */
export function open(where?: string | URL | OpenOptions): Promise<Client>;

/** Returns the version of the C library. */
export function version(): string;
