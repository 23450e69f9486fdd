// POST /v1/completions, /v1/chat/completions and /v1/embeddings.

#include "control/gateway/common/endpoints.h"
#include "control/gateway/common/params.h"
#include "control/gateway/common/post_generation.h"

namespace holdfast::gateway {

void post_completions(Context& context, const ExchangePtr& exchange, const Captures&) {
  post_generation(context, exchange, parse_completion);
}

void post_chat_completions(Context& context, const ExchangePtr& exchange, const Captures&) {
  post_generation(context, exchange, parse_chat);
}

void post_embeddings(Context& context, const ExchangePtr& exchange, const Captures&) {
  post_generation(context, exchange, parse_embedding);
}

}  // namespace holdfast::gateway
