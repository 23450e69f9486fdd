#pragma once
// What the endpoints of kept objects (files, batches) share: ids, pages, repeated POSTs.

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "control/gateway/exchange.h"
#include "control/gateway/keeper.h"
#include "control/gateway/router.h"

namespace holdfast::gateway {

/// The id of what a POST makes. It is never the client's to choose.
struct NewId {
  std::string id;
  std::int64_t version = 0;  // how it was derived from an Idempotency-Key; 0: it is a random one
};
/// "file-…": new, or with an Idempotency-Key always the same for its owner, from a secret of the
/// database. `kind`: of the object that it names, for those that older versions derived. A key
/// that is none is answered with what is wrong.
void with_new_id(Context& context, const ExchangePtr& exchange, const std::string& kind,
                 const std::string& prefix, std::function<void(NewId)> work);

/// A `done` of the keeper that goes on with `work` on the strand, or answers with the failure.
template <class T>
std::function<void(client::Answer<T>)> on_strand(const ExchangePtr& exchange,
                                                 std::function<void(T)> work);

/// The object, or 404 in its words ("no such file: …").
void with_kept(Context& context, const ExchangePtr& exchange, const std::string& kind,
               const std::string& id, std::function<void(Kept)> work);

/// OpenAI's list: limit, order, after. `show` gives nothing for what is not to be seen.
using ShowKept = std::function<nlohmann::ordered_json(const Kept&)>;
void list_kept(Context& context, const ExchangePtr& exchange, const std::string& kind,
               ShowKept show);

Response json_response(const nlohmann::ordered_json& body);
Response no_such(const std::string& kind, const std::string& id);
/// Another body came under the key of this object.
Response other_body(const std::string& id);

}  // namespace holdfast::gateway

#include "control/gateway/errors.h"

namespace holdfast::gateway {

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
