// The C interface of Holdfast: requests to a server, and their streams.
//
//   holdfast_client* client = holdfast_open(NULL, HOLDFAST_START, &error);
//   char* id = holdfast_submit(client, "{\"model\": \"demo\", \"prompt\": \"To be\"}", &error);
//   holdfast_stream* stream = holdfast_attach(client, id, NULL, 0, &error);
//   while (holdfast_next(stream, -1, &part, &error) == HOLDFAST_PART)
//     fwrite(part.text, 1, part.text_size, stdout);
//
// A request is durable when holdfast_submit() returns. A stream goes on by itself over the death of
// the daemon and of workers; a program that died itself attaches again by the key that it chose,
// and gets each token once. All calls go through the server's queue; this library has no engine.
//
// Errors: a function that fails returns NULL or HOLDFAST_FAILED and, if `error` is not NULL, sets
// *error to an error that the caller frees. Texts that are returned are freed by holdfast_free().
// Threads: a client may be used by several at once, a stream by one at a time.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HOLDFAST_API __attribute__((visibility("default")))

/// The version of this interface: functions and members are added, none is changed or taken away.
#define HOLDFAST_INTERFACE 1

typedef struct holdfast_client holdfast_client;
typedef struct holdfast_stream holdfast_stream;
typedef struct holdfast_error holdfast_error;

/// Returns the version of the library, as "0.1.0".
HOLDFAST_API const char* holdfast_version(void);
/// Returns the HOLDFAST_INTERFACE that the library was built with.
HOLDFAST_API int holdfast_interface(void);

/// Returns the typed code ("model_not_found", "queue_full", …), a sentence, and, where waiting may
/// help, the milliseconds to wait (else -1). Valid until the error is freed.
HOLDFAST_API const char* holdfast_error_code(const holdfast_error* error);
HOLDFAST_API const char* holdfast_error_message(const holdfast_error* error);
HOLDFAST_API int64_t holdfast_error_retry_after_ms(const holdfast_error* error);
HOLDFAST_API void holdfast_error_free(holdfast_error* error);
HOLDFAST_API void holdfast_free(void* text);

/// Flag of holdfast_open(): where no server runs on the state directory, one is started (`holdfast
/// serve`, found in HOLDFAST_PROGRAM, next to the library, or on PATH). It goes on when this
/// process ends, so that others can attach to its requests; holdfast_stop_server() ends it.
#define HOLDFAST_START 1u

/// Opens a server. `where` is a state directory of this machine, or "http://HOST:PORT" (https://)
/// of a server elsewhere, for which HOLDFAST_API_KEY, or the file of HOLDFAST_API_KEY_FILE, has the
/// key. NULL is HOLDFAST_STATE, else HOLDFAST_URL, else the state directory of this user. Without
/// HOLDFAST_START it does not wait for the server: calls wait for it, 30 s at most. A server
/// elsewhere is never started.
HOLDFAST_API holdfast_client* holdfast_open(const char* where, unsigned flags,
                                            holdfast_error** error);
HOLDFAST_API void holdfast_close(holdfast_client* client);
/// Stops the server of the state directory, whoever started it. Returns 0, or HOLDFAST_FAILED; a
/// server elsewhere is not stopped ("unsupported").
HOLDFAST_API int holdfast_stop_server(holdfast_client* client, holdfast_error** error);

/// Accepts a request and returns its id (26 characters). `request` is a JSON object with these
/// members; an unknown one is refused:
/// - "model": name or alias
/// - "prompt", "ids" or "messages": a text, token ids, or a conversation, with "tools" if there are
///   any
/// - "max_tokens", "n", "stop" (a text or a list), "seed"
/// - temperature, top_p, top_k and the other sampling parameters of docs/use/sampling.md, by name
/// - "key": the idempotency key; the same key and body is the same request
/// - "tenant" (elsewhere that of the key), "session", "priority" ("interactive", "normal", "batch")
/// - "queue_timeout_ms", "total_timeout_ms", "keep_alive_ms"
/// - "on_disconnect": "continue" (the default) or "cancel"
HOLDFAST_API char* holdfast_submit(holdfast_client* client, const char* request,
                                   holdfast_error** error);

/// Returns the state of a request, or cancels it and returns its state, as a JSON object: "id",
/// "state", "model", "choices" (each "index", "tokens", "finish_reason", "error"), "prompt_tokens",
/// "queue_position", "eta_ms".
HOLDFAST_API char* holdfast_status(holdfast_client* client, const char* id, holdfast_error** error);
HOLDFAST_API char* holdfast_cancel(holdfast_client* client, const char* id, holdfast_error** error);

/// A piece of a stream. What it points to is valid until the next call with the stream.
typedef struct holdfast_part {
  int32_t choice;
  int32_t id_count;
  int64_t index;  // of the first token
  const int32_t* ids;
  const char* text;  // UTF-8 that has become final: whole characters, not ended by a 0
  size_t text_size;
  const char* finish;  // "stop", "length", …: the choice has ended; else NULL
  const void* reserved[4];
} holdfast_part;

/// Stands in `next` for a choice whose `finish` was seen: nothing more of it is given.
#define HOLDFAST_DONE INT64_MAX

/// Attaches to a request. `next[i]` is the first token that is wanted of choice i; without it all
/// are. Text that became final with earlier tokens is not repeated; what becomes final with the end
/// of a choice comes with its `finish`. The text of a stop string is no part of the answer.
HOLDFAST_API holdfast_stream* holdfast_attach(holdfast_client* client, const char* id,
                                              const int64_t* next, size_t choices,
                                              holdfast_error** error);
#define HOLDFAST_FAILED (-1)  // the request is unknown; lost connections are no failure
#define HOLDFAST_END 0        // every choice has ended, and all of it was given
#define HOLDFAST_PART 1       // *part is set
#define HOLDFAST_TIMEOUT 2    // nothing came within timeout_ms
/// Waits for the next part; timeout_ms < 0: without end.
HOLDFAST_API int holdfast_next(holdfast_stream* stream, int timeout_ms, holdfast_part* part,
                               holdfast_error** error);
/// Leaves the stream; the request goes on unless its "on_disconnect" is "cancel".
HOLDFAST_API void holdfast_detach(holdfast_stream* stream);

/// Returns the models as a JSON list: "name", "state", "context", "chat", …
HOLDFAST_API char* holdfast_models(holdfast_client* client, holdfast_error** error);
/// Registers a file under a name, loads a model, unloads it, removes its name. holdfast_load()
/// returns when the model is ready. Each returns 0 or HOLDFAST_FAILED.
HOLDFAST_API int holdfast_add(holdfast_client* client, const char* name, const char* path,
                              holdfast_error** error);
HOLDFAST_API int holdfast_load(holdfast_client* client, const char* name, holdfast_error** error);
HOLDFAST_API int holdfast_unload(holdfast_client* client, const char* name, holdfast_error** error);
HOLDFAST_API int holdfast_remove(holdfast_client* client, const char* name, holdfast_error** error);

#ifdef __cplusplus
}
#endif
