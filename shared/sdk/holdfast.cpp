// The functions of holdfast.h over the C++ client. No exception leaves them.
#include "shared/sdk/holdfast.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shared/base/json_text.h"
#include "shared/base/state_dir.h"
#include "shared/base/version.h"
#include "shared/client/client.h"
#include "shared/sdk/request.h"
#include "shared/sdk/server_start.h"
#include "shared/text/releaser.h"

using holdfast::client::Answer;
using holdfast::client::Failure;
using holdfast::client::Principal;
using json = nlohmann::ordered_json;

struct holdfast_error {
  std::string code;
  std::string message;
  std::int64_t retry_after_ms = -1;
};

struct holdfast_client {
  std::string state_dir;
  std::unique_ptr<holdfast::client::Client> requests;
  std::unique_ptr<holdfast::client::Client> operating;
};

namespace {

constexpr std::size_t kHeldParts = 256;     // parts that wait, at which the daemon is held back
constexpr std::size_t kReleasedParts = 64;  // and at which it goes on
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

/// A part as it waits for its reader.
struct Part {
  std::int32_t choice = 0;
  std::int64_t index = 0;
  std::vector<std::int32_t> ids;
  std::string text;
  std::string finish;
};

/// The reading side of a stream: events come on the client's thread, are made parts, and wait for
/// holdfast_next(). Its handlers may still run when the stream is closed, so they share it.
struct Reader {
  holdfast::client::Client* client = nullptr;
  holdfast::client::StreamId id = 0;
  std::vector<std::int64_t> first_tokens;           // first token of each choice
  std::vector<holdfast::text::Releaser> releasers;  // of each choice
  std::vector<std::string> stops;                   // of the request: their text is not given
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Part> parts;
  Part current;
  bool over = false;
  bool held = false;
  std::unique_ptr<Failure> failure;

  void on_attached(const holdfast::wire::RequestInfo& info) {
    const std::lock_guard lock(mutex);
    stops = info.stops;
  }

  void on_event(const holdfast::wire::Event& event) {
    const auto choice = static_cast<std::size_t>(event.choice);
    const std::lock_guard lock(mutex);
    add_choice(choice);
    Part part;
    part.choice = event.choice;
    part.index = -1;
    std::uint32_t begin = 0;
    for (std::size_t i = 0; i < event.ids.size(); ++i) {
      // Text is always made from the first token on, as only whole characters are given.
      std::string text = releasers[choice].feed(
          std::string_view(event.bytes).substr(begin, event.ends[i] - begin));
      begin = event.ends[i];
      const std::int64_t index = event.start + static_cast<std::int64_t>(i);
      if (index < first_tokens[choice]) continue;
      if (part.index < 0) part.index = index;
      part.ids.push_back(event.ids[i]);
      part.text += text;
    }
    if (!part.ids.empty()) push(std::move(part));
  }

  void on_fin(const holdfast::wire::RequestInfo& info) {
    const std::lock_guard lock(mutex);
    if (std::exchange(over, true)) return;
    for (const holdfast::wire::ChoiceInfo& choice : info.choices) {
      const auto at = static_cast<std::size_t>(choice.choice);
      add_choice(at);
      if (first_tokens[at] == HOLDFAST_DONE) continue;
      Part part;
      part.choice = choice.choice;
      part.index = choice.next_index;
      part.finish = holdfast::wire::finish_name(choice.finish);
      if (!releasers[at].stopped()) part.text = releasers[at].finish();
      parts.push_back(std::move(part));
    }
    changed.notify_all();
  }

  void on_failure(const Failure& why) {
    const std::lock_guard lock(mutex);
    if (std::exchange(over, true)) return;
    failure = std::make_unique<Failure>(why);
    changed.notify_all();
  }

  /// Makes the first part that waits the current one.
  void take() {
    current = std::move(parts.front());
    parts.pop_front();
    if (parts.size() <= kReleasedParts && std::exchange(held, false))
      client->hold_stream(id, false);
  }

  /// Points `part` at the current one.
  void show(holdfast_part* part) const {
    *part = {};
    part->choice = current.choice;
    part->index = current.index;
    part->ids = current.ids.data();
    part->id_count = static_cast<std::int32_t>(current.ids.size());
    part->text = current.text.data();
    part->text_size = current.text.size();
    part->finish = current.finish.empty() ? nullptr : current.finish.c_str();
  }

 private:
  void add_choice(std::size_t choice) {
    if (releasers.size() <= choice) {
      releasers.resize(choice + 1, holdfast::text::Releaser(stops));
    }
    if (first_tokens.size() <= choice) first_tokens.resize(choice + 1, 0);
  }

  void push(Part part) {
    parts.push_back(std::move(part));
    changed.notify_all();
    if (parts.size() < kHeldParts || std::exchange(held, true)) return;
    client->hold_stream(id, true);
  }
};

}  // namespace

struct holdfast_stream {
  std::shared_ptr<Reader> reader;
};

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

