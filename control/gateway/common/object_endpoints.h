#pragma once
// Shared parts of the endpoints of stored objects (files, batches): ids, pages, repeated POSTs.

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "control/gateway/common/answers.h"
#include "control/gateway/common/context.h"
#include "control/gateway/common/object_store.h"
#include "control/gateway/http/exchange.h"

namespace holdfast::gateway {

/// The id of the object that a POST makes. A client cannot choose it.
struct NewId {
  std::string id;
  std::int64_t version = 0;  // how it was derived from an Idempotency-Key; 0: it is random
};
/// Runs `work` with an id "file-…": a new one, or, with an Idempotency-Key, always the same for its
/// owner, derived from a secret of the database. `kind` is the kind of the object that it names,
/// for ids that older versions derived. An invalid key is answered with its fault.
void with_new_id(Context& context, const ExchangePtr& exchange, const std::string& kind,
                 const std::string& prefix, std::function<void(NewId)> work);

/// Runs `work` with the object, or answers 404 ("no such file: …").
void with_object(Context& context, const ExchangePtr& exchange, const std::string& kind,
                 const std::string& id, std::function<void(StoredObject)> work);

/// Answers with OpenAI's list: limit, order, after. `show` returns null for objects that are
/// hidden.
using ObjectRenderer = std::function<nlohmann::ordered_json(const StoredObject&)>;
void list_objects(Context& context, const ExchangePtr& exchange, const std::string& kind,
                  ObjectRenderer show);

/// Returns 404 for an object of that kind.
Response no_such(const std::string& kind, const std::string& id);
/// Returns the refusal of a POST with another body under the key of this object.
Response other_body(const std::string& id);

}  // namespace holdfast::gateway
