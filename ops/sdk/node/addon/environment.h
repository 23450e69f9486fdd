#pragma once
// One environment of Node (the main thread's, or that of a worker thread): promises that are kept
// by calls on other threads.

#define NAPI_VERSION 8
#include <node_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace holdfast::node {

/// Why a promise is rejected: an error of the C library, or one of its kind.
struct Refusal {
  std::string code;
  std::string message;
  std::int64_t retry_after_ms = -1;
};

/// A call on another thread, and the promise of it.
struct Call {
  napi_deferred promise = nullptr;
  std::optional<Refusal> refusal;
  /// Makes the value of the promise, on the thread of the environment; empty: undefined.
  std::function<napi_value(napi_env)> value;
};

/// The environment of one loaded addon. Methods are for its thread where they do not say otherwise.
class Environment : public std::enable_shared_from_this<Environment> {
 public:
  /// Makes the environment's state and ties it to the environment's end.
  static std::shared_ptr<Environment> make(napi_env env);
  /// Returns the state of the environment.
  static std::shared_ptr<Environment> of(napi_env env);

  /// Runs `work` on another thread; returns a promise of what it says of the call. `work` may keep
  /// the call and finish it later, from any thread: it then returns false.
  napi_value promise(std::function<bool(const std::shared_ptr<Call>&)> work);
  /// Keeps the promise. From any thread; nothing happens once the environment has ended.
  void finish(const std::shared_ptr<Call>& call);
  /// True when the environment ends: calls that wait are to return. From any thread.
  bool ends() const { return ends_; }
  /// Lets go of what may take a moment to end: on another thread, or at once when the environment
  /// ends.
  void release(std::shared_ptr<void> last);

 private:
  explicit Environment(napi_env env) : env_(env) {}
  static void on_end(void* state);
  static void on_finished(napi_env env, napi_value, void* context, void* data);
  void settle(const Call& call);
  void run(std::function<void()> task);

  napi_env env_;
  napi_threadsafe_function finished_ = nullptr;
  std::size_t promises_ = 0;  // that are not kept yet: they keep the event loop alive
  std::mutex mutex_;          // guards finished_ against its end
  std::atomic<bool> ends_{false};
  std::atomic<int> running_{0};  // tasks on other threads
};

}  // namespace holdfast::node
