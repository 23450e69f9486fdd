#pragma once
// Every endpoint. router.cpp has the table of routes.

#include "control/gateway/common/context.h"

namespace holdfast::gateway {

// endpoint_health.cpp
void get_live(Context&, ExchangePtr, const Captures&);
void get_ready(Context&, ExchangePtr, const Captures&);
// endpoint_about.cpp
void get_version(Context&, ExchangePtr, const Captures&);
void get_openapi(Context&, ExchangePtr, const Captures&);
// endpoint_metrics.cpp
void get_metrics(Context&, ExchangePtr, const Captures&);
/// Answers with the gateway's own metrics alone.
void answer_gateway_metrics(Context&, const ExchangePtr&);
// endpoint_console.cpp
void get_console(Context&, ExchangePtr, const Captures&);
void get_console_history(Context&, ExchangePtr, const Captures&);
void post_console_verb(Context&, ExchangePtr, const Captures&);
// endpoint_models.cpp
void get_models(Context&, ExchangePtr, const Captures&);
void get_model(Context&, ExchangePtr, const Captures&);
// endpoint_completions.cpp
void post_completions(Context&, ExchangePtr, const Captures&);
void post_chat_completions(Context&, ExchangePtr, const Captures&);
void post_embeddings(Context&, ExchangePtr, const Captures&);
// endpoint_messages.cpp
void post_messages(Context&, ExchangePtr, const Captures&);
void post_message_count(Context&, ExchangePtr, const Captures&);
// endpoint_input_tokens.cpp
void post_input_count(Context&, ExchangePtr, const Captures&);
// endpoint_tokens.cpp
void post_tokenize(Context&, ExchangePtr, const Captures&);
void post_detokenize(Context&, ExchangePtr, const Captures&);
// endpoint_files.cpp
void post_files(Context&, ExchangePtr, const Captures&);
void get_files(Context&, ExchangePtr, const Captures&);
void get_file(Context&, ExchangePtr, const Captures&);
void delete_file(Context&, ExchangePtr, const Captures&);
void get_file_content(Context&, ExchangePtr, const Captures&);
// endpoint_batches.cpp
void post_batches(Context&, ExchangePtr, const Captures&);
void get_batches(Context&, ExchangePtr, const Captures&);
void get_batch(Context&, ExchangePtr, const Captures&);
void cancel_batch(Context&, ExchangePtr, const Captures&);
// endpoint_responses.cpp
void post_responses(Context&, ExchangePtr, const Captures&);
void get_response(Context&, ExchangePtr, const Captures&);
void cancel_response(Context&, ExchangePtr, const Captures&);
void delete_response(Context&, ExchangePtr, const Captures&);
void get_response_items(Context&, ExchangePtr, const Captures&);
// response_socket.cpp
void get_response_socket(Context&, ExchangePtr, const Captures&);
// endpoint_compact.cpp
void post_responses_compact(Context&, ExchangePtr, const Captures&);
// endpoint_ollama.cpp
void get_ollama_root(Context&, ExchangePtr, const Captures&);
void get_ollama_version(Context&, ExchangePtr, const Captures&);
void get_ollama_tags(Context&, ExchangePtr, const Captures&);
void get_ollama_ps(Context&, ExchangePtr, const Captures&);
void post_ollama_show(Context&, ExchangePtr, const Captures&);
void post_ollama_chat(Context&, ExchangePtr, const Captures&);
void post_ollama_generate(Context&, ExchangePtr, const Captures&);
void post_ollama_embed(Context&, ExchangePtr, const Captures&);
void post_ollama_embeddings(Context&, ExchangePtr, const Captures&);
// endpoint_ollama_changes.cpp
void delete_ollama_model(Context&, ExchangePtr, const Captures&);
void post_ollama_copy(Context&, ExchangePtr, const Captures&);
void post_ollama_create(Context&, ExchangePtr, const Captures&);
/// Refuses what sends the files of models here.
void refuse_ollama_change(Context&, ExchangePtr, const Captures&);
// endpoint_ollama_pull.cpp
void post_ollama_pull(Context&, ExchangePtr, const Captures&);
// endpoint_pulls.cpp
void post_pulls(Context&, ExchangePtr, const Captures&);
void get_pulls(Context&, ExchangePtr, const Captures&);
void get_pull(Context&, ExchangePtr, const Captures&);
void delete_pull(Context&, ExchangePtr, const Captures&);
// endpoint_requests.cpp
void get_request(Context&, ExchangePtr, const Captures&);
void delete_request(Context&, ExchangePtr, const Captures&);
void get_request_stream(Context&, ExchangePtr, const Captures&);

}  // namespace holdfast::gateway
