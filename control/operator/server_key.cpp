#include "control/operator/server_key.h"

#include <nlohmann/json.hpp>

#include "shared/wire/curve.h"

namespace holdfast::daemon {

Result<std::string> server_key_document(store::Store& store) {
  HOLDFAST_TRY(const std::string secret, store.secret("curve"));
  HOLDFAST_TRY(const wire::CurvePair pair, wire::curve_pair_of(secret));
  return nlohmann::json{{"server_key", pair.public_key}}.dump();
}

}  // namespace holdfast::daemon
