#pragma once
// Every endpoint. See router.cpp for the table.

#include "control/gateway/router.h"

namespace holdfast::gateway {

// endpoint_health.cpp
void get_live(Context&, ExchangePtr, const Captures&);
void get_ready(Context&, ExchangePtr, const Captures&);
// endpoint_models.cpp
void get_models(Context&, ExchangePtr, const Captures&);
void get_model(Context&, ExchangePtr, const Captures&);
// endpoint_completions.cpp
void post_completions(Context&, ExchangePtr, const Captures&);
void post_chat_completions(Context&, ExchangePtr, const Captures&);
void post_embeddings(Context&, ExchangePtr, const Captures&);
// endpoint_requests.cpp
void get_request(Context&, ExchangePtr, const Captures&);
void delete_request(Context&, ExchangePtr, const Captures&);
void get_request_stream(Context&, ExchangePtr, const Captures&);

}  // namespace holdfast::gateway
