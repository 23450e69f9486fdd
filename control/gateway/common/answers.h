#pragma once
// Parts of every endpoint that asks the daemon and answers with a document.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <utility>
#include <variant>

#include "control/gateway/http/errors.h"
#include "control/gateway/http/exchange.h"
#include "shared/client/client.h"

namespace holdfast::gateway {

/// Returns 200 with the body; bytes that are not UTF-8 are replaced.
Response json_response(const nlohmann::ordered_json& body);

/// Returns a handler for an answer of the daemon that continues with `work` on the exchange's
/// strand, or answers with the failure.
template <class T>
std::function<void(client::Answer<T>)> on_strand(const ExchangePtr& exchange,
                                                 std::function<void(T)> work) {
  return [exchange, work = std::move(work)](client::Answer<T> answer) {
    exchange->post([exchange, work, answer = std::move(answer)]() mutable {
      if (const auto* failure = std::get_if<1>(&answer)) {
        return exchange->respond(error_response(*failure));
      }
      work(std::move(std::get<0>(answer)));
    });
  };
}

}  // namespace holdfast::gateway
