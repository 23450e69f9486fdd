// The functions of holdfast.h. No exception leaves them.
#include "shared/sdk/holdfast.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "shared/base/environment.h"
#include "shared/base/json_text.h"
#include "shared/base/state_dir.h"
#include "shared/base/version.h"
#include "shared/client/client.h"
#include "shared/client/peer_key.h"
#include "shared/remote/address.h"
#include "shared/sdk/reader.h"
#include "shared/sdk/server.h"

using holdfast::client::Answer;
using holdfast::client::Failure;
using holdfast::sdk::Server;
using json = nlohmann::ordered_json;

struct holdfast_error {
  std::string code;
  std::string message;
  std::int64_t retry_after_ms = -1;
};

struct holdfast_client {
  std::unique_ptr<holdfast::sdk::Server> server;
};

namespace {

constexpr std::chrono::milliseconds kLoadPause{50};

void set_error(holdfast_error** error, std::string code, std::string message,
               std::int64_t retry_after_ms = -1) {
  if (error == nullptr) return;
  *error = new holdfast_error{std::move(code), std::move(message), retry_after_ms};
}

void set_error(holdfast_error** error, const Failure& failure) {
  set_error(error, std::string(errc_name(failure.code)), failure.message, failure.retry_after_ms);
}

void set_error(holdfast_error** error, const holdfast::Error& fault) {
  set_error(error, std::string(errc_name(fault.code)), fault.what);
}

char* copy(const std::string& text) {
  char* out = static_cast<char*>(std::malloc(text.size() + 1));
  if (out != nullptr) std::memcpy(out, text.c_str(), text.size() + 1);
  return out;
}

/// Runs `work`; what it throws becomes an error, and `failed` is returned.
template <class T, class Work>
T guarded(holdfast_error** error, T failed, Work work) {
  try {
    return work();
  } catch (const std::exception& e) {
    set_error(error, "internal", e.what());
    return failed;
  }
}

bool is_url(std::string_view where) {
  return where.starts_with("http://") || where.starts_with("https://");
}

/// Finds the server that holdfast_open() means.
holdfast::Result<std::unique_ptr<Server>> open_server(const char* where, bool start) {
  const std::string named = where != nullptr ? where : holdfast::environment("HOLDFAST_URL");
  const bool state_named = !holdfast::environment("HOLDFAST_STATE").empty();
  if (holdfast::client::is_listener_url(named) && (where != nullptr || !state_named)) {
    return holdfast::sdk::open_listener(named);
  }
  std::optional<holdfast::remote::Address> address;
  if (where == nullptr) {
    HOLDFAST_TRY(address, holdfast::remote::find_address("", state_named));
  } else if (is_url(where)) {
    HOLDFAST_TRY(address, holdfast::remote::read_address(where, "holdfast_open"));
  }
  if (address) return holdfast::sdk::open_remote(std::move(*address));
  return holdfast::sdk::open_local(where != nullptr ? where : holdfast::default_state_dir(), start);
}

}  // namespace

struct holdfast_stream {
  std::shared_ptr<holdfast::sdk::Reader> reader;
  Server* server = nullptr;
  holdfast::client::StreamId id = 0;
};

static void open_stream(holdfast_stream& stream, const std::string& request_id) {
  const auto reader = stream.reader;
  holdfast::client::StreamHandler handler;
  handler.on_attached = [reader](const holdfast::wire::RequestInfo& info) {
    reader->on_attached(info);
  };
  handler.on_event = [reader](const holdfast::wire::Event& event) { reader->on_event(event); };
  handler.on_fin = [reader](const holdfast::wire::RequestInfo& info) { reader->on_fin(info); };
  handler.on_failure = [reader](const Failure& failure) { reader->on_failure(failure); };
  reader->begin([&] {
    stream.id = stream.server->open_stream(request_id, std::move(handler));
    return [server = stream.server, id = stream.id](bool hold) { server->hold_stream(id, hold); };
  });
}

