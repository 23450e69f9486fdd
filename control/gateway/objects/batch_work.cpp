#include "control/gateway/objects/batch_work.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <vector>

#include "control/gateway/common/await.h"
#include "control/gateway/common/blame.h"
#include "control/gateway/common/offline_call.h"
#include "control/gateway/common/webhooks.h"
#include "control/gateway/http/errors.h"
#include "control/gateway/http/json_body.h"
#include "control/gateway/objects/batch_input.h"
#include "control/gateway/objects/batches.h"
#include "control/gateway/objects/files.h"
#include "shared/base/clock.h"
#include "shared/base/crash_point.h"
#include "shared/base/json_fields.h"
#include "shared/base/json_text.h"
#include "shared/base/log.h"

namespace holdfast::gateway {
namespace {

constexpr std::int64_t kRefreshMs = 1'000;
constexpr std::int64_t kAgainMs = 500;
constexpr std::size_t kFlushBytes = 256 * 1024;
constexpr std::size_t kWindowBytes = 512 * 1024;  // text that is held before a line
constexpr const char* kExpired = "batch_expired";
// A line that gets no answer while others do is retried this often: the line itself may be the
// cause.
constexpr int kStrikesMax = 20;
constexpr int kStrikesUnreachable = 7;
const client::AllTenants kAllTenants = client::AllTenants::local();  // for the lease and the batch

std::int64_t now_ms() {
  return system_clock().wall_ms();
}

}  // namespace

class BatchWork {
 public:
  BatchWork(Context& context, std::string id, std::string worker, BatchLimits limits,
            std::function<bool()> stopping);

  bool run();

 private:
  using json = nlohmann::ordered_json;
  struct Line {
    bool started = false;
    bool ended = false;
    std::int64_t again_ms = 0;  // earliest time of the next try
    std::int64_t begun_ms = 0;
    int strikes = 0;
    OfflineAnswer answer;
  };
  struct Sink {  // the output or the error file
    std::string id;
    std::int64_t version = 0;
    std::int64_t bytes = 0;
    std::int64_t next = 0;   // next line of the batch, as far as this file tells
    std::int64_t lines = 0;  // lines that it has
  };
  /// Results that are next in order and go to the same file.
  struct Run {
    std::string text;
    bool to_errors = false;
    std::size_t end = 0;  // one past the last line
  };
  /// Receives the answers of calls in flight; it outlives this object.
  struct Inbox {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::size_t, OfflineAnswer> answers;
  };

  bool lease(bool first);
  bool is_free();
  bool refresh();
  bool save();
  bool read_input();
  std::optional<std::string> input_part(std::int64_t at);
  void process_input();
  std::optional<std::string> line_text(const BatchLine& line);
  bool gives_up(Line& line, const OfflineAnswer& answer) const;
  bool open_sink(Sink& sink, const char* member);
  bool work();
  bool pump();
  bool refresh_if_due();
  void end_begun_lines();
  void start_lines();
  void start(std::size_t number);
  void submit(std::size_t number, const std::string& text);
  std::function<void(OfflineAnswer)> answer_to(std::size_t number);
  void cancel(std::size_t number);
  void cancel_older();
  void collect();
  bool flush();
  Run next_run();
  bool append(Sink& sink, const std::string& lines, std::int64_t count, std::int64_t next);
  void count();
  std::string result_of(std::size_t number, bool* failed) const;
  bool finish();
  bool report_unstarted();
  std::string end_status() const;
  bool close();
  bool fail(const std::vector<BatchError>& errors);
  bool close_sink(Sink& sink, const char* member);
  std::string request_id(std::size_t number) const;
  /// The name that is blamed for a death while a line is parsed, before its request exists.
  std::string reading_id(std::size_t number) const { return request_id(number) + ":read"; }
  /// The tenant whose files and requests are processed.
  client::Principal owner() const { return client::Principal::on_behalf_of(stored_batch_.owner); }
  bool cancelling() const { return batch_.value("status", "") == "cancelling"; }
  bool expired() const;
  std::string status() const { return batch_.value("status", std::string()); }

  Context& context_;
  const std::string id_;
  const std::string worker_;
  const BatchLimits limits_;
  const std::function<bool()> stopping_;
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();

