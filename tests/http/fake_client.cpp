#include "tests/http/fake_client.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "shared/base/check.h"

namespace holdfast::test {

using client::Answer;
using client::Failure;
using wire::RequestInfo;

namespace {

Failure not_found(const std::string& id) {
  Failure failure;
  failure.code = Errc::kNotFound;
  failure.message = "no request " + id;
  return failure;
}

}  // namespace

FakeClient::FakeClient(unsigned seed) : random_(seed), thread_([this] { loop(); }) {}

FakeClient::~FakeClient() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void FakeClient::call(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (silent) return;
  calls_.push_back(std::move(work));
  changed_.notify_all();
}

void FakeClient::loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (!calls_.empty()) {
      const auto work = std::move(calls_.front());
      calls_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    } else if (!pump(lock)) {
      changed_.wait(lock);
    }
  }
}

const std::vector<std::string>& FakeClient::token_bytes_of(const Stored& stored, int choice) const {
  static const std::vector<std::string> kNone;
  if (stored.script.token_bytes.empty()) return kNone;
  return stored.script.token_bytes[std::min<std::size_t>(static_cast<std::size_t>(choice),
                                                         stored.script.token_bytes.size() - 1)];
}

bool FakeClient::is_over(const Stored& stored) const {
  return stored.finished;
}

RequestInfo FakeClient::info_of(const Stored& stored) const {
  RequestInfo info = stored.info;
  for (wire::ChoiceInfo& choice : info.choices) {
    const auto size = static_cast<std::int64_t>(token_bytes_of(stored, choice.choice).size());
    choice.next_index = std::min(stored.committed, size);
    if (stored.finished && choice.finish == wire::FinishReason::kNone) {
      choice.finish = stored.script.finish;
    }
  }
  if (stored.committed == 0 && !stored.finished) {
    info.queue_position = queue_position;
    if (queue_position >= 0) info.eta_ms = 100 * (queue_position + 1);
  }
  if (stored.finished && info.state == wire::RequestState::kRunning) {
    info.state = wire::RequestState::kSucceeded;
  }
  return info;
}

/// Does one step of one stream: attach, a random part of the available tokens, or the end. Returns
/// false if there is nothing to do.
bool FakeClient::pump(std::unique_lock<std::mutex>& lock) {
  for (auto& [id, stream] : streams_) {
    if (stream.held) continue;
    const Stored& stored = requests_.at(stream.request_id);
    for (std::size_t c = 0; c < stream.next.size(); ++c) {
      const auto& token_bytes = token_bytes_of(stored, static_cast<int>(c));
      const std::int64_t there =
          std::min<std::int64_t>(stored.committed, static_cast<std::int64_t>(token_bytes.size()));
      if (stream.next[c] >= there) continue;
      const std::int64_t most = std::min<std::int64_t>(there - stream.next[c], 5);
      const std::int64_t n = std::uniform_int_distribution<std::int64_t>(1, most)(random_);
      wire::Event event;
      event.request_id = stream.request_id;
      event.choice = static_cast<std::int32_t>(c);
      event.start = stream.next[c];
      for (std::int64_t i = event.start; i < event.start + n; ++i) {
        event.ids.push_back(static_cast<wire::TokenId>(i));
        event.bytes += token_bytes[static_cast<std::size_t>(i)];
        event.ends.push_back(static_cast<std::uint32_t>(event.bytes.size()));
        if (!stored.script.extra.empty()) {
          event.extra.push_back(stored.script.extra[static_cast<std::size_t>(i)]);
        } else if (c < stored.script.choice_extra.size()) {
          event.extra.push_back(stored.script.choice_extra[c]);
        }
      }
      stream.next[c] += n;
      const auto on_event = stream.handler.on_event;
      lock.unlock();
      on_event(event);
      lock.lock();
      return true;
    }
    if (is_over(stored)) {
      const auto on_fin = stream.handler.on_fin;
      const RequestInfo info = info_of(stored);
      streams_.erase(id);
      lock.unlock();
      on_fin(info);
      lock.lock();
      return true;
    }
  }
  return false;
}

void FakeClient::commit(const std::string& request_id, std::int64_t n, bool finish) {
  const std::lock_guard lock(mutex_);
  Stored& stored = requests_.at(request_id);
  stored.committed = n;
  stored.finished = finish;
  changed_.notify_all();
}

wire::Submit FakeClient::last_submit() {
  const std::lock_guard lock(mutex_);
  return last_submit_;
}
int FakeClient::submits() {
  const std::lock_guard lock(mutex_);
  return submits_;
}
int FakeClient::cancels() {
  const std::lock_guard lock(mutex_);
  return cancels_;
}
int FakeClient::left_for_good() {
  const std::lock_guard lock(mutex_);
  return left_for_good_;
}
int FakeClient::open_streams() {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(streams_.size());
}
int FakeClient::holds() {
  const std::lock_guard lock(mutex_);
  return holds_;
}