extern "C" {

const char* holdfast_version(void) {
  return holdfast::kVersion;
}

int holdfast_interface(void) {
  return HOLDFAST_INTERFACE;
}

const char* holdfast_error_code(const holdfast_error* error) {
  return error == nullptr ? "" : error->code.c_str();
}

const char* holdfast_error_message(const holdfast_error* error) {
  return error == nullptr ? "" : error->message.c_str();
}

int64_t holdfast_error_retry_after_ms(const holdfast_error* error) {
  return error == nullptr ? -1 : error->retry_after_ms;
}

void holdfast_error_free(holdfast_error* error) {
  delete error;
}

void holdfast_free(void* text) {
  std::free(text);
}

holdfast_client* holdfast_open(const char* where, unsigned flags, holdfast_error** error) {
  return guarded<holdfast_client*>(error, nullptr, [&]() -> holdfast_client* {
    auto server = open_server(where, (flags & HOLDFAST_START) != 0);
    if (!server) {
      set_error(error, server.error());
      return nullptr;
    }
    return new holdfast_client{std::move(server).value()};
  });
}

void holdfast_close(holdfast_client* client) {
  delete client;
}

int holdfast_stop_server(holdfast_client* client, holdfast_error** error) {
  return guarded(error, HOLDFAST_FAILED, [&] {
    const auto stopped = client->server->stop();
    if (stopped) return 0;
    set_error(error, stopped.error());
    return HOLDFAST_FAILED;
  });
}

/// Returns the text of an answer; nullptr and an error if it is refused.
static char* text_of(const Answer<std::string>& answer, holdfast_error** error) {
  if (const auto* text = std::get_if<std::string>(&answer)) return copy(*text);
  set_error(error, std::get<Failure>(answer));
  return nullptr;
}

char* holdfast_submit(holdfast_client* client, const char* request, holdfast_error** error) {
  return guarded<char*>(error, nullptr, [&] {
    return text_of(client->server->submit(request == nullptr ? "" : request), error);
  });
}

char* holdfast_status(holdfast_client* client, const char* id, holdfast_error** error) {
  return guarded<char*>(error, nullptr, [&] { return text_of(client->server->status(id), error); });
}

char* holdfast_cancel(holdfast_client* client, const char* id, holdfast_error** error) {
  return guarded<char*>(error, nullptr, [&] { return text_of(client->server->cancel(id), error); });
}

holdfast_stream* holdfast_attach(holdfast_client* client, const char* id, const int64_t* next,
                                 size_t choices, holdfast_error** error) {
  return guarded<holdfast_stream*>(error, nullptr, [&] {
    std::vector<std::int64_t> first;
    if (next != nullptr) first.assign(next, next + choices);
    auto stream = std::make_unique<holdfast_stream>();
    stream->server = client->server.get();
    stream->reader = std::make_shared<holdfast::sdk::Reader>(std::move(first));
    open_stream(*stream, id);
    return stream.release();
  });
}

int holdfast_next(holdfast_stream* stream, int timeout_ms, holdfast_part* part,
                  holdfast_error** error) {
  return guarded(error, HOLDFAST_FAILED, [&] {
    Failure failure;
    const int got = stream->reader->next(timeout_ms, part, &failure);
    if (got == HOLDFAST_FAILED) set_error(error, failure);
    return got;
  });
}

void holdfast_detach(holdfast_stream* stream) {
  if (stream == nullptr) return;
  stream->server->close_stream(stream->id);
  delete stream;
}

char* holdfast_models(holdfast_client* client, holdfast_error** error) {
  return guarded<char*>(error, nullptr, [&] { return text_of(client->server->models(), error); });
}

/// Calls an operator verb. Returns its result; nullptr and an error if it is refused.
static std::unique_ptr<std::string> operate(holdfast_client* client, const char* verb,
                                            const json& args, holdfast_error** error) {
  auto answer = client->server->operate(verb, args.dump());
  if (const auto* failure = std::get_if<Failure>(&answer)) {
    set_error(error, *failure);
    return nullptr;
  }
  return std::make_unique<std::string>(std::move(std::get<std::string>(answer)));
}

int holdfast_add(holdfast_client* client, const char* name, const char* path,
                 holdfast_error** error) {
  return guarded(error, HOLDFAST_FAILED, [&] {
    const auto done = operate(client, "models.add", {{"name", name}, {"path", path}}, error);
    return done == nullptr ? HOLDFAST_FAILED : 0;
  });
}

int holdfast_load(holdfast_client* client, const char* name, holdfast_error** error) {
  return guarded(error, HOLDFAST_FAILED, [&] {
    if (operate(client, "models.load", {{"name", name}}, error) == nullptr) return HOLDFAST_FAILED;
    for (;;) {
      const auto document = operate(client, "models.show", {{"name", name}}, error);
      if (document == nullptr) return HOLDFAST_FAILED;
      const json model = holdfast::try_parse_json<json>(*document);
      const std::string state = model.is_object() ? model.value("state", "") : "";
      if (state == "ready") return 0;
      if (state == "failed") {
        set_error(error, "model_failed", model.value("reason", "it failed"));
        return HOLDFAST_FAILED;
      }
      std::this_thread::sleep_for(kLoadPause);
    }
  });
}

int holdfast_unload(holdfast_client* client, const char* name, holdfast_error** error) {
  return guarded(error, HOLDFAST_FAILED, [&] {
    const auto done = operate(client, "models.unload", {{"name", name}}, error);
    return done == nullptr ? HOLDFAST_FAILED : 0;
  });
}

int holdfast_remove(holdfast_client* client, const char* name, holdfast_error** error) {
  return guarded(error, HOLDFAST_FAILED, [&] {
    const auto done = operate(client, "models.remove", {{"name", name}}, error);
    return done == nullptr ? HOLDFAST_FAILED : 0;
  });
}

}  // extern "C"