holdfast_client* holdfast_open(const char* state_dir, unsigned flags, holdfast_error** error) {
  return guarded<holdfast_client*>(error, nullptr, [&]() -> holdfast_client* {
    auto client = std::make_unique<holdfast_client>();
    client->state_dir = state_dir != nullptr ? state_dir : holdfast::default_state_dir();
    if ((flags & HOLDFAST_START) != 0) {
      if (const auto up = holdfast::sdk::ensure_server(client->state_dir); !up) {
        set_error(error, up.error());
        return nullptr;
      }
    }
    const std::string run = "ipc://" + client->state_dir + "/run/";
    for (const auto& [socket, client_of] :
         {std::pair{"clients.sock", &client->requests}, {"operator.sock", &client->operating}}) {
      auto connected = holdfast::client::Client::connect(run + socket);
      if (!connected) {
        set_error(error, connected.error());
        return nullptr;
      }
      *client_of = std::move(connected).value();
    }
    return client.release();
  });
}

void holdfast_close(holdfast_client* client) {
  delete client;
}

int holdfast_stop_server(holdfast_client* client, holdfast_error** error) {
  return guarded(error, HOLDFAST_FAILED, [&] {
    const auto stopped = holdfast::sdk::stop_server(client->state_dir);
    if (stopped) return 0;
    set_error(error, stopped.error());
    return HOLDFAST_FAILED;
  });
}

char* holdfast_submit(holdfast_client* client, const char* request, holdfast_error** error) {
  return guarded<char*>(error, nullptr, [&]() -> char* {
    auto parsed = holdfast::sdk::parse_request(request == nullptr ? "" : request);
    if (!parsed) {
      set_error(error, parsed.error());
      return nullptr;
    }
    const auto answer =
        client->requests->submit(Principal::local(parsed->tenant), std::move(parsed->submit));
    if (const auto* failure = std::get_if<Failure>(&answer)) {
      set_error(error, *failure);
      return nullptr;
    }
    return copy(std::get<holdfast::wire::Accepted>(answer).info.request_id);
  });
}

static char* state_of(const Answer<holdfast::wire::RequestInfo>& answer, holdfast_error** error) {
  if (const auto* failure = std::get_if<Failure>(&answer)) {
    set_error(error, *failure);
    return nullptr;
  }
  return copy(holdfast::sdk::state_json(std::get<holdfast::wire::RequestInfo>(answer)));
}

char* holdfast_status(holdfast_client* client, const char* id, holdfast_error** error) {
  return guarded<char*>(error, nullptr, [&] {
    return state_of(client->requests->status(holdfast::client::AllTenants::local(), id), error);
  });
}

char* holdfast_cancel(holdfast_client* client, const char* id, holdfast_error** error) {
  return guarded<char*>(error, nullptr, [&] {
    return state_of(client->requests->cancel(holdfast::client::AllTenants::local(), id), error);
  });
}

holdfast_stream* holdfast_attach(holdfast_client* client, const char* id, const int64_t* next,
                                 size_t choices, holdfast_error** error) {
  return guarded<holdfast_stream*>(error, nullptr, [&] {
    auto reader = std::make_shared<Reader>();
    reader->client = client->requests.get();
    if (next != nullptr) reader->first_tokens.assign(next, next + choices);
    holdfast::client::StreamHandler handler;
    handler.on_attached = [reader](const holdfast::wire::RequestInfo& info) {
      reader->on_attached(info);
    };
    handler.on_event = [reader](const holdfast::wire::Event& event) { reader->on_event(event); };
    handler.on_fin = [reader](const holdfast::wire::RequestInfo& info) { reader->on_fin(info); };
    handler.on_failure = [reader](const Failure& failure) { reader->on_failure(failure); };
    const std::lock_guard lock(reader->mutex);  // no handler does anything before the id is set
    reader->id = reader->client->open_stream(holdfast::client::AllTenants::local(), id, {},
                                             std::move(handler));
    return new holdfast_stream{reader};
  });
}

int holdfast_next(holdfast_stream* stream, int timeout_ms, holdfast_part* part,
                  holdfast_error** error) {
  return guarded(error, HOLDFAST_FAILED, [&] {
    Reader& reader = *stream->reader;
    std::unique_lock lock(reader.mutex);
    const auto ready = [&] { return !reader.parts.empty() || reader.over; };
    if (timeout_ms < 0) {
      reader.changed.wait(lock, ready);
    } else if (!reader.changed.wait_for(lock, std::chrono::milliseconds(timeout_ms), ready)) {
      return HOLDFAST_TIMEOUT;
    }
    if (!reader.parts.empty()) {
      reader.take();
      reader.show(part);
      return HOLDFAST_PART;
    }
    if (reader.failure == nullptr) return HOLDFAST_END;
    set_error(error, *reader.failure);
    return HOLDFAST_FAILED;
  });
}

void holdfast_detach(holdfast_stream* stream) {
  if (stream == nullptr) return;
  stream->reader->client->close_stream(stream->reader->id, true);
  delete stream;
}

char* holdfast_models(holdfast_client* client, holdfast_error** error) {
  return guarded<char*>(error, nullptr, [&]() -> char* {
    const auto answer = client->requests->models(holdfast::client::AllTenants::local());
    if (const auto* failure = std::get_if<Failure>(&answer)) {
      set_error(error, *failure);
      return nullptr;
    }
    return copy(
        holdfast::sdk::models_json(std::get<std::vector<holdfast::wire::ModelInfo>>(answer)));
  });
}

/// Calls an operator verb. Returns its result; nullptr and an error if it is refused.
static std::unique_ptr<std::string> operate(holdfast_client* client, const char* verb,
                                            const json& args, holdfast_error** error) {
  auto answer = client->operating->op(holdfast::client::AllTenants::local(), verb, args.dump());
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
