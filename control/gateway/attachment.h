#pragma once
// Shows a request of the daemon to one HTTP client: the stream of its chunks, or the whole answer.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "control/gateway/render.h"
#include "control/gateway/router.h"
#include "control/gateway/shape.h"
#include "shared/wire/messages.h"

namespace holdfast::gateway {

/// How an accepted request is to be shown.
struct View {
  Shape shape;
  std::vector<std::int64_t> seen;                // of Last-Event-ID, empty = from the start
  std::vector<Header> headers;                   // X-Request-Id is added
  std::shared_ptr<WholeAnswer> whole = nullptr;  // another document than the shape's own
  bool leaves_for_good = false;                  // a client that leaves does not come back
};

/// On the exchange's strand. Attaches at index 0 and answers; returns at once. A daemon or a worker
/// that dies meanwhile is the SDK's business: the answer just comes later. When the client leaves,
/// the attachment ends and the daemon's rules for disconnects decide.
void show_request(Context& context, const ExchangePtr& exchange, wire::RequestInfo info, View view);

}  // namespace holdfast::gateway
