// The functions that index.js calls, over the C library. Each that may block returns a promise and
// runs on a thread of its own (threads.h); none of them is for users.
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "ops/sdk/node/addon/environment.h"
#include "ops/sdk/node/addon/handles.h"
#include "ops/sdk/node/addon/library.h"

namespace holdfast::node {
namespace {

constexpr int kSliceMs = 100;               // after which a reader sees that it is to return
constexpr std::size_t kPartsAtOnce = 64;    // given to JavaScript together
constexpr double kDone = 9007199254740991;  // Number.MAX_SAFE_INTEGER stands for HOLDFAST_DONE

/// The arguments of a call, at most four; those that were not given are undefined.
std::array<napi_value, 4> arguments(napi_env env, napi_callback_info info) {
  std::array<napi_value, 4> out{};
  std::size_t count = out.size();
  napi_get_cb_info(env, info, &count, out.data(), nullptr, nullptr);
  return out;
}

napi_value thrown(napi_env env, const Refusal& refusal) {
  napi_throw_error(env, refusal.code.c_str(), refusal.message.c_str());
  return nullptr;
}

const Refusal kClosed{"usage", "the client is closed", -1};

/// version(): the version of the C library.
napi_value version(napi_env env, napi_callback_info) {
  std::string why;
  const Library* functions = library(&why);
  if (functions == nullptr) return thrown(env, {"library_missing", why, -1});
  napi_value out = nullptr;
  napi_create_string_utf8(env, functions->version(), NAPI_AUTO_LENGTH, &out);
  return out;
}

/// open(state or null, start): a promise of a client.
napi_value open_client(napi_env env, napi_callback_info info) {
  const auto given = arguments(env, info);
  const bool named = !is_nothing(env, given[0]);
  bool start = false;
  napi_get_value_bool(env, given[1], &start);
  return Environment::of(env)->promise(
      [named, state = text_of(env, given[0]), start](const std::shared_ptr<Call>& call) {
        std::string why;
        const Library* functions = library(&why);
        if (functions == nullptr) {
          call->refusal = Refusal{"library_missing", why, -1};
          return true;
        }
        holdfast_error* error = nullptr;
        holdfast_client* handle =
            functions->open(named ? state.c_str() : nullptr, start ? HOLDFAST_START : 0, &error);
        if (handle == nullptr) {
          call->refusal = take_error(*functions, error);
          return true;
        }
        call->value = [client = std::make_shared<Client>(functions, handle)](napi_env env) {
          return give(env, client);
        };
        return true;
      });
}

/// close(client): a promise that is kept when every call with it has ended and it is closed.
napi_value close_client(napi_env env, napi_callback_info info) {
  auto client = std::exchange(handle_of<Client>(env, arguments(env, info)[0]), nullptr);
  const auto environment = Environment::of(env);
  return environment->promise(
      [environment, client = std::move(client)](const std::shared_ptr<Call>& call) mutable {
        if (client == nullptr) return true;
        client->on_closed = [environment, call] { environment->finish(call); };
        client.reset();
        return false;
      });
}

/// A function of the library that answers with a text, or with nothing.
using Work = std::function<char*(const Client&, holdfast_error**)>;

/// Returns a promise of the text that `work` gives, or of undefined where it gives an empty one.
napi_value text_promise(napi_env env, napi_value client_value, Work work) {
  auto client = handle_of<Client>(env, client_value);
  if (client == nullptr) return thrown(env, kClosed);
  return Environment::of(env)->promise(
      [client = std::move(client), work = std::move(work)](const std::shared_ptr<Call>& call) {
        const Library& functions = *client->functions;
        holdfast_error* error = nullptr;
        char* made = work(*client, &error);
        if (error != nullptr) {
          call->refusal = take_error(functions, error);
        } else if (made != nullptr) {
          call->value = [text = std::string(made)](napi_env env) {
            napi_value out = nullptr;
            napi_create_string_utf8(env, text.data(), text.size(), &out);
            return out;
          };
        }
        functions.free(made);
        return true;
      });
}

/// submit(client, request), status(client, id), cancel(client, id).
template <auto function>
napi_value ask(napi_env env, napi_callback_info info) {
  const auto given = arguments(env, info);
  return text_promise(
      env, given[0], [text = text_of(env, given[1])](const Client& client, holdfast_error** error) {
        return (client.functions->*function)(client.handle, text.c_str(), error);
      });
}

/// load(client, name), unload(client, name), remove(client, name).
template <auto function>
napi_value change(napi_env env, napi_callback_info info) {
  const auto given = arguments(env, info);
  return text_promise(
      env, given[0],
      [name = text_of(env, given[1])](const Client& client, holdfast_error** error) -> char* {
        (client.functions->*function)(client.handle, name.c_str(), error);
        return nullptr;
      });
}

/// models(client).
napi_value models(napi_env env, napi_callback_info info) {
  return text_promise(env, arguments(env, info)[0],
                      [](const Client& client, holdfast_error** error) {
                        return client.functions->models(client.handle, error);
                      });
}

/// add(client, name, path).
napi_value add(napi_env env, napi_callback_info info) {
  const auto given = arguments(env, info);
  return text_promise(env, given[0],
                      [name = text_of(env, given[1]), path = text_of(env, given[2])](
                          const Client& client, holdfast_error** error) -> char* {
                        client.functions->add(client.handle, name.c_str(), path.c_str(), error);
                        return nullptr;
                      });
}

/// stopServer(client).
napi_value stop_server(napi_env env, napi_callback_info info) {
  return text_promise(env, arguments(env, info)[0],
                      [](const Client& client, holdfast_error** error) -> char* {
                        client.functions->stop_server(client.handle, error);
                        return nullptr;
                      });
}

/// Returns the list of first tokens that are wanted.
std::vector<std::int64_t> first_tokens(napi_env env, napi_value list) {
  std::vector<std::int64_t> out;
  std::uint32_t count = 0;
  napi_get_array_length(env, list, &count);
  for (std::uint32_t i = 0; i < count; ++i) {
    napi_value item = nullptr;
    double number = 0;
    napi_get_element(env, list, i, &item);
    napi_get_value_double(env, item, &number);
    out.push_back(number >= kDone ? HOLDFAST_DONE : static_cast<std::int64_t>(number));
  }
  return out;
}

/// attach(client, id, next): a promise of a stream.
napi_value attach(napi_env env, napi_callback_info info) {
  const auto given = arguments(env, info);
  auto client = handle_of<Client>(env, given[0]);
  if (client == nullptr) return thrown(env, kClosed);
  return Environment::of(env)->promise(
      [client = std::move(client), id = text_of(env, given[1]),
       next = first_tokens(env, given[2])](const std::shared_ptr<Call>& call) {
        holdfast_error* error = nullptr;
        holdfast_stream* handle = client->functions->attach(
            client->handle, id.c_str(), next.empty() ? nullptr : next.data(), next.size(), &error);
        if (handle == nullptr) {
          call->refusal = take_error(*client->functions, error);
          return true;
        }
        call->value = [stream = std::make_shared<Stream>(client, handle)](napi_env env) {
          return give(env, stream);
        };
        return true;
      });
}

/// A part, on its way to JavaScript.
struct Part {
  std::int32_t choice = 0;
  std::int64_t index = 0;
  std::vector<std::int32_t> ids;
  std::string text;
  std::string finish;