/// Finds an object; another tenant's is not found.
std::map<std::string, FakeClient::Stored>::iterator FakeClient::find(const client::Caller& caller,
                                                                     const std::string& id) {
  const auto found = requests_.find(id);
  if (found == requests_.end() || caller.tenant().empty()) return found;
  return found->second.info.tenant == caller.tenant() ? found : requests_.end();
}

Answer<wire::Accepted> FakeClient::accept(const wire::Submit& submit) {
  const std::lock_guard lock(mutex_);
  if (failure) return *failure;
  if (!submit.idem_key.empty() && by_key_.contains(submit.idem_key)) {
    const Stored& stored = requests_.at(by_key_[submit.idem_key]);
    if (stored.body_hash == submit.body_hash) return wire::Accepted{0, true, info_of(stored), key};
    Failure mismatch;
    mismatch.code = Errc::kIdempotencyMismatch;
    mismatch.message = "this Idempotency-Key came with another body";
    return mismatch;
  }
  if (context_left && submit.max_tokens.value_or(1) > *context_left) {
    Failure over;
    over.code = Errc::kContextExceeded;
    over.free = *context_left;
    over.message = "do not fit the context of 100 tokens";
    return over;
  }
  last_submit_ = submit;
  ++submits_;
  Stored stored;
  stored.script = script;
  stored.body_hash = submit.body_hash;
  RequestInfo& info = stored.info;
  info.request_id = submit.request_id;
  info.tenant = submit.tenant;
  info.model = submit.model;
  info.model_sha = "0123456789abcdef0123456789abcdef";
  info.state = wire::RequestState::kRunning;
  info.created_ms = 1'700'000'000'000 + submits_ * 1000;
  info.max_tokens = submit.max_tokens.value_or(100);
  info.sampling = submit.sampling;
  info.stops = submit.stops;
  info.echo = submit.echo;
  info.meta = submit.meta;
  for (std::size_t p = 0; p < submit.prompts.size(); ++p) {
    info.prompt_tokens.push_back(7);
    if (submit.echo) info.prompt_text.push_back(submit.prompts[p].text.value_or("<ids>"));
    for (int i = 0; i < submit.n; ++i) {
      wire::ChoiceInfo choice;
      choice.choice = static_cast<std::int32_t>(info.choices.size());
      choice.prompt = static_cast<std::int32_t>(p);
      info.choices.push_back(choice);
    }
  }
  if (!hold_tokens) {
    stored.committed = 1'000'000'000;
    stored.finished = true;
  }
  if (!submit.idem_key.empty()) by_key_[submit.idem_key] = submit.request_id;
  requests_[submit.request_id] = stored;
  return wire::Accepted{0, false, info, key};
}

void FakeClient::submit_async(const client::Principal& principal, wire::Submit submit,
                              std::function<void(Answer<wire::Accepted>)> done) {
  submit.tenant = principal.tenant();
  submit.api_key = principal.key();
  call([this, submit = std::move(submit), done = std::move(done)] { done(accept(submit)); });
}

void FakeClient::status_async(const client::Caller& caller, const std::string& id,
                              std::function<void(Answer<RequestInfo>)> done) {
  call([this, caller, id, done = std::move(done)] {
    std::unique_lock lock(mutex_);
    const auto found = find(caller, id);
    Answer<RequestInfo> answer = not_found(id);
    if (failure) answer = *failure;
    if (!failure && found != requests_.end()) answer = info_of(found->second);
    lock.unlock();
    done(std::move(answer));
  });
}

void FakeClient::cancel_async(const client::Caller& caller, const std::string& id,
                              std::function<void(Answer<RequestInfo>)> done) {
  call([this, caller, id, done = std::move(done)] {
    std::unique_lock lock(mutex_);
    const auto found = find(caller, id);
    Answer<RequestInfo> answer = not_found(id);
    if (found != requests_.end()) {
      ++cancels_;
      Stored& stored = found->second;
      if (!stored.finished) {
        stored.finished = true;
        stored.info.state = wire::RequestState::kCancelled;
        for (auto& choice : stored.info.choices) choice.finish = wire::FinishReason::kCancelled;
      }
      answer = info_of(stored);
    }
    lock.unlock();
    done(std::move(answer));
  });
}

void FakeClient::models_async(const client::Caller&,
                              std::function<void(Answer<std::vector<wire::ModelInfo>>)> done) {
  call([this, done = std::move(done)] {
    if (failure) return done(*failure);
    done(model_list);
  });
}

