#pragma once
// Clients and streams of the C library, owned by JavaScript and by the calls that use them; and how
// values get from there to here.

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "ops/sdk/node/addon/environment.h"
#include "ops/sdk/node/addon/library.h"

namespace holdfast::node {

/// A client of the library. The last who lets go of it closes it, which may take a moment: that is
/// never the thread of an environment.
struct Client {
  const Library* functions;
  holdfast_client* handle;
  std::function<void()> on_closed;  // set by close(), run when it is closed

  Client(const Library* functions, holdfast_client* handle)
      : functions(functions), handle(handle) {}
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() {
    functions->close(handle);
    if (on_closed) on_closed();
  }
};

/// A stream of a client. The last who lets go of it leaves it.
struct Stream {
  std::shared_ptr<Client> client;
  holdfast_stream* handle;
  std::mutex reading;                // the library lets one at a time read
  std::atomic<bool> leaving{false};  // a reader that waits is to return

  Stream(std::shared_ptr<Client> client, holdfast_stream* handle)
      : client(std::move(client)), handle(handle) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { client->functions->detach(handle); }
};

/// JavaScript's share of a handle; empty once it was taken.
template <class Handle>
struct Share {
  std::shared_ptr<Environment> environment;
  std::shared_ptr<Handle> handle;
};

/// Gives a handle to JavaScript, which owns it until it is taken or collected.
template <class Handle>
napi_value give(napi_env env, std::shared_ptr<Handle> handle) {
  napi_value out = nullptr;
  auto share =
      std::make_unique<Share<Handle>>(Share<Handle>{Environment::of(env), std::move(handle)});
  const auto collected = [](napi_env, void* data, void*) {
    const std::unique_ptr<Share<Handle>> share(static_cast<Share<Handle>*>(data));
    if (share->handle != nullptr) share->environment->release(std::move(share->handle));
  };
  if (napi_create_external(env, share.get(), collected, nullptr, &out) == napi_ok)
    (void)share.release();
  return out;
}

/// Returns JavaScript's share of a handle. `value` is one that give() made.
template <class Handle>
std::shared_ptr<Handle>& handle_of(napi_env env, napi_value value) {
  void* data = nullptr;
  napi_get_value_external(env, value, &data);
  return static_cast<Share<Handle>*>(data)->handle;
}

/// Returns a text of JavaScript as UTF-8; empty for what is no text.
std::string text_of(napi_env env, napi_value value);
/// True for null and undefined.
bool is_nothing(napi_env env, napi_value value);
/// Makes a refusal of an error of the library, and frees it.
Refusal take_error(const Library& functions, holdfast_error* error);

}  // namespace holdfast::node
