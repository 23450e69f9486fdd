#pragma once
// Shows a request of the daemon to one HTTP client, as a stream of chunks or as the whole answer.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "control/gateway/common/context.h"
#include "control/gateway/common/render.h"
#include "control/gateway/http/shape.h"
#include "shared/wire/messages.h"

namespace holdfast::gateway {

/// The form in which an accepted request is shown.
struct View {
  Shape shape;
  std::vector<std::int64_t> resume_from;         // from Last-Event-ID; empty = from the start
  std::vector<Header> headers;                   // X-Request-Id is added
  std::shared_ptr<WholeAnswer> whole = nullptr;  // a document other than the shape's own
  bool leaves_for_good = false;                  // a client that leaves does not come back
};

/// Attaches at index 0 and answers. Runs on the exchange's strand and returns at once. If the
/// daemon or a worker dies meanwhile, the SDK reconnects and the answer comes later. When the
/// client leaves, the attachment ends and the daemon's rules for disconnects decide.
void show_request(Context& context, const ExchangePtr& exchange, wire::RequestInfo info, View view);

}  // namespace holdfast::gateway
