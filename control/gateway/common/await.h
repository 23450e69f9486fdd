#pragma once
// Waiting for an asynchronous call of the SDK, on a thread that may block: never the SDK's own.

#include <future>
#include <memory>
#include <utility>

#include "shared/client/client.h"

namespace holdfast::gateway {

/// Calls `start` with the handler of the answer and blocks until the answer has come.
template <class T, class Start>
client::Answer<T> await(const Start& start) {
  auto promise = std::make_shared<std::promise<client::Answer<T>>>();
  auto future = promise->get_future();
  start([promise](client::Answer<T> answer) { promise->set_value(std::move(answer)); });
  return future.get();
}

}  // namespace holdfast::gateway
