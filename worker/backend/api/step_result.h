#pragma once
// The output of a forward.

#include <cstdint>

#include "worker/backend/api/logit_row.h"

namespace holdfast::backend {

/// A logit and its token.
struct Ranked {
  float logit = 0;
  std::int32_t id = 0;
};

}  // namespace holdfast::backend