  explicit Part(const holdfast_part& part)
      : choice(part.choice),
        index(part.index),
        ids(part.ids, part.ids + part.id_count),
        text(part.text, part.text_size),
        finish(part.finish == nullptr ? "" : part.finish) {}
};

napi_value object_of(napi_env env, const Part& part) {
  napi_value out = nullptr, value = nullptr, ids = nullptr;
  napi_create_object(env, &out);
  napi_create_int32(env, part.choice, &value);
  napi_set_named_property(env, out, "choice", value);
  napi_create_int64(env, part.index, &value);
  napi_set_named_property(env, out, "index", value);
  napi_create_array_with_length(env, part.ids.size(), &ids);
  for (std::size_t i = 0; i < part.ids.size(); ++i) {
    napi_create_int32(env, part.ids[i], &value);
    napi_set_element(env, ids, static_cast<std::uint32_t>(i), value);
  }
  napi_set_named_property(env, out, "ids", ids);
  napi_create_string_utf8(env, part.text.data(), part.text.size(), &value);
  napi_set_named_property(env, out, "text", value);
  napi_get_null(env, &value);
  if (!part.finish.empty())
    napi_create_string_utf8(env, part.finish.data(), part.finish.size(), &value);
  napi_set_named_property(env, out, "finish", value);
  const double next = part.finish.empty()
                          ? static_cast<double>(part.index) + static_cast<double>(part.ids.size())
                          : kDone;
  napi_create_double(env, next, &value);
  napi_set_named_property(env, out, "next", value);
  return out;
}

/// Waits for a part and takes what else is there. Returns HOLDFAST_PART, HOLDFAST_END (also when
/// nobody wants more) or HOLDFAST_FAILED with the error.
int read_parts(const Environment& environment, Stream& stream, std::vector<Part>* parts,
               holdfast_error** error) {
  const std::lock_guard lock(stream.reading);
  const Library& functions = *stream.client->functions;
  holdfast_part part{};
  int got = HOLDFAST_TIMEOUT;
  while (got == HOLDFAST_TIMEOUT) {
    if (stream.leaving || environment.ends()) return HOLDFAST_END;
    got = functions.next(stream.handle, kSliceMs, &part, error);
  }
  if (got != HOLDFAST_PART) return got;
  do {
    parts->emplace_back(part);
    // An end or an error that comes here comes again with the next call.
  } while (parts->size() < kPartsAtOnce &&
           functions.next(stream.handle, 0, &part, nullptr) == HOLDFAST_PART);
  return HOLDFAST_PART;
}

/// next(stream): a promise of a list of parts, undefined after the last.
napi_value next(napi_env env, napi_callback_info info) {
  const auto environment = Environment::of(env);
  auto stream = handle_of<Stream>(env, arguments(env, info)[0]);
  return environment->promise(
      [environment, stream = std::move(stream)](const std::shared_ptr<Call>& call) {
        if (stream == nullptr) return true;  // it was left
        std::vector<Part> parts;
        holdfast_error* error = nullptr;
        const int got = read_parts(*environment, *stream, &parts, &error);
        if (got == HOLDFAST_FAILED) call->refusal = take_error(*stream->client->functions, error);
        if (got != HOLDFAST_PART) return true;
        call->value = [parts = std::move(parts)](napi_env env) {
          napi_value out = nullptr;
          napi_create_array_with_length(env, parts.size(), &out);
          for (std::size_t i = 0; i < parts.size(); ++i) {
            napi_set_element(env, out, static_cast<std::uint32_t>(i), object_of(env, parts[i]));
          }
          return out;
        };
        return true;
      });
}

/// leave(stream): leaves it as soon as a reader that waits has returned.
napi_value leave(napi_env env, napi_callback_info info) {
  auto stream = std::exchange(handle_of<Stream>(env, arguments(env, info)[0]), nullptr);
  if (stream == nullptr) return nullptr;
  stream->leaving = true;
  Environment::of(env)->release(std::move(stream));
  return nullptr;
}

}  // namespace
}  // namespace holdfast::node

NAPI_MODULE_INIT() {
  using namespace holdfast::node;
  Environment::make(env);
  const std::vector<std::pair<const char*, napi_callback>> functions = {
      {"version", version},
      {"open", open_client},
      {"close", close_client},
      {"submit", ask<&Library::submit>},
      {"status", ask<&Library::status>},
      {"cancel", ask<&Library::cancel>},
      {"models", models},
      {"add", add},
      {"load", change<&Library::load>},
      {"unload", change<&Library::unload>},
      {"remove", change<&Library::remove>},
      {"stopServer", stop_server},
      {"attach", attach},
      {"next", next},
      {"leave", leave}};
  for (const auto& [name, function] : functions) {
    napi_value value = nullptr;
    napi_create_function(env, name, NAPI_AUTO_LENGTH, function, nullptr, &value);
    napi_set_named_property(env, exports, name, value);
  }
  return exports;
}
