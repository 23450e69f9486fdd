#include "ops/sdk/node/addon/environment.h"

#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "ops/sdk/node/addon/threads.h"

namespace holdfast::node {
namespace {

constexpr std::chrono::milliseconds kEndPatience{1'000};
constexpr std::chrono::milliseconds kEndPause{2};

napi_value text(napi_env env, const std::string& value) {
  napi_value out = nullptr;
  napi_create_string_utf8(env, value.data(), value.size(), &out);
  return out;
}

/// Makes the error that a promise is rejected with.
napi_value error_of(napi_env env, const Refusal& refusal) {
  napi_value out = nullptr, wait = nullptr;
  napi_create_error(env, text(env, refusal.code), text(env, refusal.message), &out);
  if (refusal.retry_after_ms >= 0) {
    napi_create_int64(env, refusal.retry_after_ms, &wait);
    napi_set_named_property(env, out, "retryAfterMs", wait);
  }
  return out;
}

}  // namespace

std::shared_ptr<Environment> Environment::make(napi_env env) {
  std::shared_ptr<Environment> out(new Environment(env));
  napi_create_threadsafe_function(env, nullptr, nullptr, text(env, "holdfast"), 0, 1, nullptr,
                                  nullptr, out.get(), &Environment::on_finished, &out->finished_);
  napi_unref_threadsafe_function(env, out->finished_);
  auto* held = new std::shared_ptr<Environment>(out);
  napi_set_instance_data(
      env, held,
      [](napi_env, void* data, void*) { delete static_cast<std::shared_ptr<Environment>*>(data); },
      nullptr);
  // The last that was added is the first to run: threads are told before what they use ends.
  napi_add_env_cleanup_hook(env, &Environment::on_end, out.get());
  return out;
}

std::shared_ptr<Environment> Environment::of(napi_env env) {
  void* data = nullptr;
  napi_get_instance_data(env, &data);
  return *static_cast<std::shared_ptr<Environment>*>(data);
}

void Environment::on_end(void* state) {
  auto* self = static_cast<Environment*>(state);
  self->ends_ = true;
  {
    const std::lock_guard lock(self->mutex_);
    napi_release_threadsafe_function(self->finished_, napi_tsfn_abort);
    self->finished_ = nullptr;
  }
  // Streams look at ends() and return. A call that waits for a server that is down may take half a
  // minute: nobody waits for that, and its thread goes with the process.
  const auto until = std::chrono::steady_clock::now() + kEndPatience;
  while (self->running_ > 0 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kEndPause);
  }
}

void Environment::run(std::function<void()> task) {
  ++running_;
  run_on_thread([self = shared_from_this(), task = std::move(task)]() mutable {
    task();
    task = nullptr;
    --self->running_;
  });
}

napi_value Environment::promise(std::function<bool(const std::shared_ptr<Call>&)> work) {
  auto call = std::make_shared<Call>();
  napi_value out = nullptr;
  if (napi_create_promise(env_, &call->promise, &out) != napi_ok) return nullptr;
  if (promises_++ == 0) napi_ref_threadsafe_function(env_, finished_);
  try {
    run([self = shared_from_this(), call, work = std::move(work)] {
      if (work(call)) self->finish(call);
    });
  } catch (const std::system_error& fault) {
    --running_;
    call->refusal = Refusal{"internal", std::string("start a thread: ") + fault.what(), -1};
    settle(*call);
  }
  return out;
}

void Environment::finish(const std::shared_ptr<Call>& call) {
  const std::lock_guard lock(mutex_);
  if (finished_ == nullptr) return;
  auto* data = new std::shared_ptr<Call>(call);
  if (napi_call_threadsafe_function(finished_, data, napi_tsfn_nonblocking) != napi_ok) delete data;
}

void Environment::on_finished(napi_env env, napi_value, void* context, void* data) {
  const std::unique_ptr<std::shared_ptr<Call>> call(static_cast<std::shared_ptr<Call>*>(data));
  if (env == nullptr) return;  // it ends
  static_cast<Environment*>(context)->settle(**call);
}

void Environment::settle(const Call& call) {
  napi_handle_scope scope = nullptr;
  napi_open_handle_scope(env_, &scope);
  if (call.refusal) {
    napi_reject_deferred(env_, call.promise, error_of(env_, *call.refusal));
  } else {
    napi_value value = nullptr;
    if (call.value) value = call.value(env_);
    if (value == nullptr) napi_get_undefined(env_, &value);
    napi_resolve_deferred(env_, call.promise, value);
  }
  napi_close_handle_scope(env_, scope);
  if (--promises_ == 0) napi_unref_threadsafe_function(env_, finished_);
}

void Environment::release(std::shared_ptr<void> last) {
  if (ends_) return;
  try {
    run([last = std::move(last)] {});
  } catch (const std::system_error&) {
    --running_;  // no thread: it was done here
  }
}

}  // namespace holdfast::node