client::StreamId FakeClient::open_stream(const client::Caller& caller, const std::string& id,
                                         std::vector<std::int64_t> from,
                                         client::StreamHandler handler) {
  const std::lock_guard lock(mutex_);
  CHECK(from.empty());  // the gateway always needs a stream from its start
  const auto found = find(caller, id);
  CHECK(found != requests_.end());  // the gateway has asked for it before
  const Stored& stored = found->second;
  Stream stream;
  stream.request_id = id;
  stream.next.resize(stored.info.choices.size());
  stream.handler = std::move(handler);
  calls_.push_back([on_attached = stream.handler.on_attached, info = info_of(stored)] {
    if (on_attached) on_attached(info);
  });
  streams_[++last_stream_] = std::move(stream);
  changed_.notify_all();
  return last_stream_;
}

void FakeClient::hold_stream(client::StreamId id, bool hold) {
  const std::lock_guard lock(mutex_);
  if (hold) ++holds_;
  const auto found = streams_.find(id);
  if (found != streams_.end()) found->second.held = hold;
  changed_.notify_all();
}

void FakeClient::close_stream(client::StreamId id, bool for_good) {
  const std::lock_guard lock(mutex_);
  left_for_good_ += for_good ? 1 : 0;
  streams_.erase(id);
  changed_.notify_all();
}

// The gateway never blocks on a submission.
Answer<wire::Accepted> FakeClient::submit(const client::Principal&, wire::Submit) {
  CHECK(false);
}
Answer<RequestInfo> FakeClient::status(const client::Caller&, const std::string&) {
  CHECK(false);
}
Answer<RequestInfo> FakeClient::cancel(const client::Caller&, const std::string&) {
  CHECK(false);
}
Answer<std::vector<wire::ModelInfo>> FakeClient::models(const client::Caller&) {
  CHECK(false);
}
Answer<std::string> FakeClient::op(const client::Caller&, const std::string&, const std::string&) {
  CHECK(false);
}
/// Answers a verb of the object store; nullopt for another verb.
std::optional<Answer<std::string>> FakeClient::object_op(const client::Caller& caller,
                                                         const std::string& verb,
                                                         const std::string& args) {
  using nlohmann::json;
  if (!stores_objects) return std::nullopt;
  const json request = json::parse(args);
  if (verb == "ids.derive") {
    const std::string key = request["key"];
    return json{{"id", request["prefix"].get<std::string>() + caller.tenant() + key},
                {"version", 2}}
        .dump();
  }
  if (!verb.starts_with("objects.") || verb == "objects.list") return std::nullopt;
  const std::string name = caller.tenant() + "/" + request["kind"].get<std::string>() + "/" +
                           request["id"].get<std::string>();
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(name);
  const bool there = found != objects_.end();
  if (verb == "objects.delete") return json{{"deleted", objects_.erase(name) > 0}}.dump();
  if (verb == "objects.get") {
    return json{{"found", there}, {"object", there ? json::parse(found->second) : json()}}.dump();
  }
  const std::int64_t version = there ? json::parse(found->second)["version"].get<int>() : 0;
  if (request.contains("version") && request["version"] != version) {
    Failure conflict;
    conflict.code = Errc::kConflict;
    return conflict;
  }
  objects_[name] = json{
      {"seq", 1},
      {"id", request["id"]},
      {"owner", caller.tenant()},
      {"version", version + 1},
      {"created_ms", 1},
      {"expires_ms", 0},
      {"body", request.value("body", json::object())},
      {"bytes", 0}}.dump();
  return json{{"version", version + 1}, {"bytes", 0}}.dump();
}

void FakeClient::op_async(const client::Caller& caller, const std::string& verb,
                          const std::string& args, std::function<void(Answer<std::string>)> done) {
  {
    const std::lock_guard lock(mutex_);
    ++ops_;
    op_args_[verb] = args;
  }
  call([this, caller, verb, args, done = std::move(done)] {
    if (failure) return done(*failure);
    const auto answer = op_results.contains(verb) ? std::nullopt : object_op(caller, verb, args);
    done(answer ? *answer : op_results[verb]);
  });
}
void FakeClient::op_bytes_async(const client::Caller& caller, const std::string& verb,
                                const std::string& args, std::string,
                                std::function<void(client::Answer<client::OpAnswer>)> done) {
  op_async(caller, verb, args, [done = std::move(done)](const Answer<std::string>& answer) {
    if (const auto* wrong = std::get_if<1>(&answer)) return done(*wrong);
    done(client::OpAnswer{std::get<0>(answer), {}});
  });
}
int FakeClient::ops() {
  const std::lock_guard lock(mutex_);
  return ops_;
}
std::string FakeClient::op_args(const std::string& verb) {
  const std::lock_guard lock(mutex_);
  return op_args_[verb];
}
Answer<RequestInfo> FakeClient::stream(const client::Caller&, const std::string&,
                                       std::vector<std::int64_t>,
                                       const std::function<void(const wire::Event&)>&) {
  CHECK(false);
}

}  // namespace holdfast::test