  StoredObject stored_batch_;
  json batch_;
  std::int64_t lease_version_ = 0;
  std::int64_t leased_until_ms_ = 0;
  std::int64_t refreshed_ms_ = 0;
  std::string window_;  // part of the input file
  std::int64_t window_from_ = 0;
  std::int64_t last_answer_ms_ = 0;  // last time that the daemon answered
  std::vector<BatchLine> lines_;
  std::map<std::size_t, Line> open_;  // started lines, from next_ on
  std::size_t next_ = 0;              // first line whose result is in no file
  std::size_t begun_ = 0;             // lines [next_, begun_) are in open_
  bool told_to_end_ = false;          // everything in flight was cancelled
  bool cut_ = false;                  // a line has no result because the batch was ended early
  Sink output_, errors_;
};

BatchWork::BatchWork(Context& context, std::string id, std::string worker, BatchLimits limits,
                     std::function<bool()> stopping)
    : context_(context),
      id_(std::move(id)),
      worker_(std::move(worker)),
      limits_(limits),
      stopping_(std::move(stopping)) {}

std::string BatchWork::request_id(std::size_t number) const {
  return id_ + "_" + std::to_string(number + 1);
}

bool BatchWork::expired() const {
  const json at = batch_.value("expires_at", json());
  return at.is_number_integer() && now_ms() / 1000 >= at.get<std::int64_t>();
}

/// Takes the lease, or prolongs it. Returns false if another worker has it.
bool BatchWork::lease(bool first) {
  if (!first && now_ms() < leased_until_ms_ - limits_.lease_ms / 2) return true;
  if (first && !is_free()) return false;
  const std::int64_t until = now_ms() + limits_.lease_ms;
  ObjectChange change;
  change.kind = kOpenBatchKind;
  change.id = id_;
  change.version = lease_version_;
  change.body = json{{"worker", worker_}, {"until_ms", until}}.dump();
  const auto put = await<ObjectStore::Put>(
      [&](auto done) { context_.object_store->put(kAllTenants, change, std::move(done)); });
  const auto* done = std::get_if<ObjectStore::Put>(&put);
  if (done == nullptr) return false;
  lease_version_ = done->version;
  leased_until_ms_ = until;
  last_answer_ms_ = now_ms();
  return true;
}

/// Reads the lease as it is stored. Returns false if another worker has it, or the batch is not
/// open.
bool BatchWork::is_free() {
  const auto found = await<ObjectStore::Found>([&](auto done) {
    context_.object_store->get(kAllTenants, kOpenBatchKind, id_, std::move(done));
  });
  const auto* open = std::get_if<ObjectStore::Found>(&found);
  if (open == nullptr || !*open) return false;
  const auto body = try_parse_json<json>((*open)->body);
  const bool taken = body.is_object() && body.value("until_ms", std::int64_t{0}) > now_ms() &&
                     body.value("worker", "") != worker_;
  if (taken) return false;
  lease_version_ = (*open)->version;
  return true;
}

/// Reads the batch again: it may have been cancelled.
bool BatchWork::refresh() {
  const auto found = await<ObjectStore::Found>([&](auto done) {
    context_.object_store->get(kAllTenants, kBatchKind, id_, std::move(done));
  });
  const auto* batch = std::get_if<ObjectStore::Found>(&found);
  if (batch == nullptr || !*batch) return false;
  const auto touch_guard = touch(context_.blame, id_);
  stored_batch_ = **batch;
  batch_ = try_parse_json<json>(stored_batch_.body);
  refreshed_ms_ = now_ms();
  return batch_.is_object();
}

/// Stores the batch. Returns false if it was changed meanwhile or cannot be stored; then nothing
/// was.
bool BatchWork::save() {
  ObjectChange change;
  change.kind = kBatchKind;
  change.id = id_;
  change.version = stored_batch_.version;
  change.body = batch_.dump(-1, ' ', false, json::error_handler_t::replace);
  const auto put = await<ObjectStore::Put>(
      [&](auto done) { context_.object_store->put(kAllTenants, change, std::move(done)); });
  const auto* done = std::get_if<ObjectStore::Put>(&put);
  if (done == nullptr) return false;
  stored_batch_.version = done->version;
  return true;
}

/// Reads bytes of the input file from `at` on; nullopt if that cannot be done now.
std::optional<std::string> BatchWork::input_part(std::int64_t at) {
  auto chunk = await<std::string>([&](auto done) {
    context_.object_store->read(owner(), kFileKind, batch_.value("input_file_id", ""), at,
                                std::move(done));
  });
  auto* part = std::get_if<std::string>(&chunk);
  if (part == nullptr || part->empty() || stopping_()) return std::nullopt;
  return std::move(*part);
}

bool BatchWork::read_input() {
  const std::string file = batch_.value("input_file_id", "");
  const auto found = await<ObjectStore::Found>(
      [&](auto done) { context_.object_store->get(owner(), kFileKind, file, std::move(done)); });
  const auto* stored = std::get_if<ObjectStore::Found>(&found);
  if (stored == nullptr) return false;
  if (!*stored) return fail({{"input_file_missing", "the input file is not there any more", 0}});
  const std::int64_t bytes = (*stored)->bytes;
  const auto guard = [this](std::size_t number, const std::function<void()>& read) {
    if (is_poison(context_.blame, reading_id(number))) return false;
    const auto touch_guard = touch(context_.blame, reading_id(number));
    crash_point(CrashPoint::kGatewayBatchRead);
    read();
    return true;
  };
  BatchReader reader(batch_.value("endpoint", ""), context_.params.body_bytes, guard);
  for (std::int64_t at = 0; at < bytes && !reader.is_hopeless();) {
    const auto part = input_part(at);
    if (!part || !lease(false)) return false;
    reader.feed(*part);
    at += static_cast<std::int64_t>(part->size());
  }
  const auto errors = reader.end();
  lines_ = std::move(reader.lines());
  return errors.empty() || fail(errors);
}

/// Returns the text of a line; nullopt if it cannot be read now.
std::optional<std::string> BatchWork::line_text(const BatchLine& line) {
  const auto end = [this] { return window_from_ + static_cast<std::int64_t>(window_.size()); };
  if (line.from < window_from_ || line.from > end()) {
    window_.clear();
    window_from_ = line.from;
  } else if (const auto consumed = static_cast<std::size_t>(line.from - window_from_);
             consumed > kWindowBytes) {
    window_.erase(0, consumed);
    window_from_ = line.from;
  }
  const std::int64_t line_end = line.from + static_cast<std::int64_t>(line.bytes);
  while (end() < line_end) {
    const auto part = input_part(end());
    if (!part) return std::nullopt;
    window_ += *part;
  }
  return window_.substr(static_cast<std::size_t>(line.from - window_from_), line.bytes);
}

/// Finds the file of results and how far it is. The file is made with its first line.
bool BatchWork::open_sink(Sink& sink, const char* member) {
  sink.id = "file-" + id_ + (std::string(member) == "output_file_id" ? "_output" : "_error");
  const auto found = await<ObjectStore::Found>(
      [&](auto done) { context_.object_store->get(owner(), kFileKind, sink.id, std::move(done)); });
  const auto* stored = std::get_if<ObjectStore::Found>(&found);
  if (stored == nullptr) return false;
  if (!*stored) return true;
  const json body = try_parse_json<json>((*stored)->body);
  sink.version = (*stored)->version;
  sink.bytes = (*stored)->bytes;
  if (body.is_object()) {
    sink.next = body.value("next_line", std::int64_t{0});
    sink.lines = body.value("lines", std::int64_t{0});
    cut_ = cut_ || body.value("cut", false);
  }
  return true;
}

/// Appends results and stores how far they are, in one transaction.
bool BatchWork::append(Sink& sink, const std::string& lines, std::int64_t count,
                       std::int64_t next) {
  ObjectChange change;
  change.kind = kFileKind;
  change.id = sink.id;
  change.version = sink.version;
  json body = try_parse_json<json>(file_body(
      {id_ + (&sink == &output_ ? "_output.jsonl" : "_error.jsonl"), "batch_output", "", false}));
  body["next_line"] = next;
  body["lines"] = sink.lines + count;
  if (cut_) body["cut"] = true;
  change.body = body.dump();
  change.append = lines;
  change.append_at = sink.bytes;
  const auto put = await<ObjectStore::Put>(
      [&](auto done) { context_.object_store->put(owner(), change, std::move(done)); });
  const auto* done = std::get_if<ObjectStore::Put>(&put);
  if (done == nullptr) return false;
  sink.version = done->version;
  sink.bytes = done->bytes;
  sink.next = next;
  sink.lines += count;
  crash_point(CrashPoint::kGatewayBatchAppended);
  return true;
}

void BatchWork::count() {
  batch_["request_counts"] = {
      {"total", lines_.size()}, {"completed", output_.lines}, {"failed", errors_.lines}};
}

/// Makes the whole file visible. Its body still says how far it is: if this process dies before the
/// batch has ended, the next one reads that and ends the batch.
bool BatchWork::close_sink(Sink& sink, const char* member) {
  if (sink.version == 0) return true;
  const auto found = await<ObjectStore::Found>(
      [&](auto done) { context_.object_store->get(owner(), kFileKind, sink.id, std::move(done)); });
  const auto* stored = std::get_if<ObjectStore::Found>(&found);
  if (stored == nullptr || !*stored) return false;
  ObjectChange change;
  change.kind = kFileKind;
  change.id = sink.id;
  change.body = whole_file_body((*stored)->body);
  const auto put = await<ObjectStore::Put>(
      [&](auto done) { context_.object_store->put(owner(), change, std::move(done)); });
  if (!std::holds_alternative<ObjectStore::Put>(put)) return false;
  batch_[member] = sink.id;
  return true;
}

std::function<void(OfflineAnswer)> BatchWork::answer_to(std::size_t number) {
  return [inbox = inbox_, number](OfflineAnswer a) {
    const std::lock_guard lock(inbox->mutex);
    inbox->answers[number] = std::move(a);
    inbox->changed.notify_all();
  };
}

void BatchWork::start(std::size_t number) {
  Line& line = open_[number];
  line.started = true;
  line.begun_ms = now_ms();
  const std::string id = request_id(number);
  if (is_poison(context_.blame, id) || is_poison(context_.blame, reading_id(number))) {
    const std::string name = "line " + std::to_string(number + 1) + " of the batch";
    return answer_to(number)({error_response(poison_refusal(name)), false});
  }
  if (!lines_[number].refusal.empty()) {
    return answer_to(number)({error_response(FieldError{lines_[number].refusal, "body"}), false});
  }
  const auto text = line_text(lines_[number]);
  if (!text) {
    line.started = false;
    line.again_ms = now_ms() + kAgainMs;
    return;
  }
  const auto touch_guard = touch(context_.blame, id);
  crash_point(CrashPoint::kGatewayBatchBegun);
  try {
    submit(number, *text);
  } catch (const std::bad_alloc&) {
    answer_to(number)({memory_response(), false});
  }
}

void BatchWork::submit(std::size_t number, const std::string& text) {
  json parsed;
  Generation generation;
  generation.submit.priority = wire::PriorityClass::kBatch;
  FieldError error;
  const std::string endpoint = batch_.value("endpoint", "");
  const ParseBody parse = parser_of(endpoint);
  JsonLimits limits = kBodyLimits;
  ++limits.depth_max;  // for the line around the body
  if (parse == nullptr || !parse_json_object(text, &parsed, &error, limits) ||
      !parse(parsed["body"], context_.params, &generation, &error)) {
    return answer_to(number)({error_response(error), false});
  }
  const json& body = parsed["body"];
  if (generation.shape.stream) {
    return answer_to(number)(
        {error_response(FieldError{"'stream' is not for batches", "stream"}), false});
  }
  if (!body.contains("priority")) generation.submit.priority = wire::PriorityClass::kBatch;
  // The highest priority is a right of keys, and a line has none.
  if (generation.submit.priority == wire::PriorityClass::kInteractive) {
    generation.submit.priority = wire::PriorityClass::kNormal;
  }
  generation.shape.body_hash = hash_body(endpoint, body);
  call_offline(context_, owner(), std::move(generation), request_id(number), answer_to(number));
}

/// True if the line gets no answer although the daemon answers others.
bool BatchWork::gives_up(Line& line, const OfflineAnswer& answer) const {
  if (last_answer_ms_ <= line.begun_ms) return false;
  if (answer.unreachable) line.strikes += kStrikesUnreachable;
  if (answer.response.status == http_status(Errc::kTimeout)) ++line.strikes;
  return line.strikes > kStrikesMax;
}

/// Takes the answers that have come, and waits up to 100 ms for one.
void BatchWork::collect() {
  std::unique_lock lock(inbox_->mutex);
  inbox_->changed.wait_for(lock, std::chrono::milliseconds(100),
                           [&] { return !inbox_->answers.empty(); });
  auto answers = std::exchange(inbox_->answers, {});
  lock.unlock();
  for (auto& [number, answer] : answers) {
    const auto it = open_.find(number);
    if (it == open_.end()) continue;
    it->second.started = false;
    if (!answer.passing) last_answer_ms_ = now_ms();
    if (answer.passing && !told_to_end_ && !gives_up(it->second, answer)) {
      it->second.again_ms = now_ms() + kAgainMs;
      continue;
    }
    it->second.ended = true;
    it->second.answer = std::move(answer);
  }
}

std::string BatchWork::result_of(std::size_t number, bool* failed_line) const {
  const auto touch_guard = touch(context_.blame, request_id(number));
  const Line& line = open_.at(number);
  const std::string& custom_id = lines_[number].custom_id;
  const int status = line.answer.response.status;
  *failed_line = status >= 400 || !line.answer.whole;
  if (told_to_end_ && *failed_line) {
    return batch_error_line(request_id(number), custom_id,
                            cancelling() ? "batch_cancelled" : kExpired,
                            cancelling() ? "the batch was cancelled before this request had ended"
                                         : "the batch expired before this request had ended");
  }
  return batch_result_line(request_id(number), custom_id, status, line.answer.response.body);
}

/// Appends the results that are next in order to their files. Returns false if another worker has
/// taken the files over.
bool BatchWork::flush() {
  while (next_ < lines_.size()) {
    const Run run = next_run();
    if (run.end == next_) return true;
    Sink& sink = run.to_errors ? errors_ : output_;
    const auto lines = static_cast<std::int64_t>(run.end - next_);
    if (!append(sink, run.text, lines, static_cast<std::int64_t>(run.end))) return false;
    open_.erase(open_.begin(), open_.lower_bound(run.end));
    next_ = run.end;
  }
  return true;
}

BatchWork::Run BatchWork::next_run() {
  Run run;
  for (run.end = next_; run.end < lines_.size() && run.text.size() < kFlushBytes; ++run.end) {
    const auto it = open_.find(run.end);
    if (it == open_.end() || !it->second.ended) break;
    bool bad = false;
    const std::string text = result_of(run.end, &bad);
    if (run.end > next_ && bad != run.to_errors) break;
    cut_ = cut_ || (bad && told_to_end_);
    run.to_errors = bad;
    run.text += text;
  }
  return run;
}

/// Cancels the lines that a dead worker had started: no one waits for them any more.
void BatchWork::cancel_older() {
  const std::size_t most = next_ + static_cast<std::size_t>(limits_.lines);
  for (std::size_t i = next_; i < std::min(most, lines_.size()); ++i) cancel(i);
}

void BatchWork::cancel(std::size_t number) {
  context_.client.cancel_async(owner(), request_id(number),
                               [](const client::Answer<wire::RequestInfo>&) {});
}

/// Starts lines within the limit and takes answers. Returns false if the work ends here, for now.
bool BatchWork::pump() {
  if (stopping_() || !lease(false)) return false;
  if (!refresh_if_due()) return false;
  if (!told_to_end_ && (cancelling() || expired())) end_begun_lines();
  if (!told_to_end_) start_lines();
  collect();
  return flush();
}

/// Reads the batch and stores its counts now and then. Returns false if it cannot be read.
bool BatchWork::refresh_if_due() {
  if (now_ms() - refreshed_ms_ <= kRefreshMs) return true;
  if (!refresh()) return false;
  const json before = batch_["request_counts"];
  count();
  if (batch_["request_counts"] != before && !save()) refreshed_ms_ = 0;  // changed just now
  return true;
}

/// Cancels everything in flight.
void BatchWork::end_begun_lines() {
  told_to_end_ = true;
  for (auto& [number, line] : open_) {
    if (line.ended) continue;
    cancel(number);
    if (line.started) continue;
    line.ended = true;  // it waited for another try
    line.answer.response = error_response(503, "not accepted");
  }
  if (open_.empty()) cancel_older();
}

/// Starts lines whose next try is due, and new ones within the limit.
void BatchWork::start_lines() {
  for (auto& [number, line] : open_) {
    if (!line.started && !line.ended && now_ms() >= line.again_ms) start(number);
  }
  while (begun_ < lines_.size() && begun_ - next_ < static_cast<std::size_t>(limits_.lines)) {
    start(begun_++);
  }
}

bool BatchWork::work() {
  if (!open_sink(output_, "output_file_id") || !open_sink(errors_, "error_file_id")) return false;
  next_ = begun_ = static_cast<std::size_t>(std::max(output_.next, errors_.next));
  while (told_to_end_ ? next_ < begun_ : next_ < lines_.size()) {
    if (!pump()) return false;
  }
  return finish();
}

/// Ends the batch; the results of all started lines are in the files. A batch that a client cancels
/// ends as cancelled even if all of its lines had been started.
bool BatchWork::finish() {
  const bool begun = next_ == lines_.size();
  if (!begun && !cancelling() && !report_unstarted()) return false;  // expired
  if (!refresh()) return false;
  count();
  const std::string end = end_status();
  if (end == "completed") set_batch_status(batch_, "finalizing", now_ms());
  if (!close_sink(output_, "output_file_id") || !close_sink(errors_, "error_file_id")) return false;
  crash_point(CrashPoint::kGatewayBatchClosed);
  set_batch_status(batch_, end, now_ms());
  return save();
}

std::string BatchWork::end_status() const {
  if (cancelling()) return "cancelled";
  return cut_ ? "expired" : "completed";
}

/// Reports each line that was not started as expired.
bool BatchWork::report_unstarted() {
  cut_ = true;
  std::string rest;
  std::int64_t lines = 0;
  for (std::size_t i = next_; i < lines_.size(); ++i) {
    ++lines;
    rest += batch_error_line(request_id(i), lines_[i].custom_id, kExpired,
                             "the batch expired before this request was begun");
    if (rest.size() < kFlushBytes && i + 1 < lines_.size()) continue;
    const auto next = static_cast<std::int64_t>(i + 1);
    if (!lease(false) || !append(errors_, rest, std::exchange(lines, 0), next)) return false;
    rest.clear();
  }
  return true;
}

bool BatchWork::fail(const std::vector<BatchError>& errors) {
  json data = json::array();
  for (const BatchError& error : errors) {
    data.push_back({{"code", error.code},
                    {"message", error.message},
                    {"param", nullptr},
                    {"line", error.line > 0 ? json(error.line) : json()}});
  }
  batch_["errors"] = {{"object", "list"}, {"data", std::move(data)}};
  set_batch_status(batch_, "failed", now_ms());
  (void)save();
  return false;
}

bool BatchWork::run() {
  if (is_poison(context_.blame, id_)) {
    log::error("a batch is not worked on: gateways crashed over it", {{"batch", id_}});
    return false;
  }
  if (!lease(true)) return false;
  if (!refresh()) {
    // The batch was made just now and its second half is to come, or its maker died between the
    // two.
    return false;
  }
  if (!batch_ended(status())) {
    process_input();
    if (!refresh()) return false;
  }
  return batch_ended(status()) && close();
}

/// Reads the input and works on its lines.
void BatchWork::process_input() {
  if (!read_input()) return;
  batch_["request_counts"]["total"] = lines_.size();
  if (status() == "validating") set_batch_status(batch_, "in_progress", now_ms());
  if (save()) work();
}

/// Tells webhooks of the end and removes the batch from the open ones. The batch stays open until
/// here, so the next worker repeats this after a death.
bool BatchWork::close() {
  const json at = batch_.value(status() + "_at", json());
  const std::int64_t ended_s = at.is_number_integer() ? at.get<std::int64_t>() : 0;
  if (!put_deliveries(*context_.object_store,
                      {"batch." + status(), id_, stored_batch_.owner, ended_s * 1000})) {
    return false;
  }
  log::info("batch ended", {{"batch", id_}, {"status", status()}});
  (void)await<bool>([&](auto done) {
    context_.object_store->remove(kAllTenants, kOpenBatchKind, id_, std::move(done));
  });
  return true;
}

bool work_on_batch(Context& context, const std::string& id, const std::string& worker,
                   BatchLimits limits, std::function<bool()> stopping) {
  return BatchWork(context, id, worker, limits, std::move(stopping)).run();
}

}  // namespace holdfast::gateway
