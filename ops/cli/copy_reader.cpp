#include "ops/cli/copy_reader.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <variant>

#include "ops/terminal/interrupt.h"
#include "shared/base/json_text.h"
#include "shared/huggingface/sha256.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr const char* kReceiving = "receiving";
constexpr milliseconds kLook{200};
constexpr milliseconds kFarewell{2'000};
constexpr milliseconds kSilent{3'000};  // then the link may be cut

Error wrong_answer(const std::string& verb) {
  return {Errc::kInvalidRequest, verb + ": the daemon's answer has another form"};
}

/// Reads the answer about a copy that is ready.
Result<CopyFacts> facts_of(const json& document) {
  try {
    CopyFacts facts;
    facts.bytes = document.at("bytes").get<std::int64_t>();
    facts.pages = document.at("pages").get<std::int64_t>();
    facts.range_bytes = document.at("range_bytes").get<std::int64_t>();
    facts.sha256 = document.at("sha256").get<std::string>();
    if (facts.bytes <= 0 || facts.range_bytes <= 0) return wrong_answer("db.copy");
    return facts;
  } catch (const json::exception&) {
    return wrong_answer("db.copy");
  }
}

}  // namespace

CopyReader::~CopyReader() {
  if (!id_.empty()) (void)ask("db.copy_end", 0, 0).wait_for(kFarewell);
}

CopyReader::Future CopyReader::ask(const std::string& verb, std::int64_t offset,
                                   std::int64_t bytes) {
  json args = {{"copy", id_}};
  if (bytes > 0) {
    args["offset"] = offset;
    args["bytes"] = bytes;
  }
  auto promise = std::make_shared<std::promise<client::Answer<client::OpAnswer>>>();
  Future future = promise->get_future();
  client_.op_bytes_async(client::AllTenants::local(), verb, args.dump(), {},
                         [promise](client::Answer<client::OpAnswer> answer) {
                           promise->set_value(std::move(answer));
                         });
  return future;
}

/// Waits for an answer, over cut links too; kCancelled after a signal.
Result<client::OpAnswer> CopyReader::wait_for(Future& future) {
  HOLDFAST_CHECKED(check_interrupt("db backup"));
  const auto since = std::chrono::steady_clock::now();
  while (future.wait_for(kLook) != std::future_status::ready) {
    HOLDFAST_CHECKED(check_interrupt("db backup"));
    if (std::chrono::steady_clock::now() - since > kSilent) show("waiting for the server");
  }
  auto answer = future.get();
  if (auto* failure = std::get_if<client::Failure>(&answer)) {
    return Error{failure->code, std::move(failure->message)};
  }
  return std::get<client::OpAnswer>(std::move(answer));
}

void CopyReader::show(const std::string& state) {
  view_.show({name_, state, done_, bytes_, state == kReceiving, {}});
}

Result<CopyFacts> CopyReader::begin() {
  // New for each copy: a daemon that was started again must not give another one in its place.
  id_ = client::new_request_id();
  for (;;) {
    Future future = ask("db.copy", 0, 0);
    HOLDFAST_TRY(const client::OpAnswer answer, wait_for(future));
    const json document = try_parse_json<json>(answer.text);
    if (!document.is_object()) return wrong_answer("db.copy");
    const auto state = document.value("state", std::string());
    if (state == "ready") return facts_of(document);
    done_ = document.value("done_bytes", std::int64_t{0});
    bytes_ = document.value("bytes", std::int64_t{0});
    show(state);
    HOLDFAST_CHECKED(check_interrupt("db backup"));
    std::this_thread::sleep_for(kLook);
  }
}

Result<void> CopyReader::read(const CopyFacts& facts,
                              const std::function<Result<void>(std::string_view)>& write) {
  huggingface::Sha256 sha;
  std::deque<std::pair<std::int64_t, Future>> under_way;  // with their sizes
  std::int64_t requested = 0;
  bytes_ = facts.bytes;
  for (done_ = 0; done_ < facts.bytes;) {
    while (under_way.size() < kRangesUnderWay && requested < facts.bytes) {
      const std::int64_t bytes = std::min(facts.range_bytes, facts.bytes - requested);
      under_way.emplace_back(bytes, ask("db.copy_range", requested, bytes));
      requested += bytes;
    }
    HOLDFAST_TRY(const client::OpAnswer answer, wait_for(under_way.front().second));
    if (static_cast<std::int64_t>(answer.bytes.size()) != under_way.front().first) {
      return wrong_answer("db.copy_range");
    }
    under_way.pop_front();
    sha.add(answer.bytes.data(), answer.bytes.size());
    HOLDFAST_CHECKED(write(answer.bytes));
    done_ += static_cast<std::int64_t>(answer.bytes.size());
    show(kReceiving);
  }
  const std::string found = sha.end_hex();
  if (found == facts.sha256) return {};
  return Error{Errc::kFileInvalid, "db backup: what came has the SHA-256 " + found +
                                       ", and the copy at the server " + facts.sha256 +
                                       "; take it again"};
}

}  // namespace holdfast::cli
