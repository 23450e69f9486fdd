#pragma once
// Every endpoint. router.cpp has the table of routes.

#include "control/gateway/common/context.h"

namespace holdfast::gateway {

// endpoint_health.cpp
void get_live(Context&, const ExchangePtr&, const Captures&);
void get_ready(Context&, const ExchangePtr&, const Captures&);
// endpoint_about.cpp
void get_version(Context&, const ExchangePtr&, const Captures&);
void get_openapi(Context&, const ExchangePtr&, const Captures&);
// endpoint_metrics.cpp
void get_metrics(Context&, const ExchangePtr&, const Captures&);
/// Answers with the gateway's own metrics alone.
void answer_gateway_metrics(Context&, const ExchangePtr&);
// endpoint_console.cpp
void get_console(Context&, const ExchangePtr&, const Captures&);
void get_console_history(Context&, const ExchangePtr&, const Captures&);
void post_console_verb(Context&, const ExchangePtr&, const Captures&);
// endpoint_models.cpp
void get_models(Context&, const ExchangePtr&, const Captures&);
void get_model(Context&, const ExchangePtr&, const Captures&);
// endpoint_completions.cpp
void post_completions(Context&, const ExchangePtr&, const Captures&);
void post_chat_completions(Context&, const ExchangePtr&, const Captures&);
void post_embeddings(Context&, const ExchangePtr&, const Captures&);
// endpoint_messages.cpp
void post_messages(Context&, const ExchangePtr&, const Captures&);
void post_message_count(Context&, const ExchangePtr&, const Captures&);
// endpoint_input_tokens.cpp
void post_input_count(Context&, const ExchangePtr&, const Captures&);
// endpoint_tokens.cpp
void post_tokenize(Context&, const ExchangePtr&, const Captures&);
void post_detokenize(Context&, const ExchangePtr&, const Captures&);
// endpoint_files.cpp
void post_files(Context&, const ExchangePtr&, const Captures&);
void get_files(Context&, const ExchangePtr&, const Captures&);
void get_file(Context&, const ExchangePtr&, const Captures&);
void delete_file(Context&, const ExchangePtr&, const Captures&);
void get_file_content(Context&, const ExchangePtr&, const Captures&);
// endpoint_batches.cpp
void post_batches(Context&, const ExchangePtr&, const Captures&);
void get_batches(Context&, const ExchangePtr&, const Captures&);
void get_batch(Context&, const ExchangePtr&, const Captures&);
void cancel_batch(Context&, const ExchangePtr&, const Captures&);
// endpoint_responses.cpp
void post_responses(Context&, const ExchangePtr&, const Captures&);
void get_response(Context&, const ExchangePtr&, const Captures&);
void cancel_response(Context&, const ExchangePtr&, const Captures&);
void delete_response(Context&, const ExchangePtr&, const Captures&);
void get_response_items(Context&, const ExchangePtr&, const Captures&);
// response_socket.cpp
void get_response_socket(Context&, const ExchangePtr&, const Captures&);
// endpoint_compact.cpp
void post_responses_compact(Context&, const ExchangePtr&, const Captures&);
// endpoint_submit.cpp
void post_request(Context&, const ExchangePtr&, const Captures&);
// endpoint_ollama.cpp
void get_ollama_root(Context&, const ExchangePtr&, const Captures&);
void get_ollama_version(Context&, const ExchangePtr&, const Captures&);
void get_ollama_tags(Context&, const ExchangePtr&, const Captures&);
void get_ollama_ps(Context&, const ExchangePtr&, const Captures&);
void post_ollama_show(Context&, const ExchangePtr&, const Captures&);
void post_ollama_chat(Context&, const ExchangePtr&, const Captures&);
void post_ollama_generate(Context&, const ExchangePtr&, const Captures&);
void post_ollama_embed(Context&, const ExchangePtr&, const Captures&);
void post_ollama_embeddings(Context&, const ExchangePtr&, const Captures&);
// endpoint_ollama_changes.cpp
void delete_ollama_model(Context&, const ExchangePtr&, const Captures&);
void post_ollama_copy(Context&, const ExchangePtr&, const Captures&);
/// Refuses what sends the files of models here.
void refuse_ollama_push(Context&, const ExchangePtr&, const Captures&);
void head_ollama_blob(Context&, const ExchangePtr&, const Captures&);
void post_ollama_blob(Context&, const ExchangePtr&, const Captures&);
// endpoint_ollama_create.cpp
void post_ollama_create(Context&, const ExchangePtr&, const Captures&);
// endpoint_ollama_pull.cpp
void post_ollama_pull(Context&, const ExchangePtr&, const Captures&);
// endpoint_pulls.cpp
void post_pulls(Context&, const ExchangePtr&, const Captures&);
void get_pulls(Context&, const ExchangePtr&, const Captures&);
void get_pull(Context&, const ExchangePtr&, const Captures&);
void delete_pull(Context&, const ExchangePtr&, const Captures&);
// endpoint_requests.cpp
void get_request(Context&, const ExchangePtr&, const Captures&);
void delete_request(Context&, const ExchangePtr&, const Captures&);
void get_request_stream(Context&, const ExchangePtr&, const Captures&);

}  // namespace holdfast::gateway
